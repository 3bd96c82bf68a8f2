/* output.c - writes files as a whole, or not at all; hybrid/core/output_file.py does the same in Python.
 *
 * The content goes to a file beside the path, NAME.0123abcd.tmp, which its writer holds locked until
 * it has been moved there.  One that nobody holds was left by a process that was killed: whoever writes
 * to the same path next takes it away.  Programs that are linked with the shared library compile this
 * file once more, so it needs nothing of it.
 */
#include "runtime/base/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
    LINKS = 40, /* symbolic links that are followed, as many as Linux follows */
    MARK = 13,  /* bytes of .0123abcd.tmp */
    LONGEST = 255 - MARK, /* bytes of a name that are told in that of the file beside it */
    TRIES = 100,
};

static const char *reason(void) { return strerror(errno); }

static const char *reason_of(int error)
{
    errno = error;
    return reason();
}

/* Where a path leads ------------------------------------------------------------------------------ */

/* The name in `path`; what is before it is its folder. */
static char *name_in(char *path)
{
    char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Note the folder of the target, with the slash at its end; "." if it names none. */
static void note_folder(hyb_output *output)
{
    const size_t n = (size_t)(name_in(output->target) - output->target);
    memcpy(output->folder, n ? output->target : ".", n ? n : 1);
    output->folder[n ? n : 1] = 0;
}

/* The number behind `start` where that is all of the target; -1: it is not. */
static int number_behind(const char *start, const char *target)
{
    const size_t n = strlen(start), digits = strncmp(target, start, n) == 0 ? strspn(target + n, "0123456789") : 0;
    return digits == 0 || digits > 9 || target[n + digits] ? -1 : atoi(target + n);
}

/* The target becomes where its symbolic links end, or where it is an open descriptor. */
static const char *follow(hyb_output *output, int *descriptor)
{
    for (int i = 0; i < LINKS; i++) {
        const int named = number_behind("/dev/fd/", output->target);
        *descriptor = named >= 0 ? named : number_behind("/proc/self/fd/", output->target);
        if (*descriptor >= 0)
            return NULL;
        char *found = output->beside;
        const ssize_t n = readlink(output->target, found, HYB_OUTPUT_PATH);
        if (n < 0) /* it is no link, or there is nothing */
            return NULL;
        char *from = found[0] == '/' ? output->target : name_in(output->target);
        if ((from - output->target) + n + MARK >= HYB_OUTPUT_PATH)
            return reason_of(ENAMETOOLONG);
        memcpy(from, found, (size_t)n);
        from[n] = 0;
    }
    return reason_of(ELOOP);
}

static bool is_null_device(const struct stat *about)
{
    return S_ISCHR(about->st_mode) && about->st_rdev == makedev(1, 3); /* Linux's devices.txt */
}

/* What is at the target, where a file may be written. */
static const char *look_at(hyb_output *output)
{
    if (lstat(output->target, &output->replaced) != 0)
        return errno == ENOENT ? NULL : reason();
    output->before = true;
    const struct stat *before = &output->replaced;
    if (S_ISREG(before->st_mode)) {
        const int found = open(output->target, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (found < 0) /* it may not be written */
            return reason();
        close(found);
        return NULL;
    }
    if (S_ISDIR(before->st_mode))
        return reason_of(EISDIR);
    if (is_null_device(before))
        return NULL;
    return "it is no regular file";
}

/* Files that have no name yet --------------------------------------------------------------------- */

/* Whether `name` is that of a file beside one of these first `n` bytes. */
static bool is_beside(const char *name, const char *of, size_t n)
{
    return strncmp(name, of, n) == 0 && name[n] == '.' && strspn(name + n + 1, "0123456789abcdef") == 8
        && strcmp(name + n + 9, ".tmp") == 0;
}

/* Take away what killed processes have left: what is locked, gone or of somebody else stays. */
static void remove_abandoned(const char *folder, const char *name, size_t n)
{
    DIR *listing = opendir(folder);
    if (!listing)
        return;
    for (struct dirent *item; (item = readdir(listing));) {
        if (!is_beside(item->d_name, name, n))
            continue;
        const int found = openat(dirfd(listing), item->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat about;
        if (found < 0)
            continue;
        if (fstat(found, &about) == 0 && S_ISREG(about.st_mode) && flock(found, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(listing), item->d_name, 0);
        close(found);
    }
    closedir(listing);
}

/* A new file beside the target, locked, so that nobody takes it for one that was left. */
static const char *open_beside(hyb_output *output)
{
    char *name = name_in(output->target);
    const size_t n = strlen(name) < LONGEST ? strlen(name) : LONGEST;
    const size_t start = (size_t)(name - output->target) + n;
    const mode_t mode = output->before ? (output->replaced.st_mode & 0777) | 0600 : 0666;
    note_folder(output);
    remove_abandoned(output->folder, name, n);
    static atomic_uint files; /* of this process */
    memcpy(output->beside, output->target, start);
    for (int i = 0; i < TRIES; i++) {
        snprintf(output->beside + start, MARK + 1, ".%08x.tmp", (unsigned)getpid() << 10 ^ atomic_fetch_add(&files, 1));
        const int found = open(output->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (found < 0 && errno == EEXIST)
            continue;
        if (found < 0)
            return reason();
        struct stat about;
        (void)flock(found, LOCK_EX); /* a file system without locks removes nothing */
        if (lstat(output->beside, &about) == 0) { /* nobody came between */
            output->descriptor = found;
            output->moves = true;
            return NULL;
        }
        close(found);
    }
    return reason_of(EEXIST);
}

/* Give it owner, group and permissions of the file that it replaces. */
static int hand_on(const hyb_output *output)
{
    const struct stat *before = &output->replaced;
    mode_t mode = before->st_mode & 07777;
    if (fchown(output->descriptor, before->st_uid, before->st_gid) != 0 /* only root gives files away */
        && fchown(output->descriptor, (uid_t)-1, before->st_gid) != 0) /* another group may do what all may */
        mode = (mode & 01707) | (mode & 07) << 3;
    return fchmod(output->descriptor, mode);
}

/* Have the new name on the disk. */
static void settle(const hyb_output *output)
{
    const int found = open(output->folder, O_RDONLY | O_CLOEXEC);
    if (found < 0) /* of a folder that nobody may list */
        return;
    (void)fsync(found);
    close(found);
}

/* A file, from its beginning to its end ----------------------------------------------------------- */

const char *hyb_output_open(hyb_output *output, const char *path)
{
    output->descriptor = -1;
    output->moves = output->before = false;
    if (strlen(path) + MARK + 1 > HYB_OUTPUT_PATH)
        return reason_of(ENAMETOOLONG);
    memcpy(output->target, path, strlen(path) + 1);
    int own;
    const char *why = follow(output, &own);
    if (why)
        return why;
    if (own >= 0) {
        fflush(stdout); /* what was printed comes first */
        output->descriptor = fcntl(own, F_DUPFD_CLOEXEC, 0);
        return output->descriptor < 0 ? reason() : NULL;
    }
    if ((why = look_at(output)))
        return why;
    if (!output->before || S_ISREG(output->replaced.st_mode))
        return open_beside(output);
    output->descriptor = open(output->target, O_WRONLY | O_CLOEXEC);
    return output->descriptor < 0 ? reason() : NULL;
}

const char *hyb_output_write(hyb_output *output, const void *bytes, size_t nbytes)
{
    for (const char *at = bytes; nbytes > 0;) {
        const ssize_t done = write(output->descriptor, at, nbytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? reason() : "it takes no more bytes";
        at += done;
        nbytes -= (size_t)done;
    }
    return NULL;
}

const char *hyb_output_close(hyb_output *output, bool whole)
{
    if (output->descriptor < 0)
        return NULL;
    int error = 0;
    if (output->moves) {
        const bool moved = whole && (!output->before || hand_on(output) == 0) && fsync(output->descriptor) == 0
            && rename(output->beside, output->target) == 0;
        if (!moved) {
            error = whole ? errno : 0;
            unlink(output->beside);
        }
    }
    if (close(output->descriptor) != 0 && whole && !output->moves)
        error = errno;
    output->descriptor = -1;
    if (output->moves && whole && !error)
        settle(output);
    return error ? reason_of(error) : NULL;
}
