/* npy.h - arrays in files of NumPy (.npy), format 1 and 2, which may say anything. */
#ifndef HYB_NPY_H
#define HYB_NPY_H
#include <stdbool.h>

#include "hybrid.h"

enum { NPY_TEXT = 256 };

const char *npy_dtype_name(int32_t dtype); /* f32 */
int64_t npy_itemsize(int32_t dtype);

/* The elements of a layout with sane sizes, and their bytes. */
int64_t npy_elements(const hyb_layout *layout);
int64_t npy_nbytes(const hyb_layout *layout);

/* The array in a file, in a block of hyb_alloc; of Fortran's order its layout has the strides.
 * NULL: `text`, of NPY_TEXT bytes, says why. */
void *npy_read(const char *path, hyb_layout *layout, char *text);

/* A dense array to a file, which is not there if that fails; false: `text` says why. */
bool npy_write(const char *path, const hyb_layout *layout, const void *data, char *text);
#endif
