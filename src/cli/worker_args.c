#include "worker_args.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bw_str.h"

typedef enum kind {
    TEXT,   /* const char * */
    SWITCH, /* bool; takes no value as a flag, 1 or 0 as a variable */
    NUMBER, /* int32_t within min..max */
    AUTO,   /* the same, or "auto": 0 */
    WORD    /* int32_t: the index of the word in `words` */
} kind;

typedef struct option {
    const char *flag, *variable; /* variable NULL: the environment has no say */
    kind kind;
    size_t offset; /* of the variable in worker_args */
    int32_t min, max;
    const char *const *words; /* WORD; NULL-terminated */
    const char *metavar;
    const char *help; /* lines; NULL: named in another's help */
} option;

static const char *const kv_words[] = {"f16", "bf16", "q8_0", NULL};
_Static_assert(BW_KV_F16 == 0 && BW_KV_BF16 == 1 && BW_KV_Q8_0 == 2, "kv_words is in this order");

#define AT(field) offsetof(worker_args, field)
static const option options[] = {
    {"--worker-id", NULL, TEXT, AT(worker_id), 0, 0, NULL, "ID", "the worker's name, as the hive knows it"},
    {"--model", NULL, TEXT, AT(model), 0, 0, NULL, "MODEL",
     "a GGUF or safetensors file, a directory, or an id such as org/repo:file.gguf"},
    {"--port", NULL, NUMBER, AT(port), 0, 65535, NULL, "PORT", "port to listen on (0 = any free one)"},
    {"--model-ref", NULL, TEXT, AT(model_ref), 0, 0, NULL, "REF", "the model's name in heartbeats [default: MODEL]"},
    {"--alias", "BW_ALIAS", TEXT, AT(alias), 0, 0, NULL, "NAME",
     "the model's name in answers [default: MODEL, of a path the file's name without its\nending]"},
    {"--hive-url", NULL, TEXT, AT(hive_url), 0, 0, NULL, "URL",
     "where heartbeats go (also --queen-url, --callback-url) [default: nowhere]"},
    {"--queen-url", NULL, TEXT, AT(queen_url), 0, 0, NULL, "URL", NULL},
    {"--callback-url", NULL, TEXT, AT(callback_url), 0, 0, NULL, "URL", NULL},
    {"--backend", "BW_BACKEND", TEXT, AT(backend), 0, 0, NULL, "NAME",
     "cpu, rocm or cuda [default: from the program's name; under a name that says nothing\nthe first GPU that can be "
     "used, else the CPU]"},
    {"--rocm-device", NULL, TEXT, AT(rocm_device), 0, 0, NULL, "N",
     "AMD GPU (--cuda-device N: NVIDIA; --metal-device N: refused) [default: the\ndiscrete one with most memory]"},
    {"--cuda-device", NULL, TEXT, AT(cuda_device), 0, 0, NULL, "N", NULL},
    {"--metal-device", NULL, TEXT, AT(metal_device), 0, 0, NULL, "N", NULL},
    {"--device", NULL, TEXT, AT(device), 0, 0, NULL, "N",
     "the same of the backend's kind; also with a kind: rocm:N, cuda:N, cpu:0"},
    {"--gpu-layers", "BW_GPU_LAYERS", AUTO, AT(n_gpu_layers), 1, 1 << 20, NULL, "N",
     "layers on the GPU, the CPU computes the others [default: auto, as many as fit]"},
    {"--require-gpu", "BW_REQUIRE_GPU", SWITCH, AT(require_gpu), 0, 0, NULL, NULL,
     "refuse to start where the CPU would have to compute anything"},
    {"--local-mode", "BW_LOCAL_MODE", SWITCH, AT(local_mode), 0, 0, NULL, NULL,
     "listen on 127.0.0.1 only, without a token"},
    {"--allow-host", "BW_ALLOW_HOST", TEXT, AT(allow_host), 0, 0, NULL, "NAMES",
     "by commas: hosts clients may call it by, besides localhost and addresses [default: *,\nany]"},
    {"--cors", "BW_CORS", TEXT, AT(cors), 0, 0, NULL, "ORIGINS",
     "by commas: sites whose pages may use it, such as http://localhost:3000, or none\n[default: *, all]"},
    {"--control-tokens-in-messages", "BW_CONTROL_TOKENS_IN_MESSAGES", SWITCH, AT(control_tokens), 0, 0, NULL, NULL,
     "control tokens such as <|im_end|> in messages count, as with other servers; otherwise\nthey are text"},
    {"--threads", "BW_THREADS", AUTO, AT(n_threads), 0, 256, NULL, "N",
     "CPU threads [default: auto, one per processor, no more than a cgroup's quota is\nworth]"},
    {"--ctx", "BW_CTX", AUTO, AT(n_ctx), 0, 1 << 24, NULL, "N",
     "tokens of context per request [default: auto, the model's own as far as memory has\nroom for --parallel of it]"},
    {"--parallel", "BW_PARALLEL", AUTO, AT(n_parallel), 0, 64, NULL, "N", "requests computed together [default: 4]"},
    {"--batch", "BW_BATCH", AUTO, AT(n_batch), 0, 65536, NULL, "N",
     "most tokens of one step; longer prompts are cut [default: 512]"},
    {"--kv", "BW_KV", WORD, AT(kv), 0, 0, kv_words, "TYPE", "type of the KV cache: f16, bf16 or q8_0 [default: f16]"},
    {"--kv-tokens", "BW_KV_TOKENS", AUTO, AT(kv_tokens), 0, 1 << 30, NULL, "N",
     "tokens the KV cache holds over all requests [default: auto, --ctx times --parallel\nas far as memory allows]"},
    {"--help", NULL, SWITCH, AT(help), 0, 0, NULL, NULL, NULL},
    {"--version", NULL, SWITCH, AT(version), 0, 0, NULL, NULL, NULL},
};
enum { N_OPTIONS = sizeof options / sizeof *options, HELP_COLUMN = 25 };

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void add_option(bw_str *out, const option *o)
{
    char left[64];
    snprintf(left, sizeof left, "  %s%s%s", o->flag, o->metavar ? " " : "", o->metavar ? o->metavar : "");
    bw_str_add_format(out, "%-*s", HELP_COLUMN, left);
    if (strlen(left) >= HELP_COLUMN) /* its help begins on the next line */
        bw_str_add_format(out, "\n%*s", HELP_COLUMN, "");
    for (const char *c = o->help; *c; c++) {
        bw_str_add_char(out, *c);
        if (*c == '\n')
            bw_str_add_format(out, "%*s", HELP_COLUMN, "");
    }
    bw_str_add_char(out, '\n');
}

