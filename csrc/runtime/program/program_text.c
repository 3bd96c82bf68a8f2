/* program_text.c - types and names of a program in messages. */
#include <stdio.h>

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

const char *hyb_shown(const hyb_file *file, hyb_text text, char *shown, size_t room)
{
    size_t n;
    const char *bytes = hyb_file_text(file, text, &n);
    n = !bytes ? 0 : n < room ? n : room - 1;
    for (size_t i = 0; i < n; i++)
        shown[i] = (unsigned char)bytes[i] < ' ' || bytes[i] == 127 ? '?' : bytes[i];
    shown[n] = 0;
    return shown;
}
