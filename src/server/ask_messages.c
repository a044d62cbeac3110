/* The conversation of a chat body, and what its template is given besides. See ask.h. */
#include <stdio.h>
#include <string.h>

#include "ask_openai.h"
#include "bw_mem.h"

/* Text parts under the names that clients give them: the type, and the member that holds the words. */
static const char *const part_types[][2] = {
    {"text", "text"}, {"refusal", "refusal"}, {"input_text", "text"}, {"output_text", "text"}};

static bool add_part(bw_str *text, const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    for (size_t i = 0; type && i < sizeof part_types / sizeof *part_types; i++) {
        const json_t *words = json_object_get(part, part_types[i][1]);
        if (strcmp(type, part_types[i][0]) != 0 || !json_is_string(words))
            continue;
        bw_str_add_bytes(text, json_string_value(words), json_string_length(words));
        return true;
    }
    if (!json_is_string(part)) /* some send bare strings */
        return false;
    bw_str_add_bytes(text, json_string_value(part), json_string_length(part));
    return true;
}

/* content: a string, nothing, or an array of text parts, which become one string. NULL when it cannot be used. */
static json_t *flatten_content(bw_ask_reader *in, size_t index, const json_t *content)
{
    if (!content || json_is_null(content))
        return json_null();
    if (json_is_string(content))
        return json_incref((json_t *)(uintptr_t)content);
    bw_str text = {0};
    bool good = json_is_array(content);
    for (size_t i = 0; good && i < json_array_size(content); i++)
        good = add_part(&text, json_array_get(content, i));
    json_t *flat = NULL;
    if (!good)
        COMPLAIN(in, "messages",
                 "messages[%zu]: 'content' must be a string, null or an array of text parts; images, audio and files "
                 "are not supported.",
                 index);
    else if (text.failed || !(flat = json_stringn_nocheck(text.data ? text.data : "", text.len)))
        bw_ask_no_memory(in);
    bw_str_deinit(&text);
    return flat;
}

/* What came before tools: function_call becomes a tool call, role "function" the tool that answers it. */
static bool modernise(json_t *message, size_t index)
{
    char id[32];
    json_t *call = json_object_get(message, "function_call");
    bool answers = strcmp(json_string_value(json_object_get(message, "role")), "function") == 0;
    if (json_is_object(call) && !json_object_get(message, "tool_calls")) {
        snprintf(id, sizeof id, "call%05zu", index); /* nine characters, which some templates demand */
        json_t *calls = json_pack("[{s:s, s:s, s:O}]", "id", id, "type", "function", "function", call);
        if (!calls || json_object_set_new(message, "tool_calls", calls) != 0)
            return false;
    }
    if (!answers)
        return true;
    snprintf(id, sizeof id, "call%05zu", index > 0 ? index - 1 : 0); /* it answers the message before it */
    return json_object_set_new(message, "role", json_string("tool")) == 0 &&
           json_object_set_new(message, "tool_call_id", json_string(id)) == 0;
}

/* tool_calls must be what templates go through; their arguments are shaped for the template by the engine. */
static bool check_calls(bw_ask_reader *in, size_t index, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    if (json_is_null(calls) || (calls && json_array_size(calls) == 0 && json_is_array(calls))) {
        json_object_del(message, "tool_calls"); /* "is defined" is all that many templates ask */
        return true;
    }
    bool good = !calls || json_is_array(calls);
    for (size_t i = 0; good && i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        good = json_is_string(json_object_get(function ? function : call, "name"));
    }
    if (!good)
        COMPLAIN(in, "messages",
                 "messages[%zu]: 'tool_calls' must be an array of objects with a 'function' that has a "
                 "'name'.",
                 index);
    return good;
}

