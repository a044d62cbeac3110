/* Jinja templates, as chat templates use them. An interpreter: parse once, render many times. A parsed template is
 * immutable and may be rendered from several threads. Renders what jinja2 renders when set up as transformers sets it
 * up: ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True) with loopcontrols, `raise_exception`,
 * `strftime_now` and a tojson without HTML escapes. Hostile templates and inputs are bounded in steps, depth and bytes.
 */
#ifndef BW_JINJA_H
#define BW_JINJA_H

#include <jansson.h>

#include "bw_err.h"
#include "bw_str.h"

typedef struct bw_jinja bw_jinja;

bw_status bw_jinja_parse(const char *source, size_t n_bytes, bw_jinja **jinja, bw_err *err);
void bw_jinja_free(bw_jinja *jinja);
typedef struct bw_text_spans {
    bw_text_span *v; /* [n], in order, apart from each other; freed with bw_free */
    size_t n, capacity;
} bw_text_spans;

/* own, request: objects with the template's variables, or NULL; where both have one, request's counts. The text is
 * appended to out. spans: NULL, or gets the stretches of out that came with `request`: every byte made of one of its
 * strings, keys included, whichever filters it went through, but for a message's role that is a usual one; all else is
 * the template's or of `own`. Errors name line and cause; raise_exception gives BW_E_ARG with its message. unix_time:
 * what strftime_now formats (UTC). */
bw_status bw_jinja_render(const bw_jinja *jinja, const json_t *own, const json_t *request, int64_t unix_time,
                          bw_str *out, bw_text_spans *spans, bw_err *err);

/* The template of ChatML, used where a model has none. */
extern const char bw_jinja_chatml[];

#endif
