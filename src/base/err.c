#include "bw_err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BW_ERROR(name, number, meaning) _Static_assert((name) == (number), #name);
#include "errors.def"
#undef BW_ERROR

const char *bw_status_name(bw_status status)
{
    switch (status) {
#define BW_ERROR(name, number, meaning)                                                                                \
    case number:                                                                                                       \
        return #name;
#include "errors.def"
#undef BW_ERROR
    default:
        return "BW_E_UNKNOWN";
    }
}

const char *bw_version(void)
{
    return BW_VERSION;
}

bw_status bw_fail(bw_err *err, bw_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

bw_status bw_fail_memory(bw_err *err, size_t n_bytes, const char *what)
{
    return bw_fail(err, BW_E_MEMORY, "no memory: %zu bytes for %s could not be had", n_bytes, what);
}

bw_status bw_fail_errno(bw_err *err, int errnum, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        size_t n = strlen(err->text);
        char buffer[128] = "";
        const char *reason = strerror_r(errnum, buffer, sizeof buffer);
        snprintf(err->text + n, sizeof err->text - n, ": %s", reason);
        err->status = BW_E_IO;
    }
    return BW_E_IO;
}

bw_status bw_err_prefix(bw_err *err, const char *format, ...)
{
    if (!err)
        return BW_E_INTERNAL;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", old);
    return err->status;
}
