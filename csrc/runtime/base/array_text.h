/* array_text.h - arrays as NumPy writes them. */
#ifndef HYB_ARRAY_TEXT_H
#define HYB_ARRAY_TEXT_H
#include "kernel.h"

/* Bytes that hyb_write_array writes at most; -1: of too many elements. */
int64_t hyb_array_room(const hyb_layout *layout);
/* numpy.array2string(array, separator=", ", prefix="tensor("), by its usual options, of dense elements of
 * any dtype but f16 and bf16; returns how many bytes that are. */
int64_t hyb_write_array(char *out, const hyb_layout *layout, const void *data);
#endif
