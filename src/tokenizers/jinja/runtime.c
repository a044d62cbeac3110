/* One rendering: its memory, its bounds, its errors, and bw_jinja_render. */
#include <stdarg.h>
#include <stdio.h>

#include "jinja.h"

const char bw_jinja_chatml[] = "{% for message in messages %}"
                               "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
                               "{% endfor %}"
                               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

bool jinja_fail(jinja_runtime *rt, bw_status status, const char *format, ...)
{
    if (rt->status == BW_OK) {
        char text[400];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        rt->status = bw_fail(rt->err, status, "template line %d: %s", rt->line, text);
    }
    return false;
}

bool jinja_fail_memory(jinja_runtime *rt, size_t n_bytes)
{
    if (rt->status == BW_OK)
        rt->status = bw_fail_memory(rt->err, n_bytes, "rendering a template");
    return false;
}

bool jinja_charge(jinja_runtime *rt, size_t n_units)
{
    if (n_units > JINJA_MAX_STEPS || rt->steps > JINJA_MAX_STEPS - (int64_t)n_units)
        return jinja_fail(rt, BW_E_RANGE, "the template takes more than %d steps", JINJA_MAX_STEPS);
    rt->steps += (int64_t)n_units;
    return true;
}

bool jinja_enter(jinja_runtime *rt)
{
    if (rt->depth >= JINJA_MAX_DEPTH)
        return jinja_fail(rt, BW_E_RANGE, "more than %d evaluations or values inside each other", JINJA_MAX_DEPTH);
    rt->depth++;
    return true;
}

void jinja_leave(jinja_runtime *rt)
{
    rt->depth--;
}

void *jinja_alloc(jinja_runtime *rt, size_t n, size_t size)
{
    size_t bytes;
    if (rt->status != BW_OK)
        return NULL;
    if (!bw_mul_size(n, size, &bytes) || bytes > JINJA_MAX_MEMORY - rt->arena.total_bytes) {
        jinja_fail(rt, BW_E_RANGE, "the template's values take more than %zu bytes", JINJA_MAX_MEMORY);
        return NULL;
    }
    if (!jinja_charge(rt, bytes / 64))
        return NULL;
    void *memory = bw_arena_alloc_zero(&rt->arena, 1, bytes);
    if (!memory)
        jinja_fail_memory(rt, bytes);
    return memory;
}

bool jinja_emit(jinja_runtime *rt, const char *data, size_t n_bytes)
{
    if (n_bytes > JINJA_MAX_OUTPUT || rt->out->len > JINJA_MAX_OUTPUT - n_bytes)
        return jinja_fail(rt, BW_E_RANGE, "the template writes more than %zu bytes", JINJA_MAX_OUTPUT);
    if (!jinja_charge(rt, n_bytes / 64))
        return false;
    bw_str_add_bytes(rt->out, data, n_bytes);
    return rt->out->failed ? jinja_fail_memory(rt, n_bytes) : true;
}

bool jinja_finish_string(jinja_runtime *rt, bw_str *str, jinja_value *out)
{
    bool ok = !str->failed || jinja_fail_memory(rt, str->len);
    ok = ok && jinja_new_string(rt, str->data ? str->data : "", str->len, out);
    bw_str_deinit(str);
    return ok;
}

bw_status bw_jinja_render(const bw_jinja *jinja, const json_t *context, int64_t unix_time, bw_str *out, bw_err *err)
{
    if (context && !json_is_object(context))
        return bw_fail(err, BW_E_ARG, "a template's variables must be a JSON object");
    bw_str text = {0};
    jinja_runtime rt = {.out = &text, .unix_time = unix_time, .err = err};
    bw_arena_init(&rt.arena, 0);
    jinja_value variables = {0};
    bool ok = true;
    if (context)
        ok = jinja_from_json(&rt, context, 0, &variables);
    else
        ok = (variables.dict = jinja_new_dict(&rt)) != NULL;
    rt.context = variables.dict;
    ok = ok && (rt.root = jinja_new_scope(&rt, NULL)) != NULL;
    if (ok && jinja_exec(&rt, jinja->body, rt.root) == JINJA_GO) {
        bw_str_add_bytes(out, text.data ? text.data : "", text.len);
        if (out->failed)
            jinja_fail_memory(&rt, text.len);
    } else if (rt.status == BW_OK) {
        jinja_fail(&rt, BW_E_INTERNAL, "failed without a reason");
    }
    bw_str_deinit(&text);
    bw_arena_deinit(&rt.arena);
    return rt.status;
}
