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
    *out = bw_json_load(text, strlen(text), JSON_ALLOW_NUL, &error, &no_memory);
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

/* Takes over nothing; *context is the caller's. */
static bw_status make_context(const bw_engine *engine, json_t *messages, json_t *extra, bool add_generation_prompt,
                              json_t **context, bw_err *err)
{
    *context = json_object();
    int bad = !*context;
    bad |= bad || json_object_set(*context, "messages", messages);
    bad |= bad || json_object_set_new(*context, "add_generation_prompt", json_boolean(add_generation_prompt));
    bad |= bad || set_token(engine, *context, "bos_token", bw_tokenizer_bos(engine->tokenizer));
    bad |= bad || set_token(engine, *context, "eos_token", bw_tokenizer_eos(engine->tokenizer));
    if (extra)
        bad |= bad || json_object_update(*context, extra);
    return bad ? bw_fail_memory(err, 256, "the chat template's variables") : BW_OK;
}

bw_status bw_engine_render_chat(const bw_engine *engine, const char *messages_json, const char *extra_json,
                                bool add_generation_prompt, char **text, size_t *text_bytes, bw_err *err)
{
    if (!engine || !messages_json || !text)
        return bw_fail(err, BW_E_ARG, "engine, messages or text is NULL");
    *text = NULL;
    json_t *messages = NULL, *extra = NULL, *context = NULL;
    bw_str str = {0};
    size_t n = 0;
    bw_status status = parse_json(messages_json, "messages", true, &messages, err);
    if (status == BW_OK)
        status = check_messages(messages, err);
    if (status == BW_OK && extra_json)
        status = parse_json(extra_json, "the template's variables", false, &extra, err);
    bool tools = json_array_size(json_object_get(extra, "tools")) > 0, own = tools && engine->chat_tools;
    const bw_jinja *template = own ? engine->chat_tools : engine->chat;
    const bw_chat_habits *habits = own ? &engine->chat_tools_habits : &engine->chat_habits;
    if (status == BW_OK && !template)
        status = bw_fail(err, engine->chat_err.status, "the model's chat template cannot be used: %s",
                         engine->chat_err.text);
    if (status == BW_OK && tools && !habits->shows_tools)
        status = bw_fail(err, BW_E_UNSUPPORTED, "the model's chat template has no place for tools: leave them out");
    if (status == BW_OK)
        status = bw_chat_shape(habits, messages, err);
    if (status == BW_OK)
        status = make_context(engine, messages, extra, add_generation_prompt, &context, err);
    if (status == BW_OK)
        status = bw_jinja_render(template, context, bw_clock_unix_s(), &str, err);
    json_decref(context);
    json_decref(extra);
    json_decref(messages);
    status = take_text(&str, status, text, &n, err);
    if (text_bytes)
        *text_bytes = n;
    return status;
}
