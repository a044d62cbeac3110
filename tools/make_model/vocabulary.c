/* A vocabulary of any size that texts can be encoded with: bytes, pairs of letters, and words to fill it up. */
#include <stdio.h>
#include <string.h>

#include "make_model.h"

/* GPT-2's letter for a byte: printable ones stand for themselves, the others for code points from 256 on. */
static uint32_t letter_of(int byte)
{
    static const int gaps[][2] = {{0, 32}, {127, 160}, {173, 173}};
    uint32_t next = 256;
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        if (byte >= gaps[i][0] && byte <= gaps[i][1])
            return next + (uint32_t)(byte - gaps[i][0]);
        next += (uint32_t)(gaps[i][1] - gaps[i][0] + 1);
    }
    return (uint32_t)byte;
}

int mm_token(int32_t id, char text[MM_TOKEN_BYTES])
{
    if (id < 256) {
        int n = bw_utf8_encode(letter_of(id), text);
        text[n] = 0;
        return n;
    }
    if (id == MM_END_TOKEN)
        return snprintf(text, MM_TOKEN_BYTES, "<|endoftext|>");
    int32_t i = id - MM_FIRST_PAIR;
    if (i < MM_N_PAIRS)
        return snprintf(text, MM_TOKEN_BYTES, "%c%c", 'a' + i / 26, 'a' + i % 26);
    /* a space (GPT-2's letter for it), then five letters: 11.9 million words */
    i -= MM_N_PAIRS;
    int n = bw_utf8_encode(letter_of(' '), text);
    for (int k = 4; k >= 0; k--, i /= 26)
        text[n + k] = (char)('a' + i % 26);
    text[n + 5] = 0;
    return n + 5;
}

int32_t mm_n_merges(int32_t n_vocab)
{
    int32_t room = n_vocab - MM_FIRST_PAIR;
    return room < 0 ? 0 : room < MM_N_PAIRS ? room : MM_N_PAIRS;
}

int mm_merge(int32_t i, char text[MM_TOKEN_BYTES])
{
    return snprintf(text, MM_TOKEN_BYTES, "%c %c", 'a' + i / 26, 'a' + i % 26);
}

void mm_tokenizer_json(const mm_shape *shape, bw_str *out)
{
    char text[MM_TOKEN_BYTES];
    bw_str_add_format(
        out,
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":%d,\"content\":\"<|endoftext|>\",\"special\":true,"
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
        "\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{",
        MM_END_TOKEN);
    for (int32_t id = 0; id < shape->n_vocab; id++) {
        int n = mm_token(id, text);
        if (id > 0)
            bw_str_add_char(out, ',');
        bw_str_add_json(out, text, (size_t)n);
        bw_str_add_format(out, ":%d", (int)id);
    }
    bw_str_add(out, "},\"merges\":[");
    for (int32_t i = 0; i < mm_n_merges(shape->n_vocab); i++) {
        mm_merge(i, text);
        bw_str_add_format(out, "%s\"%s\"", i ? "," : "", text);
    }
    bw_str_add(out, "]}}\n");
}
