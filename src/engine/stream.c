#include "bw_stream.h"

#include <string.h>

#include "bw_mem.h"

static bw_status init_stop(bw_stop *stop, const char *text, size_t index, bw_err *err)
{
    if (!text || !*text)
        return bw_fail(err, BW_E_ARG, "stop string %zu is empty", index);
    size_t n = strlen(text);
    if (n > BW_STOP_BYTES_MAX)
        return bw_fail(err, BW_E_RANGE, "stop string %zu has %zu bytes; at most %d are possible", index, n,
                       (int)BW_STOP_BYTES_MAX);
    if (bw_utf8_valid_prefix(text, n) != n)
        return bw_fail(err, BW_E_ARG, "stop string %zu is not valid UTF-8", index);
    stop->text = bw_strndup(text, n);
    stop->back = bw_alloc_array(n, sizeof *stop->back);
    stop->n_bytes = n;
    if (!stop->text || !stop->back)
        return bw_fail_memory(err, n * 5, "a stop string");
    stop->back[0] = 0;
    int32_t k = 0;
    for (size_t i = 1; i < n; i++) {
        while (k > 0 && text[i] != text[k])
            k = stop->back[k - 1];
        if (text[i] == text[k])
            k++;
        stop->back[i] = k;
    }
    return BW_OK;
}

bw_status bw_stream_init(bw_stream *s, const bw_tokenizer *tokenizer, const char *const *stop, size_t n_stop,
                         size_t n_top, bw_err *err)
{
    *s = (bw_stream){.tokenizer = tokenizer, .n_top = n_top};
    bw_detokenizer_init(&s->detokenizer, tokenizer, false);
    s->detokenizer.at_start = false; /* the text goes on after the prompt */
    if (n_stop == 0)
        return BW_OK;
    if (!stop)
        return bw_fail(err, BW_E_ARG, "stop is NULL but n_stop is %zu", n_stop);
    if (n_stop > BW_STOP_MAX)
        return bw_fail(err, BW_E_RANGE, "there are %zu stop strings; at most %d are possible", n_stop,
                       (int)BW_STOP_MAX);
    s->stops = bw_alloc_zero(n_stop, sizeof *s->stops);
    if (!s->stops)
        return bw_fail_memory(err, n_stop * sizeof *s->stops, "stop strings");
    s->n_stops = n_stop;
    for (size_t i = 0; i < n_stop; i++)
        BW_TRY(init_stop(&s->stops[i], stop[i], i, err));
    return BW_OK;
}

void bw_stream_deinit(bw_stream *s)
{
    for (size_t i = 0; i < s->n_stops; i++) {
        bw_free(s->stops[i].text);
        bw_free(s->stops[i].back);
    }
    bw_free(s->stops);
    bw_str_deinit(&s->text);
    bw_free(s->tokens);
    bw_free(s->top);
    bw_free(s->views);
    *s = (bw_stream){0};
}

/* Run text.data[from..] through the automata until a stop string is complete. */
static void scan(bw_stream *s, size_t from)
{
    for (size_t i = from; i < s->text.len && !s->matched; i++) {
        char c = s->text.data[i];
        for (size_t j = 0; j < s->n_stops; j++) {
            bw_stop *stop = &s->stops[j];
            size_t k = stop->state;
            while (k > 0 && stop->text[k] != c)
                k = (size_t)stop->back[k - 1];
            if (stop->text[k] == c)
                k++;
            stop->state = k;
            if (k == stop->n_bytes && (!s->matched || stop->n_bytes > s->matched->n_bytes))
                s->matched = stop;
        }
        if (s->matched)
            s->cut = s->shown + i + 1 - s->matched->n_bytes;
    }
}

