/* selection.h - which kernels a library has, for which instruction sets: all of them.
 *
 * A program that stands alone has one of its own (hybrid export --standalone), with what it uses.
 * Each condition has two parts where it holds: see HYB_IF in kernel.h. */
#ifndef HYB_SELECTION_H
#define HYB_SELECTION_H

#define HYB_HAS_KERNEL(name, dtype) 1, 1
#define HYB_HAS_ISA(isa) 1, 1
#define HYB_HAS_MESSAGES 1 /* steps that print or raise */
#define HYB_HAS_SIZES 1    /* axes that are open */
#define HYB_HAS_CHANNELS 1 /* steps that move bytes between processes, which no file has */

/* The families that have a table. */
#define HYB_FAMILIES(X, isa)                                                                  \
    X(unary, isa) X(binary, isa) X(compare, isa) X(select, isa) X(cast, isa) X(reduce, isa)   \
    X(matmul, isa) X(linalg, isa) X(convolution, isa) X(pooling, isa) X(resample, isa)        \
    X(unfold, isa) X(softmax, isa) X(random, isa) X(attention, isa) X(copy, isa)              \
    X(gather, isa) X(sort, isa)                                                               \
    X(cumulative, isa) X(checks, isa) X(c_math, isa) X(normalization, isa)                    \
    X(distributions, isa) X(optimizer, isa) X(quantization, isa)

/* Those with products of bytes by an instruction that adds four. */
#define HYB_DOT_FAMILIES(X, isa) X(dot_bytes, isa) X(dot_convolutions, isa)
#endif
