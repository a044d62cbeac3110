#include "bw_str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"

void bw_str_deinit(bw_str *str)
{
    bw_free(str->data);
    *str = (bw_str){0};
}

void bw_str_clear(bw_str *str)
{
    str->len = 0;
    str->failed = false;
    if (str->data)
        str->data[0] = 0;
}

static bool grow(bw_str *str, size_t more)
{
    size_t need;
    if (str->failed || !bw_add_size(str->len, more, &need) || !bw_add_size(need, 1, &need) ||
        !bw_reserve((void **)&str->data, &str->cap, need, 1)) {
        str->failed = true;
        return false;
    }
    return true;
}

void bw_str_add_bytes(bw_str *str, const void *bytes, size_t n_bytes)
{
    if (!grow(str, n_bytes))
        return;
    if (n_bytes)
        memcpy(str->data + str->len, bytes, n_bytes);
    str->len += n_bytes;
    str->data[str->len] = 0;
}

void bw_str_add(bw_str *str, const char *text)
{
    bw_str_add_bytes(str, text, strlen(text));
}

void bw_str_add_char(bw_str *str, char c)
{
    bw_str_add_bytes(str, &c, 1);
}

void bw_str_add_format(bw_str *str, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && grow(str, (size_t)n)) {
        vsnprintf(str->data + str->len, (size_t)n + 1, format, again);
        str->len += (size_t)n;
    } else {
        str->failed = true;
    }
    va_end(again);
}

void bw_str_add_codepoint(bw_str *str, uint32_t codepoint)
{
    char out[4];
    int n = bw_utf8_encode(codepoint, out);
    if (n == 0)
        n = bw_utf8_encode(0xFFFD, out);
    bw_str_add_bytes(str, out, (size_t)n);
}

void bw_str_add_json(bw_str *str, const char *text, size_t n_bytes)
{
    bw_str_add_char(str, '"');
    size_t i = 0;
    while (i < n_bytes) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            char esc[2] = {'\\', (char)c};
            bw_str_add_bytes(str, esc, 2);
            i++;
        } else if (c == '\n' || c == '\r' || c == '\t') {
            bw_str_add(str, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
            i++;
        } else if (c < 0x20) {
            bw_str_add_format(str, "\\u%04x", c);
            i++;
        } else if (c < 0x80) {
            size_t j = i + 1;
            while (j < n_bytes && (unsigned char)text[j] >= 0x20 && (unsigned char)text[j] < 0x80 && text[j] != '"' &&
                   text[j] != '\\')
                j++;
            bw_str_add_bytes(str, text + i, j - i);
            i = j;
        } else {
            uint32_t cp;
            int n = bw_utf8_decode(text + i, n_bytes - i, &cp);
            if (n)
                bw_str_add_bytes(str, text + i, (size_t)n);
            else
                bw_str_add(str, "\xEF\xBF\xBD");
            i += n ? (size_t)n : 1;
        }
    }
    bw_str_add_char(str, '"');
}

char *bw_str_take(bw_str *str, size_t *len)
{
    bw_str_add_bytes(str, "", 0);
    if (str->failed) {
        bw_str_deinit(str);
        return NULL;
    }
    char *data = str->data;
    if (len)
        *len = str->len;
    *str = (bw_str){0};
    return data;
}

/* How many bytes the sequence that starts with `lead` has, and the smallest allowed value of its second byte; 0 when
 * no sequence starts so (RFC 3629, section 4). */
static int sequence_bytes(unsigned char lead, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *lo = 0xA0;
        if (lead == 0xED)
            *hi = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *lo = 0x90;
        if (lead == 0xF4)
            *hi = 0x8F;
        return 4;
    }
    return 0;
}

int bw_utf8_decode(const char *text, size_t n_bytes, uint32_t *codepoint)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char lo, hi;
    int n = sequence_bytes(s[0], &lo, &hi);
    if (n == 0 || (size_t)n > n_bytes)
        return 0;
    if (n == 1) {
        *codepoint = s[0];
        return 1;
    }
    uint32_t cp = s[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) {
        if (s[i] < lo || s[i] > hi)
            return 0;
        lo = 0x80;
        hi = 0xBF;
        cp = cp << 6 | (s[i] & 0x3Fu);
    }
    *codepoint = cp;
    return n;
}

int bw_utf8_encode(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xD800 && cp <= 0xDFFF)
            return 0;
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    if (cp > 0x10FFFF)
        return 0;
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

size_t bw_utf8_valid_prefix(const char *text, size_t n_bytes)
{
    size_t i = 0;
    while (i < n_bytes) {
        uint32_t cp;
        int n = bw_utf8_decode(text + i, n_bytes - i, &cp);
        if (n == 0)
            break;
        i += (size_t)n;
    }
    return i;
}

bool bw_utf8_is_incomplete(const char *text, size_t n_bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char lo, hi;
    if (n_bytes == 0)
        return false;
    int n = sequence_bytes(s[0], &lo, &hi);
    if (n < 2 || (size_t)n <= n_bytes)
        return false;
    for (size_t i = 1; i < n_bytes; i++) {
        if (s[i] < lo || s[i] > hi)
            return false;
        lo = 0x80;
        hi = 0xBF;
    }
    return true;
}

bool bw_parse_u64(const char *text, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end)
        return false;
    *out = v;
    return true;
}

bool bw_parse_i64(const char *text, int64_t *out)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] < '0' || digits[0] > '9')
        return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = v;
    return true;
}

bool bw_parse_f64(const char *text, double *out)
{
    if (text[0] == 0 || text[strspn(text, "0123456789+-.eE")] != 0) /* no spaces, hexadecimal, inf or nan */
        return false;
    char *end;
    double v = strtod(text, &end);
    if (*end || !isfinite(v))
        return false;
    *out = v;
    return true;
}

bool bw_str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool bw_str_ends(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

const char *bw_name_show(char out[BW_NAME_SHOWN], const char *name, size_t n_bytes)
{
    size_t used = 0, i = 0;
    while (i < n_bytes) {
        uint32_t codepoint = 0;
        int n = bw_utf8_decode(name + i, n_bytes - i, &codepoint);
        bool plain = n > 0 && codepoint >= 0x20 && !(codepoint >= 0x7f && codepoint < 0xa0);
        size_t step = n > 0 ? (size_t)n : 1, width = plain ? step : 1;
        if (used + width + 4 > BW_NAME_SHOWN) {
            memcpy(out + used, "...", 4);
            return out;
        }
        if (plain)
            memcpy(out + used, name + i, step);
        else
            out[used] = '?';
        used += width;
        i += step;
    }
    out[used] = 0;
    return out;
}
