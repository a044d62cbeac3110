/* beeswax run: one prompt, its answer. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bw_mem.h"

typedef struct run_settings {
    cli_engine_settings engine;
    cli_sampling_settings sampling;
    const char *prompt, *system;
    int32_t n;
    bool chat, raw, json, no_stream, ignore_eos;
} run_settings;

static void init(void *settings)
{
    run_settings *s = settings;
    cli_sampling_init(&s->sampling);
    s->n = 256;
}

static const cli_option options[] = {
    {"prompt", 'p', CLI_TEXT, offsetof(run_settings, prompt), "TEXT", "the prompt", 0, 0, NULL},
    {"n-predict", 'n', CLI_I32, offsetof(run_settings, n), "N", "most tokens to generate (default 256)", 0, 2147483647,
     NULL},
    {"chat", 0, CLI_FLAG, offsetof(run_settings, chat), NULL,
     "put the prompt into the chat template even if the model brings none (ChatML then)", 0, 0, NULL},
    {"raw", 0, CLI_FLAG, offsetof(run_settings, raw), NULL, "the prompt as it is, without a template", 0, 0, NULL},
    {"system", 0, CLI_TEXT, offsetof(run_settings, system), "TEXT", "the system message in front of it", 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(run_settings, json), NULL, "print one JSON object with text and timings", 0, 0,
     NULL},
    {"no-stream", 0, CLI_FLAG, offsetof(run_settings, no_stream), NULL, "print the text when it is complete", 0, 0,
     NULL},
    {"ignore-eos", 0, CLI_FLAG, offsetof(run_settings, ignore_eos), NULL, "go on after the model's end token", 0, 0,
     NULL},
    CLI_SAMPLING_OPTIONS(offsetof(run_settings, sampling)),
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

/* ---- prompt ------------------------------------------------------------------------------------------------------ */

static int read_stdin(const cli_command *command, bw_str *prompt)
{
    enum { MAX_BYTES = 256 << 20 };
    if (isatty(STDIN_FILENO))
        return cli_usage(command, "there is no prompt: give one as a word, with -p, or on standard input");
    char buffer[16384];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR && !cli_signal_pending())
            continue;
        if (n < 0 && errno == EINTR)
            return CLI_INTERRUPTED;
        if (n < 0)
            return cli_fail("standard input cannot be read: %s", strerror(errno));
        if (n == 0)
            break;
        bw_str_add_bytes(prompt, buffer, (size_t)n);
        if (prompt->failed || prompt->len > MAX_BYTES)
            return cli_fail("the prompt on standard input is too long: it has more than %zu bytes", prompt->len);
    }
    if (prompt->len > 0 && prompt->data[prompt->len - 1] == '\n')
        prompt->data[--prompt->len] = 0;
    if (prompt->len >= 3 && memcmp(prompt->data, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
        prompt->len -= 3;
        memmove(prompt->data, prompt->data + 3, prompt->len + 1);
    }
    return CLI_OK;
}

static int read_prompt(const cli_command *command, const run_settings *s, char **words, int n, bw_str *prompt)
{
    if (s->prompt && n > 0)
        return cli_usage(command, "there are two prompts: -p and \"%.60s\"", words[0]);
    if (!s->prompt && n == 0) {
        int code = read_stdin(command, prompt);
        if (code != CLI_OK)
            return code;
    }
    if (s->prompt)
        bw_str_add(prompt, s->prompt);
    for (int i = 0; i < n; i++)
        bw_str_add_format(prompt, "%s%s", i ? " " : "", words[i]);
    if (prompt->failed)
        return cli_fail("there is no memory for the prompt");
    if (bw_utf8_valid_prefix(prompt->data ? prompt->data : "", prompt->len) != prompt->len)
        return cli_fail("the prompt is not UTF-8: byte %zu is wrong", bw_utf8_valid_prefix(prompt->data, prompt->len));
    return CLI_OK;
}

/* What is asked: the prompt as it is, or in the model's template. */
static bw_status make_text(const bw_engine *engine, const run_settings *s, const bw_str *prompt, bool in_template,
                           bw_chat_text *text, bw_err *err)
{
    bw_str json = {0};
    if (!in_template) {
        *text = (bw_chat_text){.text = bw_strndup(prompt->data ? prompt->data : "", prompt->len),
                               .text_bytes = prompt->len};
        return text->text ? BW_OK : bw_fail_memory(err, prompt->len, "the prompt");
    }
    bw_str_add_char(&json, '[');
    if (s->system)
        cli_add_message(&json, "system", s->system, strlen(s->system));
    cli_add_message(&json, "user", prompt->data ? prompt->data : "", prompt->len);
    bw_str_add_char(&json, ']');
    bw_status status = json.failed ? bw_fail_memory(err, json.len, "the messages")
                                   : bw_engine_render_chat(engine, json.data, NULL, true, text, err);
    bw_str_deinit(&json);
    return status;
}

