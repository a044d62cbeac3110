/* Chat messages as a template wants them. Templates differ in what they do with an assistant's message that only calls
 * tools: most need its content to be text and the calls' arguments to be an object, some need no content at all, or
 * the arguments as JSON text. Which, is found by rendering a small conversation when the model is loaded. */
#include "engine_private.h"

#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_json.h"

/* Words that stand in no template. */
#define PROBE_TOOL "bwprobetool"
#define PROBE_VALUE "bwprobevalue"

static const char probe_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"" PROBE_TOOL "\",\"description\":\"d\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"description\":\"d\"}},\"required\":[\"a\"]}}}]";

/* An id of nine letters and digits, as Mistral's templates demand. */
static const char probe_call[] =
    "[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":"
    "\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"" PROBE_TOOL "\",\"arguments\":%s}}]},"
    "{\"role\":\"tool\",\"name\":\"" PROBE_TOOL "\",\"tool_call_id\":\"call00001\",\"content\":\"r\"}]";

static json_t *parse(const char *text)
{
    bool no_memory;
    json_error_t why;
    return bw_json_load(text, strlen(text), 0, &why, &no_memory);
}

/* Render messages with the probe's tools; BW_E_MEMORY or not is all that the status says. */
static bw_status render_probe(const bw_jinja *template, const char *messages, bw_str *out, bw_err *err)
{
    json_t *context = json_object();
    bool good = context != NULL;
    good = good && json_object_set_new(context, "messages", parse(messages)) == 0;
    good = good && json_object_set_new(context, "add_generation_prompt", json_true()) == 0;
    good = good && json_object_set_new(context, "bos_token", json_string("<s>")) == 0;
    good = good && json_object_set_new(context, "eos_token", json_string("</s>")) == 0;
    good = good && json_object_set_new(context, "tools", parse(probe_tools)) == 0;
    bw_str_clear(out);
    bw_status status = good ? bw_jinja_render(template, NULL, context, bw_clock_unix_s(), out, NULL, err)
                            : bw_fail_memory(err, sizeof probe_call, "a chat template's trial");
    bw_str_add_bytes(out, "", 0);
    if (status == BW_OK && out->failed)
        status = bw_fail_memory(err, out->len, "a chat template's trial");
    json_decref(context);
    return status;
}

/* Best first: over some ninety published templates the first fits nearly all that know tools. */
static const bw_chat_habits ways[] = {
    {.null_content = false, .text_arguments = false},
    {.null_content = true, .text_arguments = true},
    {.null_content = false, .text_arguments = true},
    {.null_content = true, .text_arguments = false},
};

/* The first way in which the call and its argument are seen; else the first that can be rendered at all. */
static bw_status probe_calls(const bw_jinja *template, bw_chat_habits *habits, bw_err *err)
{
    bw_status status = BW_OK;
    bw_str out = {0};
    int rendered = -1, shown = -1, n = (int)(sizeof ways / sizeof *ways);
    for (int i = 0; i < n && shown < 0 && status != BW_E_MEMORY; i++) {
        char messages[sizeof probe_call + 80];
        bw_err why = {0};
        snprintf(messages, sizeof messages, probe_call, ways[i].null_content ? "null" : "\"\"",
                 ways[i].text_arguments ? "\"{\\\"a\\\":\\\"" PROBE_VALUE "\\\"}\"" : "{\"a\":\"" PROBE_VALUE "\"}");
        status = render_probe(template, messages, &out, &why);
        if (status == BW_E_MEMORY)
            *err = why;
        if (status != BW_OK)
            continue;
        if (rendered < 0)
            rendered = i;
        if (out.len && strstr(out.data, PROBE_VALUE))
            shown = i;
    }
    bw_str_deinit(&out);
    if (status == BW_E_MEMORY)
        return status;
    *habits = ways[shown >= 0 ? shown : rendered >= 0 ? rendered : 0];
    return BW_OK;
}

/* Whether tools that are given are seen in the prompt. A template that renders no such conversation is believed when
 * it mentions them. */
