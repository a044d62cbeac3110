/* beeswax inspect: what is in a model file. */
#include "cli.h"

#include "bw_inspect.h"
#include "bw_mem.h"
#include "bw_model_path.h"

typedef struct inspect_settings {
    cli_common common;
    bool json;
} inspect_settings;

static const cli_option options[] = {
    {"json", 0, CLI_FLAG, offsetof(inspect_settings, json), NULL, "print one JSON object", 0, 0, NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    const inspect_settings *s = settings;
    if (n_words != 1)
        return cli_usage(command, n_words ? "inspect takes one file" : "inspect needs a file");
    bw_err err = {0};
    bw_str out = {0};
    char *path = NULL;
    bw_status status = bw_model_path_find(words[0], &path, &err);
    if (status == BW_OK)
        status = bw_formats_inspect(path, s->json, &out, &err);
    bw_free(path);
    if (status != BW_OK) {
        bw_str_deinit(&out);
        return cli_fail_err(&err);
    }
    if (out.len > 0 && out.data[out.len - 1] != '\n')
        bw_str_add_char(&out, '\n');
    return cli_out_str(&out);
}

const cli_command cli_cmd_inspect = {
    .name = "inspect",
    .usage = "FILE [--json]",
    .summary = "show a model file's metadata and tensors",
    .details = "FILE is a .gguf file (of a split model the first), a .safetensors file, an index.json or a folder\n"
               "with those.\n",
    .groups = {&group, &cli_common_group},
    .settings_bytes = sizeof(inspect_settings),
    .run = run,
};