/* ---- answer ------------------------------------------------------------------------------------------------------ */

static int print_json(const bw_str *text, const cli_result *r)
{
    bw_str out = {0};
    bw_str_add(&out, "{\"text\":");
    bw_str_add_json(&out, text->data ? text->data : "", text->len);
    bw_str_add_format(&out,
                      ",\"finish\":\"%s\",\"prompt_tokens\":%d,\"cached_tokens\":%d,\"generated_tokens\":%d,"
                      "\"prompt_ms\":%.3f,\"generate_ms\":%.3f,\"prompt_tokens_per_s\":%.3f,"
                      "\"generate_tokens_per_s\":%.3f}\n",
                      cli_finish_name(r->finish), (int)r->n_prompt, (int)r->n_cached, (int)r->n_generated, r->prompt_ms,
                      r->generate_ms, cli_prompt_rate(r), cli_generate_rate(r));
    return cli_out_str(&out);
}

static int answer(const run_settings *s, bw_engine *engine, const bw_chat_text *prompt)
{
    bw_request request;
    bw_request_init(&request);
    request.prompt = prompt->text;
    request.prompt_bytes = prompt->text_bytes;
    request.literal = prompt->literal;
    request.n_literal = prompt->n_literal;
    request.parse_special = true;
    request.max_tokens = s->n;
    request.ignore_eos = s->ignore_eos;
    cli_sampling_apply(&s->sampling, &request);

    bool stream = !s->json && !s->no_stream;
    bw_str text = {0};
    cli_result result;
    bw_err err = {0};
    bw_status status = cli_generate(engine, &request, stream, stream ? NULL : &text, &result, &err);
    int code = status != BW_OK ? cli_fail_err(&err) : CLI_OK;
    if (status == BW_OK && s->json) {
        code = print_json(&text, &result);
    } else if (status == BW_OK) {
        if (!stream)
            cli_out(text.data, text.len);
        cli_out_text("\n");
        code = cli_out_end(CLI_OK);
    }
    bw_str_deinit(&text);
    if (code == CLI_OK)
        cli_note("prompt %d tokens%s, %.1f tokens/s; generated %d tokens, %.1f tokens/s; %s\n", (int)result.n_prompt,
                 result.n_cached > 0 ? " (partly cached)" : "", cli_prompt_rate(&result), (int)result.n_generated,
                 cli_generate_rate(&result), cli_finish_name(result.finish));
    return code == CLI_OK && cli_signal_pending() ? CLI_INTERRUPTED : code;
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    run_settings *s = settings;
    if (n_words == 0)
        return cli_usage(command, "run needs a model");
    if (s->chat && s->raw)
        return cli_usage(command, "--chat and --raw exclude each other");
    if (s->raw && s->system)
        return cli_usage(command, "--system needs the chat template: leave --raw out");
    bw_str prompt = {0};
    bw_engine *engine = NULL;
    bw_err err = {0};
    int code = read_prompt(command, s, words + 1, n_words - 1, &prompt);
    if (code != CLI_OK) {
        bw_str_deinit(&prompt);
        return code;
    }
    bw_status status = cli_engine_open(&s->engine, words[0], false, &engine, &err);
    if (status == BW_OK) {
        bw_model_info info;
        bw_engine_info(engine, &info);
        if (s->engine.common.verbose)
            cli_engine_note(engine);
        bool chat = s->chat || s->system || (info.has_chat_template && !s->raw);
        cli_signals_catch();
        bw_chat_text text = {0};
        status = make_text(engine, s, &prompt, chat, &text, &err);
        if (status == BW_OK)
            code = answer(s, engine, &text);
        bw_chat_text_free(&text);
    }
    if (status != BW_OK)
        code = cli_fail_err(&err);
    bw_engine_free(engine);
    bw_str_deinit(&prompt);
    return code;
}

const cli_command cli_cmd_run = {
    .name = "run",
    .usage = "MODEL [PROMPT...] [options]",
    .summary = "answer one prompt",
    .details = "MODEL is a .gguf file, a .safetensors file, a folder with config.json, or the name of a downloaded\n"
               "model. The prompt is the words after it, or -p TEXT, or standard input. Models with a chat\n"
               "template get the prompt as a user's message unless --raw is given. The text goes to standard\n"
               "output, one line of timings to standard error.\n"
               "\n"
               "  beeswax run model.gguf Why is the sky blue?\n"
               "  beeswax run model.gguf --raw -n 20 --temp 0 -p 'Once upon a time'\n"
               "  git diff | beeswax run model.gguf --system 'Write a commit message.'\n",
    .groups = {&group, &cli_engine_group, &cli_common_group},
    .settings_bytes = sizeof(run_settings),
    .init = init,
    .run = run,
};
