/* status.c - the thread's last error, and what this library is. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/runtime.h"

static _Thread_local struct {
    char text[HYB_TEXT];
    int32_t step_plus_one; /* 0: none, so that a new thread starts with -1 */
} last;

hyb_status hyb_fail(hyb_status status, const char *format, ...)
{
    /* The arguments may point into the old text: format beside it, then replace it. */
    char text[HYB_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(last.text, text, sizeof text);
    return status;
}

const char *hyb_last_error(void) { return last.text; }

int32_t hyb_last_step(void) { return last.step_plus_one - 1; }

void hyb_set_last_step(int32_t step) { last.step_plus_one = step + 1; }

const char *hyb_status_name(int32_t status)
{
    switch (status) {
    case HYB_OK: return "ok";
    case HYB_BAD_ARGUMENT: return "bad argument";
    case HYB_NO_MEMORY: return "no memory";
    case HYB_NO_KERNEL: return "no kernel";
    case HYB_BAD_INDEX: return "bad index";
    case HYB_INTERRUPTED: return "interrupted";
    case HYB_HOST_FAILED: return "host failed";
    case HYB_CANCELLED: return "cancelled";
    case HYB_EXHAUSTED: return "exhausted";
    case HYB_SINGULAR: return "singular matrix";
    case HYB_NOT_DEFINITE: return "matrix that is not positive definite";
    case HYB_NOT_CONVERGED: return "not converged";
    case HYB_BAD_FILE: return "bad file";
    case HYB_OVERFLOW: return "overflow";
    case HYB_RAISED: return "raised";
    case HYB_OUT_OF_DOMAIN: return "out of domain";
    }
    return "unknown status";
}

int32_t hyb_abi(void) { return HYB_ABI; }

const char *hyb_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}
