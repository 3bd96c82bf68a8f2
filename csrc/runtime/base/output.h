/* output.h - how files are written: as a whole at their path, or not at all. */
#ifndef HYB_OUTPUT_H
#define HYB_OUTPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum { HYB_OUTPUT_PATH = 4096 };

typedef struct {
    int descriptor;     /* -1: none is open */
    bool moves, before; /* whether it gets its name at the end, and replaces a file */
    struct stat replaced;
    char target[HYB_OUTPUT_PATH], folder[HYB_OUTPUT_PATH], beside[HYB_OUTPUT_PATH];
} hyb_output;

/* Each gives NULL, or why it cannot be done, as a text that stays for the thread.  Nothing but
 * `hyb_output_close` is to be called after that, which is called once in any case.
 *
 * A file that is replaced hands on its permissions, owner and group; symbolic links stay.  What is no
 * regular file is refused, but what stands for an open descriptor of the process, as /dev/stdout, and
 * /dev/null: they are written into. */
const char *hyb_output_open(hyb_output *output, const char *path);
const char *hyb_output_write(hyb_output *output, const void *bytes, size_t nbytes);
/* The file gets its name, on the disk, if it is `whole`; else it goes, and what was there stays. */
const char *hyb_output_close(hyb_output *output, bool whole);
#endif
