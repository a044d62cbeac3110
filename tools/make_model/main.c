/* make_model: writes a random model of a named shape. Owns the command line; what is written, write.c says. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_clock.h"
#include "make_model.h"

static const char usage[] =
    "usage: make_model SHAPE OUTPUT [--type TYPE | --mix MIX] [--layers N] [--seed N] [--threads N]\n"
    "\n"
    "Writes random weights in a model's shape: OUTPUT.gguf, or a folder with model.safetensors, config.json and\n"
    "tokenizer.json when OUTPUT does not end with .gguf. The same seed gives the same bytes, whatever the threads.\n"
    "\n"
    "  --type TYPE    of the matrices (default f16; bf16 in safetensors). Rows that are no multiple of its block take\n"
    "                 a type of smaller blocks\n"
    "  --mix MIX      q4_k_m or q5_k_m: some matrices in q6_k, as llama.cpp's mixes\n"
    "  --layers N     another number of layers than the shape's\n"
    "  --seed N       of the random numbers (default 0)\n"
    "  --threads N    that make them (default: one per core)\n";

static int print_lists(void)
{
    fputs(usage, stdout);
    fputs("\nshapes:", stdout);
    for (int i = 0; i < mm_n_shapes; i++)
        printf(" %s", mm_shapes[i].name);
    fputs("\ntypes: ", stdout);
    for (int t = 0; t < BW_DTYPE_COUNT; t++)
        if (mm_values_can((bw_dtype)t))
            printf(" %s", bw_dtype_name((bw_dtype)t));
    fputs("\n", stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int bad(const char *what, const char *value)
{
    fprintf(stderr, "make_model: %s%s%s\n`make_model --help` says how it is used.\n", what, value ? " " : "",
            value ? value : "");
    return 2;
}

static bool find_type(const char *name, bw_dtype *type)
{
    for (int t = 0; t < BW_DTYPE_COUNT; t++)
        if (strcmp(bw_dtype_name((bw_dtype)t), name) == 0 && mm_values_can((bw_dtype)t)) {
            *type = (bw_dtype)t;
            return true;
        }
    return false;
}

typedef struct arguments {
    mm_options options;
    mm_shape shape;
    bool has_type;
} arguments;

static int parse_option(arguments *a, const char *option, const char *value)
{
    uint64_t n = 0;
    bool is_number = bw_parse_u64(value, &n);
    if (strcmp(option, "--type") == 0) {
        a->has_type = true;
        return find_type(value, &a->options.type) ? 0 : bad("there is no type of weights", value);
    }
    if (strcmp(option, "--mix") == 0) {
        bool four = strcmp(value, "q4_k_m") == 0;
        a->options.mix = four ? MM_MIX_Q4_K_M : MM_MIX_Q5_K_M;
        return four || strcmp(value, "q5_k_m") == 0 ? 0 : bad("the mixes are q4_k_m and q5_k_m, not", value);
    }
    if (strcmp(option, "--layers") == 0) {
        a->shape.n_layers = (int32_t)n;
        return is_number && n >= 1 && n <= 512 ? 0 : bad("--layers takes 1 to 512, not", value);
    }
    if (strcmp(option, "--seed") == 0) {
        a->options.seed = n;
        return is_number ? 0 : bad("--seed takes a number, not", value);
    }
    if (strcmp(option, "--threads") == 0) {
        a->options.n_threads = (int)n;
        return is_number && n >= 1 && n <= 256 ? 0 : bad("--threads takes 1 to 256, not", value);
    }
    return bad("there is no option", option);
}

static int parse(arguments *a, int argc, char **argv)
{
    const char *words[2] = {0};
    int n_words = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (n_words == 2)
                return bad("one word too many:", argv[i]);
            words[n_words++] = argv[i];
        } else if (i + 1 == argc) {
            return bad("this option lacks its value, or does not exist:", argv[i]);
        }
        if (argv[i][0] == '-')
            i++;
    }
    if (n_words < 2)
        return bad("a shape and an output are needed", NULL);
    const mm_shape *shape = mm_shape_find(words[0]);
    if (!shape)
        return bad("there is no shape", words[0]);
    a->shape = *shape;
    a->options.shape = &a->shape;
    a->options.path = words[1];
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            continue;
        int code = parse_option(a, argv[i], argv[i + 1]);
        if (code != 0)
            return code;
        i++;
    }
    if (a->has_type && a->options.mix != MM_MIX_NONE)
        return bad("--type and --mix exclude each other", NULL);
    if (!a->has_type)
        a->options.type = bw_str_ends(a->options.path, ".gguf") ? BW_F16 : BW_BF16;
    return 0;
}

static volatile sig_atomic_t stopped;
static void stop(int number)
{
    stopped = number;
    signal(number, SIG_DFL); /* asked for twice: at once */
}

/* Not what whoever started this told it to ignore: nohup, a shell's background. */
static void catch_unless_ignored(int number)
{
    if (signal(number, SIG_IGN) != SIG_IGN)
        signal(number, stop);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of its write */
    signal(SIGPIPE, SIG_IGN);
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_lists();
    arguments a = {0};
    int code = parse(&a, argc, argv);
    if (code != 0)
        return code;
    bw_err err = {0};
    mm_result result;
    a.options.stop = &stopped;
    catch_unless_ignored(SIGINT);
    catch_unless_ignored(SIGTERM);
    catch_unless_ignored(SIGHUP);
    int64_t begin = bw_clock_now_ns();
    if (mm_write(&a.options, &result, &err) != BW_OK) {
        fprintf(stderr, "make_model: %s\n", err.text);
        return err.status == BW_E_CANCELLED ? 128 + stopped : 1;
    }
    double seconds = (double)(bw_clock_now_ns() - begin) / 1e9;
    printf("%s: %zu tensors, %.3f GB in %.2f s (%.2f GB/s)\n", a.options.path, result.n_tensors,
           (double)result.n_bytes / 1e9, seconds, (double)result.n_bytes / 1e9 / (seconds > 0 ? seconds : 1e-9));
    return fflush(stdout) == 0 ? 0 : 1;
}
