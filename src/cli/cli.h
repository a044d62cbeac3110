/* The program `beeswax`: what its commands share.
 *
 * Owns the option tables, standard output and standard error, exit codes and progress bars. Refuses to know how a model
 * is computed or served: that is the engine's and the server's business.
 *
 * Exit codes: 0 it worked; 1 it did not, one sentence "beeswax: ..." on standard error says why; 2 wrong usage;
 * 130 interrupted by Ctrl-C. A reader of standard output that goes away ends the program quietly.
 */
#ifndef BW_CLI_H
#define BW_CLI_H

#include <signal.h>

#include "bw_err.h"
#include "bw_str.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* ---- options (args.c) ---------------------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,  /* bool: set to true; takes no value */
    CLI_TEXT,  /* const char * */
    CLI_TEXTS, /* cli_texts: may be given several times */
    CLI_I32,   /* int32_t within min..max */
    CLI_AUTO,  /* the same, or "auto": 0 */
    CLI_U64,   /* cli_u64 */
    CLI_F32,   /* float within min..max */
    CLI_CHOICE /* int32_t: the index of the word in `choices` */
} cli_kind;

enum { CLI_MAX_TEXTS = 64 };
typedef struct cli_texts {
    const char *items[CLI_MAX_TEXTS];
    size_t n;
} cli_texts;

typedef struct cli_u64 {
    uint64_t value;
    bool given;
} cli_u64;

typedef struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    cli_kind kind;
    size_t offset;              /* of the variable in the command's settings */
    const char *metavar;        /* the value's name in the help; NULL for flags */
    const char *help;           /* one line */
    double min, max;            /* CLI_I32, CLI_AUTO, CLI_F32 */
    const char *const *choices; /* CLI_CHOICE; NULL-terminated */
} cli_option;

typedef struct cli_group {
    const char *title;
    const cli_option *options;
    size_t n;
} cli_group;

enum { CLI_MAX_GROUPS = 4 };

/* Every command's settings begin with this. */
typedef struct cli_common {
    bool help, quiet, verbose, log_json;
} cli_common;
extern const cli_group cli_common_group;

typedef struct cli_command {
    const char *name;
    const char *usage;   /* after "beeswax NAME " */
    const char *summary; /* one line */
    const char *details; /* paragraphs, each line at most 100 columns; ends with a newline */
    const cli_group *groups[CLI_MAX_GROUPS];
    size_t settings_bytes;
    void (*init)(void *settings); /* defaults, on zeroed memory; may be NULL */
    bool log_info;                /* log at INFO unless told otherwise */
    /* words: what is not an option, in order. Returns an exit code. */
    int (*run)(const struct cli_command *command, void *settings, char **words, int n_words);
} cli_command;

/* Reads argv[0..argc) into settings; the other words, in order, go to the front of argv and *n_words counts them. After
 * "--" everything is a word. "-" alone is a word. BW_E_ARG with a sentence when something is wrong. */
bw_status cli_args_parse(const cli_command *command, char **argv, int argc, void *settings, int *n_words, bw_err *err);
/* The command's help text. */
void cli_args_help(const cli_command *command, bw_str *out);

/* ---- saying things (ui.c) -------------------------------------------------------------------------------------- */

/* "beeswax: sentence" on standard error; returns CLI_FAILED. */
int cli_fail(const char *format, ...) BW_PRINTF(1, 2);
/* The same with err's sentence. */
int cli_fail_err(const bw_err *err);
/* "beeswax: sentence" and a pointer to the command's help; returns CLI_USAGE. */
int cli_usage(const cli_command *command, const char *format, ...) BW_PRINTF(2, 3);
/* Standard output, unbuffered beyond this program. Once a write failed, later ones do nothing. */
void cli_out(const char *text, size_t n_bytes);
void cli_out_text(const char *text);
void cli_out_format(const char *format, ...) BW_PRINTF(1, 2);
bool cli_out_failed(void);
/* code, or CLI_FAILED with a sentence when standard output could not be written. */
int cli_out_end(int code);
/* Prints the builder and empties it; out of memory is a failure like any other. Returns an exit code. */
int cli_out_str(bw_str *str);
/* A remark on standard error, dropped with --quiet. No newline is added. */
void cli_note(const char *format, ...) BW_PRINTF(1, 2);
void cli_set_quiet(bool quiet);

