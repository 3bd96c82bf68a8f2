/* tables.h - every kernel table there is: the families that have one, and the instruction sets that
 * this machine may have.
 *
 * X(isa, rank): of two kernels with the same name and dtype, the one of the higher rank counts.
 */
#ifndef HYB_TABLES_H
#define HYB_TABLES_H

#define HYB_FAMILIES(X, isa)                                                                  \
    X(unary, isa) X(binary, isa) X(compare, isa) X(select, isa) X(cast, isa) X(reduce, isa)   \
    X(matmul, isa) X(linalg, isa) X(convolution, isa) X(pooling, isa) X(resample, isa)        \
    X(unfold, isa) X(softmax, isa) X(random, isa) X(attention, isa) X(copy, isa)              \
    X(gather, isa) X(sort, isa)                                                               \
    X(cumulative, isa) X(normalization, isa) X(distributions, isa) X(optimizer, isa)

#if defined(__x86_64__)
#define HYB_ISAS(X) X(baseline, 0) X(avx2, 1) X(avx512, 2) X(avx512_dot, 3)
#define HYB_TABLES(X) \
    HYB_FAMILIES(X, baseline) HYB_FAMILIES(X, avx2) HYB_FAMILIES(X, avx512) X(dot, avx512_dot)
#elif defined(__aarch64__)
#define HYB_ISAS(X) X(baseline, 0) X(neon, 1)
#define HYB_TABLES(X) HYB_FAMILIES(X, baseline) HYB_FAMILIES(X, neon)
#else
#define HYB_ISAS(X) X(baseline, 0)
#define HYB_TABLES(X) HYB_FAMILIES(X, baseline)
#endif
#endif
