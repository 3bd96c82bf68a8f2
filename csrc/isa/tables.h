/* tables.h - every kernel table there is: the families that have one, and the instruction sets that
 * this machine may have.
 *
 * X(isa, rank): of two kernels with the same name and dtype, the one of the higher rank counts.
 */
#ifndef HYB_TABLES_H
#define HYB_TABLES_H
#include "kernel.h"

#if defined(__x86_64__)
#define HYB_ISAS(X)                                      \
    X(baseline, 0)                                       \
    HYB_IF(HYB_HAS_ISA(avx2))(X(avx2, 1) X(avx_vnni, 2)) \
    HYB_IF(HYB_HAS_ISA(avx512))(X(avx512, 3) X(avx512_dot, 4))
#define HYB_TABLES(X)                                                       \
    HYB_FAMILIES(X, baseline)                                               \
    HYB_IF(HYB_HAS_ISA(avx2))(HYB_FAMILIES(X, avx2) HYB_DOT_FAMILIES(X, avx_vnni)) \
    HYB_IF(HYB_HAS_ISA(avx512))                                             \
    (HYB_FAMILIES(X, avx512) X(dot, avx512_dot) HYB_DOT_FAMILIES(X, avx512_dot))
#elif defined(__aarch64__)
#define HYB_ISAS(X) X(baseline, 0) HYB_IF(HYB_HAS_ISA(neon))(X(neon, 1) X(neon_dot, 2))
#define HYB_TABLES(X)       \
    HYB_FAMILIES(X, baseline) \
    HYB_IF(HYB_HAS_ISA(neon))(HYB_FAMILIES(X, neon) HYB_DOT_FAMILIES(X, neon_dot))
#else
#define HYB_ISAS(X) X(baseline, 0)
#define HYB_TABLES(X) HYB_FAMILIES(X, baseline)
#endif
#endif