void worker_args_print_help(const worker_args *args, bool to_stderr)
{
    bw_str out = {0};
    bw_str_add_format(&out, "Usage: %s --worker-id ID --model MODEL --port PORT [options]\n\n", args->name);
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].help)
            add_option(&out, &options[i]);
    bw_str_add(&out,
               "  --build-info           print release or debug\n"
               "  --help, --version\n"
               "\n"
               "Environment: LLORCH_API_TOKEN (clients must send it as a bearer token), LLORCH_LOG_FORMAT=json; and\n"
               "in place of flags, which come first:\n");
    for (int i = 0, column = 0; i < N_OPTIONS; i++) {
        if (!options[i].variable)
            continue;
        bw_str_add_format(&out, "%s%s", column == 0 ? "  " : column > 70 ? "\n  " : " ", options[i].variable);
        column = (column == 0 || column > 70 ? 2 : column + 1) + (int)strlen(options[i].variable);
    }
    bw_str_add_char(&out, '\n');
    fputs(out.failed ? "there is no memory\n" : out.data, to_stderr ? stderr : stdout);
    bw_str_deinit(&out);
}

/* What is wrong, then the usage, on standard error. */
static int fail_usage(const worker_args *args, const char *format, ...) BW_PRINTF(2, 3);
static int fail_usage(const worker_args *args, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs("\n\n", stderr);
    worker_args_print_help(args, true);
    return WORKER_USAGE;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* What may stand there, as "a whole number from 0 to 64". */
static void add_possible(const option *o, bw_str *out)
{
    if (o->kind == SWITCH)
        bw_str_add(out, "1 or 0");
    for (int i = 0; o->kind == WORD && o->words[i]; i++)
        bw_str_add_format(out, "%s%s", i == 0 ? "" : o->words[i + 1] ? ", " : " or ", o->words[i]);
    if (o->kind == AUTO || o->kind == NUMBER)
        bw_str_add_format(out, "%sa whole number from %d to %d", o->kind == AUTO ? "auto or " : "", (int)o->min,
                          (int)o->max);
}

static bool set_value(const option *o, const char *text, worker_args *args)
{
    static const char *const yes[] = {"1", "true", "yes", "on"}, *const no[] = {"0", "false", "no", "off"};
    void *out = (char *)args + o->offset;
    int64_t value = 0;
    switch (o->kind) {
    case TEXT:
        *(const char **)out = text;
        return true;
    case SWITCH:
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
            if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
                *(bool *)out = strcasecmp(text, yes[i]) == 0;
                return true;
            }
        return false;
    case WORD:
        for (int32_t i = 0; o->words[i]; i++)
            if (strcmp(text, o->words[i]) == 0) {
                *(int32_t *)out = i;
                return true;
            }
        return false;
    case AUTO:
    case NUMBER:
        break;
    }
    if ((o->kind != AUTO || strcmp(text, "auto") != 0) &&
        (!bw_parse_i64(text, &value) || value < o->min || value > o->max))
        return false;
    *(int32_t *)out = (int32_t)value;
    return true;
}

