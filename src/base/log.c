#include "bw_log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_str.h"

static _Atomic int min_level = BW_LOG_INFO;
static _Atomic bool as_json;

void bw_log_configure(bw_log_level level, bool json)
{
    atomic_store(&min_level, (int)level);
    atomic_store(&as_json, json);
}

bw_log_level bw_log_get_level(void)
{
    return (bw_log_level)atomic_load(&min_level);
}

static void write_line(bw_log_level level, const char *fields_json, const char *format, va_list args)
{
    char message[2048];
    if ((int)level < atomic_load(&min_level) || level >= BW_LOG_OFF)
        return;
    vsnprintf(message, sizeof message, format, args);
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    char now[32];
    bw_clock_rfc3339(now);
    bw_str line = {0};
    if (atomic_load(&as_json)) {
        bw_str_add_format(&line, "{\"timestamp\":\"%s\",\"level\":\"%s\",\"fields\":{\"message\":", now, names[level]);
        bw_str_add_json(&line, message, strlen(message));
        if (fields_json && *fields_json)
            bw_str_add_format(&line, ",%s", fields_json);
        bw_str_add(&line, "}}\n");
    } else {
        bw_str_add_format(&line, "%s %-5s %s", now, names[level], message);
        if (fields_json && *fields_json)
            bw_str_add_format(&line, " {%s}", fields_json);
        bw_str_add_char(&line, '\n');
    }
    /* One write a line keeps lines of several threads whole; a closed standard error is nobody's problem. */
    if (!line.failed && write(STDERR_FILENO, line.data, line.len) < 0) {
    }
    bw_str_deinit(&line);
}

void bw_log(bw_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, NULL, format, args);
    va_end(args);
}

void bw_log_fields(bw_log_level level, const char *fields_json, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, fields_json, format, args);
    va_end(args);
}
