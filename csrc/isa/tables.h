/* tables.h - every kernel table there is: the families that have one, and the instruction sets of this machine.
 *
 * X(isa, rank): a kernel of a higher rank replaces one of a lower rank with the same name and dtype.
 */
#ifndef HYB_TABLES_H
#define HYB_TABLES_H

#define HYB_FAMILIES(X, isa)                                                                  \
    X(unary, isa) X(binary, isa) X(compare, isa) X(select, isa) X(cast, isa) X(reduce, isa)   \
    X(matmul, isa) X(softmax, isa) X(copy, isa) X(gather, isa) X(random, isa) X(optimizer, isa)

#if defined(__x86_64__)
#define HYB_ISAS(X) X(baseline, 0) X(avx2, 1) X(avx512, 2)
#elif defined(__aarch64__)
#define HYB_ISAS(X) X(baseline, 0) X(neon, 1)
#else
#define HYB_ISAS(X) X(baseline, 0)
#endif
#endif