/* A progress bar on standard error, drawn at most ten times a second, only on a terminal. */
typedef struct cli_bar {
    int64_t drawn_ns;
    bool visible;
} cli_bar;
/* done of total, in bytes; what: a short word; detail may be NULL. */
void cli_bar_draw(cli_bar *bar, const char *what, const char *detail, uint64_t done, uint64_t total);
/* Removes it from the screen. */
void cli_bar_clear(cli_bar *bar);
/* Has the type of bw_engine_options.progress and bw_lm_options.progress; user is a cli_bar. */
void cli_bar_progress(void *user, const bw_progress *progress);

/* "1.2 GiB" and the like; out holds 16 bytes at least. */
const char *cli_format_bytes(char out[16], double n_bytes);
/* "134.5 M" and the like. */
const char *cli_format_count(char out[16], double n);

/* ---- interruption (ui.c) --------------------------------------------------------------------------------------- */

/* From now on SIGINT, SIGTERM and SIGHUP only set a flag (a second SIGINT before it is cleared kills). */
void cli_signals_catch(void);
/* 0 or the signal's number. */
int cli_signal_pending(void);
void cli_signal_clear(void);

/* ---- models (engine.c) ----------------------------------------------------------------------------------------- */

/* What every command that loads a model understands; placed in its settings, right behind cli_common. */
typedef struct cli_engine_settings {
    cli_common common;
    const char *device;
    int32_t n_ctx, n_threads, n_batch, kv; /* kv: BW_KV_* */
    int32_t n_gpu_layers;
    bool require_gpu;
} cli_engine_settings;
extern const cli_group cli_engine_group;

typedef struct cli_sampling_settings {
    float temperature, top_p, min_p, repeat_penalty;
    int32_t top_k;
    cli_u64 seed;
    cli_texts stop;
} cli_sampling_settings;
void cli_sampling_init(cli_sampling_settings *settings);
/* The options of a cli_sampling_settings at offset `base` of the settings. */
#define CLI_SAMPLING_OPTIONS(base)                                                                                     \
    {"temp",  0,                                                                                                       \
     CLI_F32, (base) + offsetof(cli_sampling_settings, temperature),                                                   \
     "X",     "temperature; 0 takes the likeliest token (default 0.7)",                                                \
     0,       100,                                                                                                     \
     NULL},                                                                                                            \
        {"top-k", 0,                                                                                                   \
         CLI_I32, (base) + offsetof(cli_sampling_settings, top_k),                                                     \
         "N",     "sample from the N likeliest tokens; 0 = off (default 40)",                                          \
         0,       1e9,                                                                                                 \
         NULL},                                                                                                        \
        {"top-p", 0,                                                                                                   \
         CLI_F32, (base) + offsetof(cli_sampling_settings, top_p),                                                     \
         "X",     "sample from the likeliest tokens that hold X of the probability; 1 = off (default 0.95)",           \
         0,       1,                                                                                                   \
         NULL},                                                                                                        \
        {"min-p", 0,                                                                                                   \
         CLI_F32, (base) + offsetof(cli_sampling_settings, min_p),                                                     \
         "X",     "drop tokens less likely than X times the likeliest; 0 = off (default 0)",                           \
         0,       1,                                                                                                   \
         NULL},                                                                                                        \
        {"repeat-penalty",                                                                                             \
         0,                                                                                                            \
         CLI_F32,                                                                                                      \
         (base) + offsetof(cli_sampling_settings, repeat_penalty),                                                     \
         "X",                                                                                                          \
         "make tokens that were used before less likely; 1 = off (default 1)",                                         \
         0.01,                                                                                                         \
         100,                                                                                                          \
         NULL},                                                                                                        \
        {"seed",  's',                                                                                                 \
         CLI_U64, (base) + offsetof(cli_sampling_settings, seed),                                                      \
         "N",     "seed of the random numbers (default: a new one each time)",                                         \
         0,       0,                                                                                                   \
         NULL},                                                                                                        \
    {                                                                                                                  \
        "stop", 0, CLI_TEXTS, (base) + offsetof(cli_sampling_settings, stop), "TEXT",                                  \
            "end before this text; may be given several times", 0, 0, NULL                                             \
    }
