/* beeswax chat: a conversation in turns. The whole conversation is sent each time; the engine's prefix cache makes that
 * cheap. Owns the list of messages; a turn that failed or was refused leaves it as it was before. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bw_mem.h"

typedef struct chat_settings {
    cli_engine_settings engine;
    cli_sampling_settings sampling;
    const char *system;
    int32_t n;
} chat_settings;

static void init(void *settings)
{
    chat_settings *s = settings;
    cli_sampling_init(&s->sampling);
    s->n = 1024;
}

static const cli_option options[] = {
    {"system", 0, CLI_TEXT, offsetof(chat_settings, system), "TEXT", "the system message", 0, 0, NULL},
    {"n-predict", 'n', CLI_I32, offsetof(chat_settings, n), "N", "most tokens of one answer (default 1024)", 1,
     2147483647, NULL},
    CLI_SAMPLING_OPTIONS(offsetof(chat_settings, sampling)),
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

typedef struct chat {
    const chat_settings *settings;
    bw_engine *engine;
    bw_str messages; /* a JSON array without its closing bracket */
    bool interactive;
} chat;

static void reset(chat *c)
{
    bw_str_clear(&c->messages);
    bw_str_add_char(&c->messages, '[');
    if (c->settings->system)
        cli_add_message(&c->messages, "system", c->settings->system, strlen(c->settings->system));
}

static void shorten(bw_str *str, size_t len)
{
    if (str->data && len < str->len) {
        str->len = len;
        str->data[len] = 0;
    }
}

/* ---- one turn ---------------------------------------------------------------------------------------------------- */

static bw_status generate(chat *c, const bw_chat_text *prompt, bw_str *answer, cli_result *result, bw_err *err)
{
    bw_request request;
    bw_request_init(&request);
    request.prompt = prompt->text;
    request.prompt_bytes = prompt->text_bytes;
    request.literal = prompt->literal;
    request.n_literal = prompt->n_literal;
    request.parse_special = true;
    request.max_tokens = c->settings->n;
    cli_sampling_apply(&c->settings->sampling, &request);
    return cli_generate(c->engine, &request, true, answer, result, err);
}

static bw_status turn(chat *c, const char *line, size_t n_bytes, bw_err *err)
{
    size_t before = c->messages.len;
    bw_chat_text prompt = {0};
    bw_str answer = {0};
    cli_result result;
    cli_add_message(&c->messages, "user", line, n_bytes);
    size_t after = c->messages.len;
    bw_str_add_char(&c->messages, ']');
    bw_status status = c->messages.failed
                           ? bw_fail_memory(err, after, "the conversation")
                           : bw_engine_render_chat(c->engine, c->messages.data, NULL, true, &prompt, err);
    if (status == BW_OK)
        status = generate(c, &prompt, &answer, &result, err);
    bw_chat_text_free(&prompt);
    if (status != BW_OK) {
        shorten(&c->messages, before);
        bw_str_deinit(&answer);
        return status;
    }
    shorten(&c->messages, after);
    cli_add_message(&c->messages, "assistant", answer.data ? answer.data : "", answer.len);
    cli_out_text("\n");
    if (result.finish == BW_FINISH_CANCELLED)
        cli_note("(cancelled)\n");
    else if (result.finish == BW_FINISH_LENGTH)
        cli_note("(cut off: the limit of tokens is reached; see -n and --ctx)\n");
    if (c->settings->engine.common.verbose)
        cli_note("(prompt %d tokens, %d of them cached, %.0f ms; generated %d tokens, %.1f tokens/s)\n",
                 (int)result.n_prompt, (int)result.n_cached, result.prompt_ms, (int)result.n_generated,
                 cli_generate_rate(&result));
    bw_str_deinit(&answer);
    return BW_OK;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static const char help_text[] = "/reset  forget the conversation\n"
                                "/exit   leave (also Ctrl-D)\n"
                                "/help   show this\n"
                                "Ctrl-C  cancel the current answer; twice at the prompt: leave\n";

typedef enum input { INPUT_LINE, INPUT_END, INPUT_SIGNAL, INPUT_ERROR } input;

static input read_line(char **line, size_t *capacity, size_t *n)
{
    errno = 0;
    ssize_t got = getline(line, capacity, stdin);
    if (cli_signal_pending()) {
        clearerr(stdin);
        return INPUT_SIGNAL;
    }
    if (got < 0)
        return ferror(stdin) || errno == ENOMEM ? INPUT_ERROR : INPUT_END;
    while (got > 0 && ((*line)[got - 1] == '\n' || (*line)[got - 1] == '\r'))
        (*line)[--got] = 0;
    *n = (size_t)got;
    return INPUT_LINE;
}

/* By another signal than Ctrl-C. */
static bool is_told_to_end(void)
{
    return cli_signal_pending() != 0 && cli_signal_pending() != SIGINT;
}

/* A line that was typed. Returns false to leave. */
static bool handle(chat *c, const char *line, size_t n, int *code)
{
    bw_err err = {0};
    if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0)
        return false;
    if (line[strspn(line, " \t")] == 0)
        return true;
    if (strcmp(line, "/reset") == 0) {
        reset(c);
        cli_note("(the conversation is empty)\n");
    } else if (strcmp(line, "/help") == 0) {
        cli_note("%s", help_text);
    } else if (line[0] == '/') {
        cli_note("(there is no command %.60s; /help lists them)\n", line);
    } else if (bw_utf8_valid_prefix(line, n) != n) {
        *code = cli_fail("the line is not UTF-8: byte %zu is wrong", bw_utf8_valid_prefix(line, n));
    } else if (turn(c, line, n, &err) != BW_OK) {
        *code = cli_fail_err(&err);
        if (err.status == BW_E_RANGE)
            cli_note("(/reset empties the conversation)\n");
    }
    if (is_told_to_end() || cli_out_failed())
        return false;
    cli_signal_clear();
    return true;
}

