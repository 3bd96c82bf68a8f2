/* program_text.c - types and names of a program in messages. */
#include <stdio.h>

#include "runtime/base/utf8.h"
#include "runtime/program/program.h"

const char *hyb_type_text(const hyb_layout *layout, char *text)
{
    int used = snprintf(text, HYB_TYPE_TEXT, "%s[", hyb_dtype_name(layout->dtype));
    for (int32_t d = 0; d < layout->rank && used < HYB_TYPE_TEXT - 24; d++)
        used += snprintf(text + used, (size_t)(HYB_TYPE_TEXT - used), "%s%lld", d ? "," : "",
                         (long long)layout->shape[d]);
    snprintf(text + used, (size_t)(HYB_TYPE_TEXT - used), "]");
    return text;
}

/* The same with the names of symbols where axes are open: f32[batch,64]. */
const char *hyb_open_text(const hyb_code *code, const hyb_function *function, const hyb_layout *layout, char *text)
{
    int used = snprintf(text, HYB_TYPE_TEXT, "%s[", hyb_dtype_name(layout->dtype));
    for (int32_t d = 0; d < layout->rank && used < HYB_TYPE_TEXT - 40; d++) {
        char name[32];
        const int64_t symbol = -1 - layout->shape[d];
        if (symbol < 0)
            snprintf(name, sizeof name, "%lld", (long long)layout->shape[d]);
        else
            hyb_shown(&code->file, function->symbols[symbol].name, name, sizeof name);
        used += snprintf(text + used, (size_t)(HYB_TYPE_TEXT - used), "%s%s", d ? "," : "", name);
    }
    snprintf(text + used, (size_t)(HYB_TYPE_TEXT - used), "]");
    return text;
}

const char *hyb_shown(const hyb_file *file, hyb_text text, char *shown, size_t room)
{
    size_t n;
    const char *bytes = hyb_file_text(file, text, &n);
    size_t used = 0;
    for (size_t i = 0; bytes && i < n;) {
        const size_t size = hyb_printed(bytes + i, n - i);
        if (used + (size ? size : 1) >= room)
            break;
        if (size)
            memcpy(shown + used, bytes + i, size);
        else
            shown[used] = '?';
        used += size ? size : 1;
        i += size ? size : 1;
    }
    shown[used] = 0;
    return shown;
}

hyb_status hyb_fail_in(hyb_status status, const char *where)
{
    char text[HYB_TEXT];
    memcpy(text, hyb_last_error(), sizeof text);
    return hyb_fail(status, "%.200s: %s", where, text);
}