static bool read_message(bw_ask_reader *in, size_t index, json_t *message)
{
    if (!json_is_object(message) || !json_is_string(json_object_get(message, "role"))) {
        COMPLAIN(in, "messages", "messages[%zu] must be an object with a 'role'.", index);
        return false;
    }
    if (!modernise(message, index)) {
        bw_ask_no_memory(in);
        return false;
    }
    const json_t *content = json_object_get(message, "content"), *refusal = json_object_get(message, "refusal");
    bool assistant = strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
    if (!content && !assistant) {
        COMPLAIN(in, "messages", "messages[%zu] has no 'content'.", index);
        return false;
    }
    if (!check_calls(in, index, message))
        return false;
    bool refused = (!content || json_is_null(content)) && json_is_string(refusal); /* that is what it said */
    json_t *flat = flatten_content(in, index, refused ? refusal : content);
    if (!flat)
        return false;
    if (json_object_set_new_nocheck(message, "content", flat) == 0)
        return true;
    bw_ask_no_memory(in);
    return false;
}

void bw_ask_read_messages(bw_ask_reader *in)
{
    const json_t *messages = bw_json_get(in->object, "messages");
    size_t n = json_array_size(messages);
    if (!json_is_array(messages) || n == 0) {
        COMPLAIN(in, "messages",
                 messages ? "'messages' must be an array with at least one message." : "'messages' is missing.");
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!read_message(in, i, json_array_get(messages, i)))
            return;
    char *text = json_dumps(messages, JSON_COMPACT);
    in->ask->messages_json = text ? bw_arena_strndup(&in->ask->arena, text, strlen(text)) : NULL;
    bw_free(text);
    if (!in->ask->messages_json)
        bw_ask_no_memory(in);
}

/* What the template is given by other members of the body. */
static bool check_template_values(bw_ask_reader *in, const json_t *given)
{
    static const char *const taken[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (!json_object_get(given, taken[i]))
            continue;
        COMPLAIN(in, "chat_template_kwargs", "'chat_template_kwargs' may not set '%s'%s", taken[i],
                 i < 3 ? ": it is a member of the body itself." : ": it is the model's.");
        return false;
    }
    return true;
}

void bw_ask_read_template_values(bw_ask_reader *in)
{
    json_t *given = bw_json_get(in->object, "chat_template_kwargs"), *tools = bw_json_get(in->object, "tools");
    json_t *choice = bw_json_get(in->object, "tool_choice");
    if (given && !json_is_object(given)) {
        COMPLAIN(in, "chat_template_kwargs", "'chat_template_kwargs' must be an object.");
        return;
    }
    if (!check_template_values(in, given))
        return;
    if (tools && !json_is_array(tools)) {
        COMPLAIN(in, "tools", "'tools' must be an array.");
        return;
    }
    const char *chosen = json_string_value(choice);
    if (choice && !(chosen && (strcmp(chosen, "auto") == 0 || strcmp(chosen, "none") == 0))) {
        COMPLAIN(in, "tool_choice", "'tool_choice' other than \"auto\" and \"none\" is not supported.");
        return;
    }
    if (json_array_size(tools) == 0 || (chosen && strcmp(chosen, "none") == 0))
        tools = NULL;
    json_t *effort = bw_json_get(in->object, "reasoning_effort");
    if (effort && !json_is_string(effort)) {
        COMPLAIN(in, "reasoning_effort", "'reasoning_effort' must be a string.");
        return;
    }
    if (!given && !tools && !effort)
        return;
    json_t *extra = given ? json_copy(given) : json_object();
    char *text = NULL;
    bool good = extra && (!tools || json_object_set_nocheck(extra, "tools", tools) == 0);
    if (good && effort && !json_object_get(extra, "reasoning_effort"))
        good = json_object_set_nocheck(extra, "reasoning_effort", effort) == 0;
    if (good)
        text = json_dumps(extra, JSON_COMPACT);
    if (text)
        in->ask->extra_json = bw_arena_strndup(&in->ask->arena, text, strlen(text));
    if (!in->ask->extra_json)
        bw_ask_no_memory(in);
    bw_free(text);
    json_decref(extra);
}