/* 0, or the exit code. from: the flag or the variable. */
static int take_value(const option *o, const char *from, const char *text, worker_args *args)
{
    if (set_value(o, text, args))
        return 0;
    bw_str possible = {0};
    add_possible(o, &possible);
    int code = fail_usage(args, "invalid value '%s' for '%s': %s is expected", text, from,
                          possible.failed ? "another" : possible.data);
    bw_str_deinit(&possible);
    return code;
}

bool worker_parse_device(const char *text, device_wish *out)
{
    static const char *const kinds[] = {"cpu", "rocm", "cuda", "metal", "gpu"};
    *out = (device_wish){0};
    if (!(*text >= '0' && *text <= '9')) {
        size_t n = strcspn(text, ":-");
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strlen(kinds[i]) == n && strncasecmp(kinds[i], text, n) == 0)
                out->kind = kinds[i];
        if (!out->kind || !text[n])
            return out->kind != NULL;
        text += n + 1;
    }
    out->has_number = bw_parse_u64(text, &out->number) && out->number <= UINT32_MAX;
    return out->has_number;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* One flag, with its value where it takes one. 0, or the exit code. */
static int read_flag(worker_args *args, bool given[N_OPTIONS], int argc, char **argv, int *i)
{
    const char *text = argv[*i], *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) : strlen(text);
    if (strncmp(text, "--", 2) != 0)
        return fail_usage(args, "unexpected argument '%s' found", text);
    for (int f = 0; f < N_OPTIONS; f++) {
        const option *o = &options[f];
        if (strlen(o->flag) != n || strncmp(o->flag, text, n) != 0)
            continue;
        if (o->kind == SWITCH) {
            if (equals)
                return fail_usage(args, "unexpected value for '%s'", o->flag);
            given[f] = true;
            return take_value(o, o->flag, "1", args);
        }
        if (given[f])
            return fail_usage(args, "the argument '%s' cannot be used multiple times", o->flag);
        if (!equals && *i + 1 >= argc)
            return fail_usage(args, "a value is required for '%s' but none was supplied", o->flag);
        given[f] = true;
        return take_value(o, o->flag, equals ? equals + 1 : argv[++*i], args);
    }
    return fail_usage(args, "unexpected argument '%.*s' found", (int)n, text);
}

static int read_environment(worker_args *args, const bool given[N_OPTIONS])
{
    for (int f = 0; f < N_OPTIONS; f++) {
        const option *o = &options[f];
        const char *text = o->variable && !given[f] ? getenv(o->variable) : NULL;
        int code = text && *text ? take_value(o, o->variable, text, args) : 0;
        if (code)
            return code;
    }
    return 0;
}

int worker_args_read(int argc, char **argv, worker_args *a)
{
    bool given[N_OPTIONS] = {false};
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    *a = (worker_args){.port = -1};
    a->name = slash ? slash + 1 : argc > 0 ? argv[0] : "llm-worker-rbee";
    for (int i = 1; i < argc; i++) {
        int code = 0;
        if (strcmp(argv[i], "-h") == 0)
            a->help = true;
        else if (strcmp(argv[i], "-V") == 0)
            a->version = true;
        else
            code = read_flag(a, given, argc, argv, &i);
        if (code)
            return code;
    }
    if (a->help || a->version)
        return 0;
    int code = read_environment(a, given);
    if (code)
        return code;
    if (!a->worker_id || !a->model || a->port < 0)
        return fail_usage(a, "the following required arguments were not provided:%s%s%s",
                          a->worker_id ? "" : " --worker-id", a->model ? "" : " --model", a->port < 0 ? " --port" : "");
    const char *const devices[] = {a->rocm_device, a->cuda_device, a->metal_device, a->device};
    device_wish wish;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i] && !worker_parse_device(devices[i], &wish))
            return fail_usage(a, "invalid device '%s': a number is expected, or one behind its kind such as rocm:1",
                              devices[i]);
    return 0;
}