/* Returns the exit code: on a terminal a failed turn has been read by a person; from a pipe it counts. */
static int talk(chat *c)
{
    char *line = NULL;
    size_t capacity = 0, n = 0;
    int code = CLI_OK, n_signals = 0;
    for (bool go_on = true; go_on;) {
        if (c->interactive)
            cli_note("> ");
        switch (read_line(&line, &capacity, &n)) {
        case INPUT_LINE:
            n_signals = 0;
            go_on = handle(c, line, n, &code);
            break;
        case INPUT_END:
            go_on = false;
            if (c->interactive)
                cli_note("\n");
            break;
        case INPUT_SIGNAL:
            if (is_told_to_end() || !c->interactive || ++n_signals == 2) {
                cli_note("\n");
                free(line); /* getline's */
                return CLI_INTERRUPTED;
            }
            cli_signal_clear();
            cli_note("\n(Ctrl-C again, Ctrl-D or /exit leaves)\n");
            break;
        case INPUT_ERROR:
            code = cli_fail("standard input cannot be read: %s", strerror(errno));
            go_on = false;
            break;
        }
        if (c->messages.failed)
            code = cli_fail("there is no memory for the conversation");
        go_on = go_on && !c->messages.failed;
    }
    free(line); /* getline's */
    return c->interactive ? CLI_OK : code;
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    chat c = {.settings = settings};
    bw_err err = {0};
    if (n_words == 0)
        return cli_usage(command, "chat needs a model");
    if (n_words > 1)
        return cli_usage(command, "\"%.60s\" is one word too many: prompts are typed at the prompt", words[1]);
    if (cli_engine_open(&c.settings->engine, words[0], true, &c.engine, &err) != BW_OK)
        return cli_fail_err(&err);
    c.interactive = isatty(STDIN_FILENO);
    if (c.interactive || c.settings->engine.common.verbose)
        cli_engine_note(c.engine);
    if (c.interactive)
        cli_note("%s", help_text);
    cli_signals_catch();
    reset(&c);
    int code = cli_out_end(talk(&c));
    bw_str_deinit(&c.messages);
    bw_engine_free(c.engine);
    return code;
}

const cli_command cli_cmd_chat = {
    .name = "chat",
    .usage = "MODEL [options]",
    .summary = "talk with a model in turns",
    .details = "Lines from standard input are messages, answers go to standard output. The model's chat template is\n"
               "used, ChatML where it has none. /reset forgets the conversation, /exit leaves, /help lists more;\n"
               "Ctrl-C cancels the current answer.\n",
    .groups = {&group, &cli_engine_group, &cli_common_group},
    .settings_bytes = sizeof(chat_settings),
    .init = init,
    .run = run,
};
