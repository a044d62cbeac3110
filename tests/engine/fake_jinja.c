/* "Renders" a template as its own text, a colon and the variables as JSON: shows what a template would be given. */
#include "bw_jinja.h"

#include <string.h>

#include "bw_mem.h"

const char bw_jinja_chatml[] = "chatml";

struct bw_jinja {
    char *text;
};

bw_status bw_jinja_parse(const char *source, size_t n_bytes, bw_jinja **out, bw_err *err)
{
    *out = NULL;
    if (n_bytes > 0 && source[0] == '!')
        return bw_fail(err, BW_E_FORMAT, "line 1: unexpected '!'");
    bw_jinja *j = bw_alloc_zero(1, sizeof *j);
    if (!j || !(j->text = bw_strndup(source, n_bytes))) {
        bw_free(j);
        return bw_fail_memory(err, n_bytes, "a template");
    }
    *out = j;
    return BW_OK;
}

void bw_jinja_free(bw_jinja *jinja)
{
    if (jinja)
        bw_free(jinja->text);
    bw_free(jinja);
}

bw_status bw_jinja_render(const bw_jinja *jinja, const json_t *own, const json_t *request, int64_t unix_time,
                          bw_str *out, bw_text_spans *spans, bw_err *err)
{
    (void)unix_time;
    json_t *all = json_object();
    json_object_update(all, (json_t *)(uintptr_t)own);
    json_object_update(all, (json_t *)(uintptr_t)request);
    char *json = json_dumps(all, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(all);
    bw_str_add_format(out, "%s:", jinja->text);
    size_t start = out->len;
    bw_str_add(out, json ? json : "");
    bw_free(json);
    if (spans) { /* as if all variables were the request's */
        if (!bw_reserve((void **)&spans->v, &spans->capacity, 1, sizeof *spans->v))
            return bw_fail_memory(err, sizeof *spans->v, "a span");
        spans->v[spans->n++] = (bw_text_span){start, out->len};
    }
    return out->failed ? bw_fail_memory(err, 64, "a text") : BW_OK;
}
