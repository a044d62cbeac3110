/* Growing strings and UTF-8. A builder that once ran out of memory stays failed, so only the end needs a check. */
#ifndef BW_STR_H
#define BW_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beeswax.h"

typedef struct bw_str {
    char *data; /* NUL-terminated once anything was added */
    size_t len, cap;
    bool failed; /* an allocation failed: the content is incomplete */
} bw_str;

/* {0} is a valid empty builder. */
void bw_str_deinit(bw_str *str);
void bw_str_clear(bw_str *str);
void bw_str_add(bw_str *str, const char *text);
void bw_str_add_bytes(bw_str *str, const void *bytes, size_t n_bytes);
void bw_str_add_char(bw_str *str, char c);
void bw_str_add_format(bw_str *str, const char *format, ...) BW_PRINTF(2, 3);
/* One code point as UTF-8; surrogates and values above U+10FFFF become U+FFFD. */
void bw_str_add_codepoint(bw_str *str, uint32_t codepoint);
/* The text as a JSON string literal with its quotes; invalid UTF-8 becomes U+FFFD. */
void bw_str_add_json(bw_str *str, const char *text, size_t n_bytes);
/* The content, NUL-terminated, owned by the caller (bw_free); NULL when failed. Leaves the builder empty. */
char *bw_str_take(bw_str *str, size_t *len);

/* Decode one code point at text[0..n_bytes), n_bytes > 0: returns its length 1..4, or 0 when invalid or cut short
 * (RFC 3629: no overlong forms, no surrogates). */
int bw_utf8_decode(const char *text, size_t n_bytes, uint32_t *codepoint);
/* Encode; returns 1..4 bytes written to out[4], 0 for surrogates or values above U+10FFFF. */
int bw_utf8_encode(uint32_t codepoint, char *out);
/* Length of the longest prefix that is valid UTF-8. */
size_t bw_utf8_valid_prefix(const char *text, size_t n_bytes);
/* At text[0..n_bytes) starts an incomplete but so far valid sequence that more bytes could complete. */
bool bw_utf8_is_incomplete(const char *text, size_t n_bytes);

/* Whole-string parse of a decimal integer; false for junk, signs where not allowed, or overflow. */
bool bw_parse_u64(const char *text, uint64_t *out);
bool bw_parse_i64(const char *text, int64_t *out);
/* The same for a finite decimal number, such as "-0.5" or "1e-3". */
bool bw_parse_f64(const char *text, double *out);
bool bw_str_starts(const char *text, const char *prefix);
bool bw_str_ends(const char *text, const char *suffix);

/* A name from a file made fit for a message: control characters and bytes that are no UTF-8 become '?', long ones are
 * cut. Returns out. */
enum { BW_NAME_SHOWN = 96 };
const char *bw_name_show(char out[BW_NAME_SHOWN], const char *name, size_t n_bytes);

#endif
