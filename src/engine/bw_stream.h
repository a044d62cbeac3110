/* From generated tokens to text events: streaming detokenisation and stop strings.
 *
 * Owns the text that is not shown yet; refuses to know how tokens came about. Text that may be the beginning of a stop
 * string is held back, always by whole tokens, so that an event's tokens are exactly those behind its text. The stop
 * string whose last byte comes first wins, the longest of several that end together: this does not depend on how the
 * text was cut into tokens. Matching is by the automaton of Knuth, Morris and Pratt: O(1) per byte and stop string.
 */
#ifndef BW_STREAM_H
#define BW_STREAM_H

#include "bw_events.h"
#include "bw_sampler.h"
#include "bw_str.h"
#include "bw_tokenizer.h"

enum { BW_STOP_MAX = 64, BW_STOP_BYTES_MAX = 4096 };

typedef struct bw_stop {
    char *text;    /* NUL-terminated */
    int32_t *back; /* [n_bytes] the automaton's failure links */
    size_t n_bytes, state;
} bw_stop;

typedef struct bw_stream_token {
    size_t begin, end; /* in bytes of the whole text; end is known when complete */
    int32_t token;
    float logprob;
    bool complete;
} bw_stream_token;

typedef struct bw_stream {
    const bw_tokenizer *tokenizer;
    bw_detokenizer detokenizer;
    bw_stop *stops;
    size_t n_stops;
    bw_str text;             /* not shown yet */
    size_t shown;            /* bytes shown so far: text.data[0] is byte `shown` of the whole */
    bw_stream_token *tokens; /* not shown yet */
    size_t n_tokens, tokens_cap;
    bw_top_logprob *top; /* [n_tokens, n_top] */
    size_t top_cap, n_top;
    bw_event_token *views; /* working memory of one event */
    size_t views_cap;
    const bw_stop *matched;
    size_t cut; /* where the matched stop string begins */
} bw_stream;

/* Copies the stop strings. n_top: alternatives per token, 0 = none. Deinit after a failure too. */
bw_status bw_stream_init(bw_stream *stream, const bw_tokenizer *tokenizer, const char *const *stop, size_t n_stop,
                         size_t n_top, bw_err *err);
void bw_stream_deinit(bw_stream *stream);
/* Take a token and push what it completes. Afterwards stream->matched is the stop string that ended the text, or
 * NULL. */
bw_status bw_stream_add(bw_stream *stream, const bw_sample *sample, bw_events *events, bw_err *err);
/* The end: push all that is left, without the stop string if one matched. */
bw_status bw_stream_finish(bw_stream *stream, bw_events *events, bw_err *err);

#endif