static bw_status probe_tool_list(const bw_jinja *template, const char *source, bool *shows, bw_err *err)
{
    static const char *const conversations[] = {
        "[{\"role\":\"user\",\"content\":\"u\"}]",
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}]",
    };
    bw_str out = {0};
    bw_status status = BW_OK;
    bool rendered = false;
    *shows = false;
    for (size_t i = 0; i < 2 && !*shows && status != BW_E_MEMORY; i++) {
        bw_err why = {0};
        status = render_probe(template, conversations[i], &out, &why);
        rendered = rendered || status == BW_OK;
        *shows = status == BW_OK && out.len && strstr(out.data, PROBE_TOOL);
        if (status == BW_E_MEMORY)
            *err = why;
    }
    if (!rendered)
        *shows = strstr(source, "tools") != NULL;
    bw_str_deinit(&out);
    return status == BW_E_MEMORY ? status : BW_OK;
}

/* Some mention the role only to refuse it or to leave it out: its text must be seen. */
static bw_status probe_developer(const bw_jinja *template, const char *source, bool *knows, bw_err *err)
{
    static const char messages[] = "[{\"role\":\"developer\",\"content\":\"" PROBE_VALUE "\"},"
                                   "{\"role\":\"user\",\"content\":\"u\"}]";
    bw_str out = {0};
    bw_err why = {0};
    *knows = false;
    if (!strstr(source, "developer"))
        return BW_OK;
    bw_status status = render_probe(template, messages, &out, &why);
    *knows = status == BW_OK && out.len && strstr(out.data, PROBE_VALUE);
    if (status == BW_E_MEMORY)
        *err = why;
    bw_str_deinit(&out);
    return status == BW_E_MEMORY ? status : BW_OK;
}

bw_status bw_chat_learn(const bw_jinja *template, const char *source, bw_chat_habits *habits, bw_err *err)
{
    bw_json_init();
    BW_TRY(probe_calls(template, habits, err));
    BW_TRY(probe_tool_list(template, source, &habits->shows_tools, err));
    return probe_developer(template, source, &habits->knows_developer, err);
}

/* ---- shaping ---- */

/* The arguments of one call: an object from its text or the other way round. Text that is no JSON object stays text:
 * models write such arguments, and clients send them back. */
static bool shape_arguments(json_t *function, bool as_text)
{
    json_t *arguments = json_object_get(function, "arguments");
    if (json_is_string(arguments) && !as_text) {
        const char *text = json_string_value(arguments);
        bool no_memory = false;
        json_error_t why;
        json_t *value =
            strspn(text, " \t\r\n") == json_string_length(arguments)
                ? json_object() /* a call without arguments */
                : bw_json_load_any_number(text, json_string_length(arguments), JSON_ALLOW_NUL, &why, &no_memory);
        if (no_memory)
            return false;
        if (json_is_object(value))
            return json_object_set_new(function, "arguments", value) == 0;
        json_decref(value);
    } else if (json_is_object(arguments) && as_text) {
        char *text = json_dumps(arguments, 0);
        json_t *value = text ? json_string_nocheck(text) : NULL;
        bw_free(text);
        return value && json_object_set_new(function, "arguments", value) == 0;
    }
    return true;
}

static bool has_text(const json_t *content)
{
    return (json_is_string(content) && json_string_length(content) > 0) || json_array_size(content) > 0;
}

bw_status bw_chat_shape(const bw_chat_habits *habits, json_t *messages, bw_err *err)
{
    size_t i, k;
    json_t *message, *call;
    bool good = true;
    json_array_foreach(messages, i, message)
    {
        json_t *calls = json_object_get(message, "tool_calls"), *content = json_object_get(message, "content");
        bool is_call = json_array_size(calls) > 0;
        if (is_call && habits->null_content && !has_text(content))
            good = good && json_object_set_new(message, "content", json_null()) == 0;
        else if (!content || json_is_null(content))
            good = good && json_object_set_new(message, "content", json_string("")) == 0;
        json_array_foreach(calls, k, call)
        {
            json_t *function = json_object_get(call, "function"); /* some write its members into the call itself */
            good = good && shape_arguments(function ? function : call, habits->text_arguments);
        }
        const char *role = json_string_value(json_object_get(message, "role"));
        if (role && !habits->knows_developer && strcmp(role, "developer") == 0)
            good = good && json_object_set_new(message, "role", json_string("system")) == 0;
    }
    return good ? BW_OK : bw_fail_memory(err, 64, "a message");
}
