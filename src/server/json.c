/* JSON from strangers; see json.h. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Numbers beyond a double become 1e308, which no member can take but one that is ignored does not mind. The text is
 * NUL-terminated and keeps its length. */
static void tame_numbers(char *text)
{
    for (char *c = text; *c; c++) {
        if (*c == '"') {
            for (c++; *c && *c != '"'; c++)
                c += *c == '\\' && c[1];
            if (!*c)
                return;
        } else if ((*c >= '0' && *c <= '9') || *c == '-') {
            size_t n = strspn(c, "+-.0123456789eE");
            char *end = c;
            const bool is_huge = n >= 5 && isinf(strtod(c, &end));
            n = n < (size_t)(end - c) || end == c ? n : (size_t)(end - c);
            if (is_huge && n >= 5) {
                char *digits = c + (*c == '-');
                memset(digits, ' ', n - (size_t)(digits - c));
                memcpy(digits, "1e308", 5);
            }
            c += n - 1;
        }
    }
}

static json_t *load_tamed(const char *text, size_t n_bytes, size_t flags, json_error_t *error, bool *no_memory)
{
    char *copy = bw_strndup(text, n_bytes);
    *no_memory = copy == NULL;
    if (!copy)
        return NULL;
    tame_numbers(copy);
    json_t *value = bw_json_load(copy, n_bytes, flags, error, no_memory);
    bw_free(copy);
    return value;
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
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *value = bw_json_load(text ? text : "", n_bytes, flags, &error, &no_memory);
    if (!value && !no_memory && json_error_code(&error) == json_error_numeric_overflow)
        value = bw_json_load(text, n_bytes, flags | JSON_DECODE_INT_AS_REAL, &error, &no_memory);
    if (!value && !no_memory && json_error_code(&error) == json_error_numeric_overflow)
        value = load_tamed(text, n_bytes, flags | JSON_DECODE_INT_AS_REAL, &error, &no_memory);
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

bw_json_found bw_json_get_i64(const json_t *object, const char *key, int64_t *out)
{
    json_t *value = bw_json_get(object, key);
    if (!value)
        return BW_JSON_ABSENT;
    return bw_json_to_i64(value, out) ? BW_JSON_FOUND : BW_JSON_WRONG_TYPE;
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
    if (!(real >= 0) || real > 0x1p64 || real != floor(real))
        return BW_JSON_WRONG_TYPE;
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
