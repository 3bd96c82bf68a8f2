/* vec.h - lanes of one instruction set, on GCC/Clang vector extensions.
 *
 * Included once by every isa/<name>.c, inside its target pragma, after HYB_ISA and HYB_VECTOR_BYTES
 * are defined.  Everything is static.  Masks are integer vectors of the lane's size: all ones or zero.
 */
#ifndef HYB_VEC_H
#define HYB_VEC_H

#define HYB_LANES_32 (HYB_VECTOR_BYTES / 4)
#define HYB_LANES_64 (HYB_VECTOR_BYTES / 8)

typedef float    v_f32 __attribute__((vector_size(HYB_VECTOR_BYTES)));
typedef double   v_f64 __attribute__((vector_size(HYB_VECTOR_BYTES)));
typedef int32_t  v_i32 __attribute__((vector_size(HYB_VECTOR_BYTES)));
typedef uint32_t v_u32 __attribute__((vector_size(HYB_VECTOR_BYTES)));
typedef int64_t  v_i64 __attribute__((vector_size(HYB_VECTOR_BYTES)));
typedef uint64_t v_u64 __attribute__((vector_size(HYB_VECTOR_BYTES)));

/* load, load the first n lanes (the rest are zero), store, store the first n lanes, splat. */
#define HYB_VEC_MEMORY(T, V, name)                                                             \
    static inline V v_load_##name(const T *p) { V v; memcpy(&v, p, sizeof v); return v; }      \
    static inline V v_load_part_##name(const T *p, int64_t n)                                  \
    {                                                                                          \
        V v = {0};                                                                             \
        memcpy(&v, p, (size_t)n * sizeof(T));                                                  \
        return v;                                                                              \
    }                                                                                          \
    static inline void v_store_##name(T *p, V v) { memcpy(p, &v, sizeof v); }                  \
    static inline void v_store_part_##name(T *p, V v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof(T)); } \
    static inline V v_splat_##name(T x) { return (V){0} + x; }

HYB_VEC_MEMORY(float, v_f32, f32)
HYB_VEC_MEMORY(double, v_f64, f64)
HYB_VEC_MEMORY(int32_t, v_i32, i32)
HYB_VEC_MEMORY(int64_t, v_i64, i64)

/* mask ? a : b, lane by lane (GCC 12 has no vector ?: in C; this becomes a blend). */
static inline v_f32 v_select_f32(v_i32 mask, v_f32 a, v_f32 b)
{
    return (v_f32)(((v_i32)a & mask) | ((v_i32)b & ~mask));
}
static inline v_f64 v_select_f64(v_i64 mask, v_f64 a, v_f64 b)
{
    return (v_f64)(((v_i64)a & mask) | ((v_i64)b & ~mask));
}
static inline v_i32 v_select_i32(v_i32 mask, v_i32 a, v_i32 b) { return (a & mask) | (b & ~mask); }
static inline v_i64 v_select_i64(v_i64 mask, v_i64 a, v_i64 b) { return (a & mask) | (b & ~mask); }
#endif
