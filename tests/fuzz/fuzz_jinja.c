/* Any bytes as a template, rendered with a small conversation: no crash, no leak, an error with a sentence. */
#include <stdlib.h>

#include "bw_jinja.h"
#include "bw_mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *context;
    if (!context)
        context =
            json_loads("{\"messages\": [{\"role\": \"system\", \"content\": \"s \\u00e9\"}, {\"role\": \"user\","
                       "\"content\": [{\"type\": \"text\", \"text\": \"t\"}]}], \"l\": [1, 2.5, null, true, \"a\"],"
                       "\"d\": {\"a\": {\"b\": [1]}}, \"s\": \"Hello W\\u00f6rld\", \"n\": 7}",
                       0, NULL);
    int64_t live = bw_mem_live();
    bw_jinja *jinja = NULL;
    bw_err err = {0};
    bw_str out = {0};
    bw_status status = bw_jinja_parse((const char *)data, size, &jinja, &err);
    if (status == BW_OK)
        status = bw_jinja_render(jinja, NULL, context, 1735689600, &out, NULL, &err);
    bw_jinja_free(jinja);
    bw_str_deinit(&out);
    if (bw_mem_live() != live || (status != BW_OK && !err.text[0]) || status == BW_E_INTERNAL)
        abort();
    return 0;
}
