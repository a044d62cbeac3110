/* Text in and out of a loaded model: tokens and chat templates. Any thread may call this: what it reads never changes
 * after loading. */
#include "engine_private.h"

#include <string.h>

#include "bw_clock.h"
#include "bw_json.h"
#include "bw_mem.h"

bw_status bw_engine_tokenize(const bw_engine *engine, const char *text, size_t text_bytes, bool add_special,
                             bool parse_special, int32_t **tokens, size_t *n_tokens, bw_err *err)
{
    if (!engine || !text || !tokens || !n_tokens)
        return bw_fail(err, BW_E_ARG, "engine, text, tokens or n_tokens is NULL");
    *tokens = NULL;
    *n_tokens = 0;
    if (text_bytes == SIZE_MAX)
        text_bytes = strlen(text);
    const bw_encode_options options = {.add_special = add_special, .parse_special = parse_special};
    bw_status status = bw_tokenizer_encode(engine->tokenizer, text, text_bytes, &options, tokens, n_tokens, err);
    if (status != BW_OK) {
        bw_free(*tokens);
        *tokens = NULL;
        *n_tokens = 0;
    }
    return status;
}

static bw_status take_text(bw_str *str, bw_status status, char **text, size_t *text_bytes, bw_err *err)
{
    size_t n = str->len;
    if (status == BW_OK) {
        bw_str_add_bytes(str, "", 0);
        *text = str->data ? bw_str_take(str, text_bytes) : bw_strdup("");
        if (!*text)
            status = bw_fail_memory(err, n + 1, "a text");
    }
    bw_str_deinit(str);
    return status;
}

bw_status bw_engine_detokenize(const bw_engine *engine, const int32_t *tokens, size_t n_tokens, bool special,
                               char **text, size_t *text_bytes, bw_err *err)
{
    if (!engine || (!tokens && n_tokens > 0) || !text)
        return bw_fail(err, BW_E_ARG, "engine, tokens or text is NULL");
    *text = NULL;
    size_t n = 0;
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= engine->info.n_vocab)
            return bw_fail(err, BW_E_RANGE, "token %zu is %d; the vocabulary has %d", i, (int)tokens[i],
                           (int)engine->info.n_vocab);
    bw_str str = {0};
    bw_status status = bw_tokenizer_decode(engine->tokenizer, tokens, n_tokens, special, &str, err);
    status = take_text(&str, status, text, &n, err);
    if (text_bytes)
        *text_bytes = n;
    return status;
}

static bw_status parse_json(const char *text, const char *what, bool array, json_t **out, bw_err *err)
{
    json_error_t error;
    bool no_memory;
    *out = bw_json_load_any_number(text, strlen(text), JSON_ALLOW_NUL, &error, &no_memory);
    if (no_memory)
        return bw_fail_memory(err, strlen(text), what);
    if (!*out)
        return bw_fail(err, BW_E_FORMAT, "%s is not JSON: line %d, column %d: %s", what, error.line, error.column,
                       error.text);
    if (array ? json_is_array(*out) : json_is_object(*out))
        return BW_OK;
    json_decref(*out);
    *out = NULL;
    return bw_fail(err, BW_E_ARG, "%s must be %s", what, array ? "an array" : "an object");
}

static bw_status check_messages(const json_t *messages, bw_err *err)
{
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        if (!json_is_object(message))
            return bw_fail(err, BW_E_ARG, "message %zu is not an object", i);
        if (!json_is_string(json_object_get(message, "role")))
            return bw_fail(err, BW_E_ARG, "message %zu has no role, or one that is not a string", i);
    }
    return BW_OK;
}

static int set_token(const bw_engine *engine, json_t *context, const char *name, int32_t token)
{
    const char *spelling = token >= 0 ? bw_tokenizer_spelling(engine->tokenizer, token) : NULL;
    return json_object_set_new(context, name, json_string_nocheck(spelling ? spelling : ""));
}

