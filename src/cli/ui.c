/* What people see: errors, remarks, standard output, progress bars; and Ctrl-C. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_signals.h"

static bool quiet;
static int out_errno; /* of the first failed write */

/* ---- standard error ---------------------------------------------------------------------------------------------- */

static void say_error(const char *sentence)
{
    fprintf(stderr, "beeswax: %s\n", sentence);
}

int cli_fail(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say_error(text);
    return CLI_FAILED;
}

int cli_fail_err(const bw_err *err)
{
    say_error(err->text[0] ? err->text : bw_status_name(err->status));
    return CLI_FAILED;
}

int cli_usage(const cli_command *command, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say_error(text);
    fprintf(stderr, "Usage: beeswax %s %s\n`beeswax help%s%s` tells more.\n", command ? command->name : "COMMAND",
            command ? command->usage : "...", command ? " " : "", command ? command->name : "");
    return CLI_USAGE;
}

void cli_set_quiet(bool q)
{
    quiet = q;
}

void cli_note(const char *format, ...)
{
    if (quiet)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

/* ---- standard output --------------------------------------------------------------------------------------------- */

void cli_out(const char *text, size_t n_bytes)
{
    while (n_bytes > 0 && !out_errno) {
        ssize_t n = write(STDOUT_FILENO, text, n_bytes);
        if (n < 0) {
            if (errno != EINTR)
                out_errno = errno;
            continue;
        }
        text += n;
        n_bytes -= (size_t)n;
    }
}

void cli_out_text(const char *text)
{
    cli_out(text, strlen(text));
}

void cli_out_format(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        cli_out(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

bool cli_out_failed(void)
{
    return out_errno != 0;
}

int cli_out_end(int code)
{
    if (!out_errno || code != CLI_OK)
        return code;
    if (out_errno == EPIPE) /* whoever read has seen enough */
        return CLI_FAILED;
    return cli_fail("standard output cannot be written: %s", strerror(out_errno));
}

int cli_out_str(bw_str *str)
{
    if (str->failed) {
        bw_str_deinit(str);
        return cli_fail("there is no memory for the output");
    }
    cli_out(str->data, str->len);
    bw_str_deinit(str);
    return cli_out_end(CLI_OK);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

void cli_bar_draw(cli_bar *bar, const char *what, const char *detail, uint64_t done, uint64_t total)
{
    enum { WIDTH = 30, INTERVAL_NS = 100000000 };
    int64_t now = bw_clock_now_ns();
    if (quiet || !isatty(STDERR_FILENO) || (bar->visible && now - bar->drawn_ns < INTERVAL_NS))
        return;
    bar->drawn_ns = now;
    bar->visible = true;
    double share = total > 0 ? (double)done / (double)total : 0;
    if (share > 1)
        share = 1;
    char cells[WIDTH + 1], a[16], b[16];
    for (int i = 0; i < WIDTH; i++)
        cells[i] = i < (int)(share * WIDTH + 0.5) ? '#' : '.';
    cells[WIDTH] = 0;
    fprintf(stderr, "\r\033[K%s [%s] %3.0f%%", what, cells, share * 100);
    if (total > 0)
        fprintf(stderr, "  %s of %s", cli_format_bytes(a, (double)done), cli_format_bytes(b, (double)total));
    if (detail && *detail)
        fprintf(stderr, "  %s", detail);
    fflush(stderr);
}

void cli_bar_clear(cli_bar *bar)
{
    if (bar->visible)
        fputs("\r\033[K", stderr);
    bar->visible = false;
}

void cli_bar_progress(void *user, const bw_progress *p)
{
    char detail[48] = "";
    if (strcmp(p->stage, "ready") == 0) {
        cli_bar_clear(user);
        return;
    }
    if (p->layers_total > 0)
        snprintf(detail, sizeof detail, "layer %d of %d", (int)p->layers_done, (int)p->layers_total);
    cli_bar_draw(user, p->stage, detail, p->bytes_done, p->bytes_total);
}

const char *cli_format_bytes(char out[16], double n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; n >= 1024 && u < 4; u++)
        n /= 1024;
    snprintf(out, 16, u == 0 || n >= 99.95 ? "%.0f %s" : "%.1f %s", n, units[u]);
    return out;
}

const char *cli_format_count(char out[16], double n)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    int u = 0;
    for (; n >= 1000 && u < 4; u++)
        n /= 1000;
    snprintf(out, 16, u == 0 ? "%.0f%s" : "%.1f%s", n, units[u]);
    return out;
}

/* ---- interruption ------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t pending;

static void on_signal(int number)
{
    if (pending == number && number == SIGINT) { /* asked for twice: do not make people wait */
        signal(number, SIG_DFL);
        raise(number);
    }
    pending = number;
}

void cli_signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: reading a line ends */
    sigemptyset(&action.sa_mask);
    for (int i = 0; bw_signals_end(i); i++)
        sigaction(bw_signals_end(i), &action, NULL);
}

int cli_signal_pending(void)
{
    return pending;
}

void cli_signal_clear(void)
{
    pending = 0;
}
