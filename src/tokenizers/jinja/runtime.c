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

void jinja_text_deinit(jinja_text *text)
{
    bw_str_deinit(&text->str);
    bw_str_deinit(&text->origin);
}

/* Bytes up to the n-th of text have an origin. */
static void fill_origin(jinja_text *text, size_t n)
{
    static const char of_template[256];
    while (text->origin.len < n && !text->origin.failed) {
        size_t missing = n - text->origin.len;
        bw_str_add_bytes(&text->origin, of_template, missing < sizeof of_template ? missing : sizeof of_template);
    }
}

/* Whether origins can be written for the text's bytes, which memory can have run out for. */
static void claim(jinja_text *text, size_t from)
{
    size_t n = text->str.len;
    fill_origin(text, n);
    if (text->str.failed || text->origin.failed)
        text->str.failed = true;
    else if (n > from)
        memset(text->origin.data + from, 1, n - from);
}

void jinja_text_add(jinja_text *text, const jinja_string *s, size_t begin, size_t n_bytes)
{
    size_t from = text->str.len;
    bw_str_add_bytes(&text->str, s->data + begin, n_bytes);
    if (!s->request || n_bytes == 0)
        return;
    claim(text, from);
    if (s->origin && !text->str.failed)
        memcpy(text->origin.data + from, s->origin + begin, n_bytes);
}

void jinja_text_claim(jinja_text *text, size_t from, const jinja_string *s)
{
    if (s->request)
        claim(text, from);
}

bool jinja_emit(jinja_runtime *rt, const jinja_string *s)
{
    if (s->n_bytes > JINJA_MAX_OUTPUT || rt->out->str.len > JINJA_MAX_OUTPUT - s->n_bytes)
        return jinja_fail(rt, BW_E_RANGE, "the template writes more than %zu bytes", JINJA_MAX_OUTPUT);
    if (!jinja_charge(rt, s->n_bytes / 64))
        return false;
    jinja_text_add(rt->out, s, 0, s->n_bytes);
    return rt->out->str.failed ? jinja_fail_memory(rt, s->n_bytes) : true;
}

/* The origins of a finished text: kept byte by byte only where they differ. */
static bool finish_origin(jinja_runtime *rt, jinja_text *text, jinja_string *s)
{
    size_t n = text->str.len;
    s->request = text->origin.len && memchr(text->origin.data, 1, text->origin.len);
    if (!s->request || (text->origin.len == n && !memchr(text->origin.data, 0, n)))
        return true;
    char *origin = jinja_alloc(rt, n, 1);
    if (!origin)
        return false;
    memcpy(origin, text->origin.data, text->origin.len);
    s->origin = origin;
    return true;
}

bool jinja_finish_string(jinja_runtime *rt, jinja_text *text, jinja_value *out)
{
    size_t n = text->str.len;
    jinja_string whole = {.data = text->str.data ? text->str.data : "", .n_bytes = n};
    char *copy = NULL;
    bool ok = !text->str.failed || jinja_fail_memory(rt, n);
    ok = ok && finish_origin(rt, text, &whole) && (copy = jinja_alloc(rt, n + 1, 1)) != NULL;
    if (ok) {
        memcpy(copy, whole.data, n);
        whole.data = copy;
        ok = jinja_part(rt, &whole, 0, n, out);
    }
    jinja_text_deinit(text);
    return ok;
}

static bool add_span(jinja_runtime *rt, bw_text_spans *spans, size_t start, size_t end)
{
    if (!bw_reserve((void **)&spans->v, &spans->capacity, spans->n + 1, sizeof *spans->v))
        return jinja_fail_memory(rt, (spans->n + 1) * sizeof *spans->v);
    spans->v[spans->n++] = (bw_text_span){start, end};
    return true;
}

/* The stretches of text that came with the request; base: bytes that stand before it. */
static bool add_spans(jinja_runtime *rt, const jinja_text *text, size_t base, bw_text_spans *spans)
{
    const char *origin = text->origin.data;
    size_t n = text->origin.len, i = 0;
    while (i < n) {
        const char *at = memchr(origin + i, 1, n - i);
        if (!at)
            break;
        size_t start = (size_t)(at - origin);
        at = memchr(origin + start, 0, n - start);
        i = at ? (size_t)(at - origin) : n;
        if (!add_span(rt, spans, base + start, base + i))
            return false;
    }
    return true;
}

static bool read_variables(jinja_runtime *rt, const json_t *own, const json_t *request)
{
    const json_t *from[2] = {own, request};
    rt->context = jinja_new_dict(rt);
    for (int k = 0; rt->context && k < 2; k++) {
        jinja_value v;
        if (!from[k])
            continue;
        if (!jinja_from_json(rt, from[k], k == 1, 0, &v))
            return false;
        for (size_t i = 0; i < v.dict->n; i++)
            if (!jinja_dict_set(rt, rt->context, v.dict->entries[i].key, v.dict->entries[i].value))
                return false;
    }
    return rt->context != NULL;
}

bw_status bw_jinja_render(const bw_jinja *jinja, const json_t *own, const json_t *request, int64_t unix_time,
                          bw_str *out, bw_text_spans *spans, bw_err *err)
{
    if ((own && !json_is_object(own)) || (request && !json_is_object(request)))
        return bw_fail(err, BW_E_ARG, "a template's variables must be a JSON object");
    jinja_text text = {0};
    jinja_runtime rt = {.out = &text, .unix_time = unix_time, .err = err};
    bw_arena_init(&rt.arena, 0);
    bool ok = read_variables(&rt, own, request) && (rt.root = jinja_new_scope(&rt, NULL)) != NULL;
    if (ok && jinja_exec(&rt, jinja->body, rt.root) == JINJA_GO) {
        size_t base = out->len;
        bw_str_add_bytes(out, text.str.data ? text.str.data : "", text.str.len);
        if (out->failed)
            jinja_fail_memory(&rt, text.str.len);
        else if (spans)
            add_spans(&rt, &text, base, spans);
    } else if (rt.status == BW_OK) {
        jinja_fail(&rt, BW_E_INTERNAL, "failed without a reason");
    }
    jinja_text_deinit(&text);
    bw_arena_deinit(&rt.arena);
    return rt.status;
}
