/* Reads lines {"template": ..., "context": {...}, "time": seconds} and writes for each {"text": ...} or {"error": ...}.
 * For comparisons with jinja2 over many templates; a line without "template" uses the one before. */
#include <stdio.h>
#include <stdlib.h>

#include "bw_jinja.h"
#include "bw_mem.h"

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    bw_jinja *jinja = NULL;
    bw_err err = {0};
    while (getline(&line, &size, stdin) > 0) {
        json_t *job = json_loads(line, 0, NULL), *answer = json_object();
        const json_t *source = json_object_get(job, "template");
        bw_str out = {0};
        bw_status status = BW_OK;
        if (source) {
            bw_jinja_free(jinja);
            jinja = NULL;
            status = bw_jinja_parse(json_string_value(source), json_string_length(source), &jinja, &err);
        }
        if (jinja)
            status = bw_jinja_render(jinja, NULL, json_object_get(job, "context"),
                                     json_integer_value(json_object_get(job, "time")), &out, NULL, &err);
        if (jinja && status == BW_OK)
            json_object_set_new(answer, "text", json_stringn(out.data ? out.data : "", out.len));
        else
            json_object_set_new(answer, "error", json_string(err.text));
        char *text = json_dumps(answer, JSON_COMPACT);
        puts(text ? text : "{}");
        free(text);
        bw_str_deinit(&out);
        json_decref(answer);
        json_decref(job);
    }
    bw_jinja_free(jinja);
    free(line);
    return 0;
}