/* Show the text up to byte `end` of the whole with the first n tokens. */
static bw_status show(bw_stream *s, size_t end, size_t n, bw_events *events, bw_err *err)
{
    size_t n_bytes = end - s->shown;
    if (n_bytes == 0 && n == 0)
        return BW_OK;
    if (!bw_reserve((void **)&s->views, &s->views_cap, n, sizeof *s->views))
        return bw_fail_memory(err, n * sizeof *s->views, "a text event");
    for (size_t i = 0; i < n; i++)
        s->views[i] = (bw_event_token){.token = s->tokens[i].token,
                                       .logprob = s->tokens[i].logprob,
                                       .top = s->n_top > 0 ? s->top + i * s->n_top : NULL};
    BW_TRY(bw_events_push(events, s->tokenizer, BW_EVENT_TEXT, s->text.data, n_bytes, s->views, n, s->n_top, err));
    if (n_bytes > 0) {
        memmove(s->text.data, s->text.data + n_bytes, s->text.len - n_bytes);
        s->text.len -= n_bytes;
        s->text.data[s->text.len] = 0;
        s->shown = end;
    }
    s->n_tokens -= n;
    if (n == 0 || s->n_tokens == 0)
        return BW_OK;
    memmove(s->tokens, s->tokens + n, s->n_tokens * sizeof *s->tokens);
    if (s->n_top > 0)
        memmove(s->top, s->top + n * s->n_top, s->n_tokens * s->n_top * sizeof *s->top);
    return BW_OK;
}

static bw_status append_token(bw_stream *s, const bw_sample *sample, bw_err *err)
{
    if (!bw_reserve((void **)&s->tokens, &s->tokens_cap, s->n_tokens + 1, sizeof *s->tokens) ||
        !bw_reserve((void **)&s->top, &s->top_cap, (s->n_tokens + 1) * s->n_top, sizeof *s->top))
        return bw_fail_memory(err, (s->n_tokens + 1) * (sizeof *s->tokens + s->n_top * sizeof *s->top),
                              "a session's tokens");
    if (s->n_top > 0)
        memcpy(s->top + s->n_tokens * s->n_top, sample->top, s->n_top * sizeof *s->top);
    s->tokens[s->n_tokens++] =
        (bw_stream_token){.begin = s->shown + s->text.len, .token = sample->token, .logprob = sample->logprob};
    return BW_OK;
}

/* Tokens whose bytes have all come out of the detokenizer end where the text ends now. When text came out, nothing of
 * the earlier tokens is pending any more: what is pending is the beginning of one character. */
static void complete_tokens(bw_stream *s, bool grew)
{
    size_t end = s->shown + s->text.len, n = s->n_tokens;
    if (s->detokenizer.n_pending > 0) {
        if (!grew)
            return;
        n--;
        s->tokens[n].begin = end;
    }
    for (size_t i = n; i-- > 0 && !s->tokens[i].complete;) {
        s->tokens[i].complete = true;
        s->tokens[i].end = end;
    }
}

bw_status bw_stream_add(bw_stream *s, const bw_sample *sample, bw_events *events, bw_err *err)
{
    size_t before = s->text.len;
    BW_TRY(append_token(s, sample, err));
    BW_TRY(bw_detokenizer_add(&s->detokenizer, sample->token, &s->text, err));
    if (s->text.failed)
        return bw_fail_memory(err, s->text.len, "a session's text");
    complete_tokens(s, s->text.len > before);
    scan(s, before);
    if (s->matched)
        return BW_OK;
    size_t held = 0;
    for (size_t i = 0; i < s->n_stops; i++)
        if (s->stops[i].state > held)
            held = s->stops[i].state;
    size_t safe = s->shown + s->text.len - held, n = 0;
    while (n < s->n_tokens && s->tokens[n].complete && s->tokens[n].end <= safe)
        n++;
    if (n == 0 || s->tokens[n - 1].end == s->shown)
        return BW_OK;
    return show(s, s->tokens[n - 1].end, n, events, err);
}

bw_status bw_stream_finish(bw_stream *s, bw_events *events, bw_err *err)
{
    if (s->matched) {
        size_t n = 0;
        while (n < s->n_tokens && s->tokens[n].begin < s->cut)
            n++;
        return show(s, s->cut, n, events, err);
    }
    size_t before = s->text.len;
    BW_TRY(bw_detokenizer_finish(&s->detokenizer, &s->text, err));
    if (s->text.failed)
        return bw_fail_memory(err, s->text.len, "a session's text");
    scan(s, before);
    if (s->matched)
        return bw_stream_finish(s, events, err);
    return show(s, s->shown + s->text.len, s->n_tokens, events, err);
}
