/* JSON from strangers; see json.h. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bw_json.h"
#include "bw_mem.h"

/* Nesting outside of strings. jansson recurses, so this keeps its stack small. */
static bool is_too_deep(const char *text, size_t n_bytes)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n_bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > BW_JSON_MAX_DEPTH)
                return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

json_t *bw_body_parse_json(const char *text, size_t n_bytes, char *why, size_t why_bytes)
{
    bool no_memory = false;
    if (n_bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark */
        text += 3;
        n_bytes -= 3;
    }
    if (is_too_deep(text, n_bytes)) {
        snprintf(why, why_bytes, "nested deeper than %d levels", BW_JSON_MAX_DEPTH);
        return NULL;
    }
    json_error_t error = {0};
    json_t *value =
        bw_json_load_any_number(text ? text : "", n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error, &no_memory);
    if (no_memory)
        why[0] = 0;
    else if (!value)
        snprintf(why, why_bytes, "%s at line %d column %d", error.text[0] ? error.text : "not readable", error.line,
                 error.column);
    return value;
}

json_t *bw_json_get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

bool bw_json_to_i64(const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!json_is_real(value))
        return false;
    double real = json_real_value(value);
    if (!(real >= -9.2e18 && real <= 9.2e18) || real != floor(real))
        return false;
    *out = (int64_t)real;
    return true;
}

bool bw_json_is_beyond_i64(const json_t *value)
{
    return json_is_real(value) && fabs(json_real_value(value)) > 9.2e18;
}

bw_json_found bw_json_get_i64(const json_t *object, const char *key, int64_t *out)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    if (bw_json_to_i64(value, out))
        return BW_JSON_FOUND;
    return bw_json_is_beyond_i64(value) ? BW_JSON_TOO_LARGE : BW_JSON_WRONG_TYPE;
}

bw_json_found bw_json_get_u64(const json_t *object, const char *key, uint64_t *out)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    int64_t integer;
    if (bw_json_to_i64(value, &integer)) {
        *out = (uint64_t)integer;
        return integer >= 0 ? BW_JSON_FOUND : BW_JSON_WRONG_TYPE;
    }
    double real = json_is_real(value) ? json_real_value(value) : -1;
    if (!(real >= 0) || real != floor(real))
        return BW_JSON_WRONG_TYPE;
    if (real > 0x1p64)
        return BW_JSON_TOO_LARGE;
    *out = real >= 0x1p64 ? UINT64_MAX : (uint64_t)real; /* above 2^63 the last bits were lost by the reader */
    return BW_JSON_FOUND;
}

bw_json_found bw_json_get_f64(const json_t *object, const char *key, double *out)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    if (!json_is_number(value))
        return BW_JSON_WRONG_TYPE;
    *out = json_number_value(value);
    return BW_JSON_FOUND;
}

bw_json_found bw_json_get_bool(const json_t *object, const char *key, bool *out)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    if (!json_is_boolean(value))
        return BW_JSON_WRONG_TYPE;
    *out = json_is_true(value);
    return BW_JSON_FOUND;
}

bw_json_found bw_json_get_text(const json_t *object, const char *key, const char **out, size_t *n_bytes)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    if (!json_is_string(value))
        return BW_JSON_WRONG_TYPE;
    *out = json_string_value(value);
    *n_bytes = json_string_length(value);
    return BW_JSON_FOUND;
}