void cli_sampling_apply(const cli_sampling_settings *settings, bw_request *request);

/* The engine's options that these settings say; model, parallelism and progress are the caller's to add. */
void cli_engine_fill(const cli_engine_settings *settings, bw_engine_options *options);
/* Finds MODEL and loads it with a progress bar, for one sequence at a time. warm_up: more than one prompt may come. */
bw_status cli_engine_open(const cli_engine_settings *settings, const char *model, bool warm_up, bw_engine **engine,
                          bw_err *err);
/* "SmolLM2 ...: llama, 134.5 M parameters, q4_1, ..." as a remark. */
void cli_engine_note(const bw_engine *engine);

/* What came of one request. */
typedef struct cli_result {
    bw_finish finish;
    int32_t n_prompt, n_cached, n_generated;
    double prompt_ms, generate_ms;
} cli_result;
/* Submits and waits. Text goes to `text` when it is not NULL and to standard output when `stream`. Ends early, with
 * BW_FINISH_CANCELLED, after SIGINT or when standard output fails. */
bw_status cli_generate(bw_engine *engine, const bw_request *request, bool stream, bw_str *text, cli_result *result,
                       bw_err *err);
/* Tokens per second, 0 when nothing was measured: of the prompt without cached tokens; of all generated tokens but the
 * first, which the prompt's time holds. */
double cli_prompt_rate(const cli_result *result);
double cli_generate_rate(const cli_result *result);
/* One message as JSON, with a comma in front unless it is the first of the array. */
void cli_add_message(bw_str *json, const char *role, const char *content, size_t n_bytes);
const char *cli_finish_name(bw_finish finish);

/* ---- the machine (bandwidth.c, machine.c) ----------------------------------------------------------------------- */

/* Measures a device's memory: reads by n_threads (0 = all) of a buffer much larger than the last cache, or a GPU's
 * copies (bytes read and written). The buffer stays until it is closed, so that measuring takes some 50 ms. */
typedef struct cli_bandwidth cli_bandwidth;
bw_status cli_bandwidth_open(const char *device, int n_threads, cli_bandwidth **bandwidth, bw_err *err);
/* Bytes per second: the best of a few passes. */
bw_status cli_bandwidth_measure(cli_bandwidth *bandwidth, double *bytes_per_s, bw_err *err);
/* Of this process's resident memory what is the buffer; 0 for NULL. */
int64_t cli_bandwidth_host_bytes(const cli_bandwidth *bandwidth);
void cli_bandwidth_close(cli_bandwidth *bandwidth); /* NULL is fine */
/* A field of /proc/self/status or /proc/meminfo, such as "VmHWM", in bytes; 0 when it is not there. */
int64_t cli_proc_bytes(const char *file, const char *field);

/* ---- commands ---------------------------------------------------------------------------------------------------- */

extern const cli_command cli_cmd_run, cli_cmd_chat, cli_cmd_serve, cli_cmd_bench, cli_cmd_inspect, cli_cmd_quantize,
    cli_cmd_devices, cli_cmd_doctor;
/* NULL-terminated, in the order of the overview. */
extern const cli_command *const cli_commands[];
const cli_command *cli_command_find(const char *name);

#endif