/* The variables that are the engine's own, which a template may write as control tokens. */
static bw_status own_variables(const bw_engine *engine, bool add_generation_prompt, json_t **own, bw_err *err)
{
    *own = json_object();
    int bad = !*own;
    bad |= bad || json_object_set_new(*own, "add_generation_prompt", json_boolean(add_generation_prompt));
    bad |= bad || set_token(engine, *own, "bos_token", bw_tokenizer_bos(engine->tokenizer));
    bad |= bad || set_token(engine, *own, "eos_token", bw_tokenizer_eos(engine->tokenizer));
    return bad ? bw_fail_memory(err, 256, "the chat template's variables") : BW_OK;
}

/* Those that came with the request. */
static bw_status request_variables(json_t *messages, json_t *extra, json_t **request, bw_err *err)
{
    *request = json_object();
    int bad = !*request;
    bad |= bad || json_object_set(*request, "messages", messages);
    if (extra)
        bad |= bad || json_object_update(*request, extra);
    return bad ? bw_fail_memory(err, 256, "the chat template's variables") : BW_OK;
}

static bw_status render(const bw_jinja *template, const json_t *own, const json_t *request, bw_chat_text *chat,
                        bw_err *err)
{
    bw_str str = {0};
    bw_text_spans spans = {0};
    bw_status status = bw_jinja_render(template, own, request, bw_clock_unix_s(), &str, &spans, err);
    status = take_text(&str, status, &chat->text, &chat->text_bytes, err);
    chat->literal = spans.v;
    chat->n_literal = spans.n;
    return status;
}

static bw_status shape_and_render(const bw_engine *engine, json_t *messages, json_t *extra, bool add_generation_prompt,
                                  bw_chat_text *chat, bw_err *err)
{
    bool tools = json_array_size(json_object_get(extra, "tools")) > 0, for_tools = tools && engine->chat_tools;
    const bw_jinja *template = for_tools ? engine->chat_tools : engine->chat;
    const bw_chat_habits *habits = for_tools ? &engine->chat_tools_habits : &engine->chat_habits;
    if (!template)
        return bw_fail(err, engine->chat_err.status, "the model's chat template cannot be used: %s",
                       engine->chat_err.text);
    if (tools && !habits->shows_tools)
        return bw_fail(err, BW_E_UNSUPPORTED, "the model's chat template has no place for tools: leave them out");
    json_t *own = NULL, *request = NULL;
    bw_status status = bw_chat_shape(habits, messages, err);
    if (status == BW_OK)
        status = own_variables(engine, add_generation_prompt, &own, err);
    if (status == BW_OK)
        status = request_variables(messages, extra, &request, err);
    if (status == BW_OK)
        status = render(template, own, request, chat, err);
    json_decref(own);
    json_decref(request);
    return status;
}

bw_status bw_engine_render_chat(const bw_engine *engine, const char *messages_json, const char *extra_json,
                                bool add_generation_prompt, bw_chat_text *chat, bw_err *err)
{
    if (!engine || !messages_json || !chat)
        return bw_fail(err, BW_E_ARG, "engine, messages or chat is NULL");
    *chat = (bw_chat_text){0};
    json_t *messages = NULL, *extra = NULL;
    bw_status status = parse_json(messages_json, "messages", true, &messages, err);
    if (status == BW_OK)
        status = check_messages(messages, err);
    if (status == BW_OK && extra_json)
        status = parse_json(extra_json, "the template's variables", false, &extra, err);
    if (status == BW_OK)
        status = shape_and_render(engine, messages, extra, add_generation_prompt, chat, err);
    json_decref(extra);
    json_decref(messages);
    if (status != BW_OK)
        bw_chat_text_free(chat);
    return status;
}

void bw_chat_text_free(bw_chat_text *chat)
{
    if (!chat)
        return;
    bw_free(chat->text);
    bw_free(chat->literal);
    *chat = (bw_chat_text){0};
}
