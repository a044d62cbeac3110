/* beeswax quantize: a GGUF file with its weights in another type. Owns the refusal to write over what is there. */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_model_path.h"
#include "bw_quant.h"
#include "bw_quantise.h"

typedef struct quantize_settings {
    cli_common common;
    const char *output_type, *embedding_type;
    int32_t n_threads;
    bool pure, force, json;
} quantize_settings;

static const cli_option options[] = {
    {"threads", 't', CLI_I32, offsetof(quantize_settings, n_threads), "N",
     "threads that compute (default: one per core)", 1, 256, NULL},
    {"output-type", 0, CLI_TEXT, offsetof(quantize_settings, output_type), "TYPE",
     "type of output.weight (default: q6_k, or TYPE where that has more bits)", 0, 0, NULL},
    {"embedding-type", 0, CLI_TEXT, offsetof(quantize_settings, embedding_type), "TYPE",
     "type of token_embd.weight (default: TYPE; where it also gives the logits, as output.weight)", 0, 0, NULL},
    {"pure", 0, CLI_FLAG, offsetof(quantize_settings, pure), NULL, "every matrix in TYPE, without exceptions", 0, 0,
     NULL},
    {"force", 'f', CLI_FLAG, offsetof(quantize_settings, force), NULL, "write over OUT if it exists", 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(quantize_settings, json), NULL, "print the outcome as one JSON object", 0, 0, NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

typedef struct job {
    cli_bar bar;
} job;

static bool on_progress(void *user, const char *tensor, uint64_t done, uint64_t total)
{
    job *j = user;
    cli_bar_draw(&j->bar, "quantising", tensor, done, total);
    return !cli_signal_pending();
}

static void on_note(void *user, const char *sentence)
{
    job *j = user;
    cli_bar_clear(&j->bar);
    cli_note("%s\n", sentence);
}

/* false, with usage said, when text names no type that can be written. */
static bool read_type(const cli_command *command, const char *text, bw_dtype *out)
{
    *out = bw_dtype_from_name(text);
    if (*out != BW_DTYPE_COUNT && bw_can_encode(*out))
        return true;
    bw_str names = {0};
    for (int t = 0; t < BW_DTYPE_COUNT; t++)
        if (bw_can_encode((bw_dtype)t))
            bw_str_add_format(&names, " %s", bw_dtype_name((bw_dtype)t));
    cli_usage(command, "%s \"%.40s\"; there are:%s",
              *out == BW_DTYPE_COUNT ? "there is no type" : "this program can read but not write type", text,
              names.failed ? "" : names.data);
    bw_str_deinit(&names);
    return false;
}

/* 0, or the exit code after a sentence. */
static int check_out(const char *path, bool force)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return CLI_OK;
    if (!S_ISREG(st.st_mode))
        return cli_fail("%s is there already and is no regular file", path);
    return force ? CLI_OK : cli_fail("%s is there already; --force writes over it", path);
}

static int report(const quantize_settings *s, const char *out_path, const bw_quantise_report *r, double seconds)
{
    char a[16], b[16];
    if (!s->json) {
        cli_note(
            "%s: %s of weights became %s (%d tensors converted, %d of them in another type; %d copied) in %.1f s\n",
            out_path, cli_format_bytes(a, (double)r->bytes_in), cli_format_bytes(b, (double)r->bytes_out),
            r->n_converted, r->n_fallback, r->n_copied, seconds);
        return CLI_OK;
    }
    bw_str out = {0};
    bw_str_add(&out, "{\"path\":");
    bw_str_add_json(&out, out_path, strlen(out_path));
    bw_str_add_format(&out,
                      ",\"bytes_in\":%llu,\"bytes_out\":%llu,\"converted\":%d,\"copied\":%d,\"fallback\":%d,"
                      "\"seconds\":%.3f}\n",
                      (unsigned long long)r->bytes_in, (unsigned long long)r->bytes_out, r->n_converted, r->n_copied,
                      r->n_fallback, seconds);
    return cli_out_str(&out);
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    const quantize_settings *s = settings;
    if (n_words != 3)
        return cli_usage(command, "quantize needs three words: the file to read, the file to write, the type");
    job j = {0};
    bw_quantise_options o;
    bw_quantise_options_init(&o);
    if (!read_type(command, words[2], &o.dtype) ||
        (s->output_type && !read_type(command, s->output_type, &o.output_dtype)) ||
        (s->embedding_type && !read_type(command, s->embedding_type, &o.embedding_dtype)))
        return CLI_USAGE;
    o.pure = s->pure;
    o.n_threads = s->n_threads;
    o.progress = on_progress;
    o.note = on_note;
    o.user = &j;
    int code = check_out(words[1], s->force);
    if (code != CLI_OK)
        return code;
    bw_err err = {0};
    bw_quantise_report r = {0};
    char *path = NULL;
    cli_signals_catch();
    int64_t start = bw_clock_now_ns();
    bw_status status = bw_model_path_find(words[0], &path, &err);
    if (status == BW_OK)
        status = bw_formats_quantise(path, words[1], &o, &r, &err);
    bw_free(path);
    cli_bar_clear(&j.bar);
    if (status == BW_OK)
        return report(s, words[1], &r, (double)(bw_clock_now_ns() - start) / 1e9);
    cli_fail_err(&err);
    return status == BW_E_CANCELLED && cli_signal_pending() ? CLI_INTERRUPTED : CLI_FAILED;
}

const cli_command cli_cmd_quantize = {
    .name = "quantize",
    .usage = "IN OUT TYPE [options]",
    .summary = "store a GGUF model's weights in another type",
    .details = "TYPE is a block type such as q4_0, q4_k, q6_k or q8_0, or f16, bf16, f32. Start from a file with more\n"
               "bits than the result: what a coarse type lost does not come back. OUT appears whole or not at all.\n"
               "\n"
               "  beeswax quantize model-f16.gguf model-q4_k.gguf q4_k\n",
    .groups = {&group, &cli_common_group},
    .settings_bytes = sizeof(quantize_settings),
    .run = run,
};
