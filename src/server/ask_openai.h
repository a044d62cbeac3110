/* What the files that read OpenAI's bodies share. */
#ifndef BW_ASK_OPENAI_H
#define BW_ASK_OPENAI_H

#include "ask_fields.h"

typedef struct bw_ask_reader {
    const json_t *object;
    bw_ask *ask;
    bw_reply *reply; /* filled by the first complaint */
    bool bad;
} bw_ask_reader;

#define COMPLAIN(in, param, ...)                                                                                       \
    do {                                                                                                               \
        if (!(in)->bad)                                                                                                \
            bw_reply_set_openai((in)->reply, 400, "invalid_request_error", param, NULL, __VA_ARGS__);                  \
        (in)->bad = true;                                                                                              \
    } while (0)

void bw_ask_no_memory(bw_ask_reader *in);
/* messages, changed to what every template understands, into ask->messages_json. */
void bw_ask_read_messages(bw_ask_reader *in);
/* chat_template_kwargs, tools, reasoning_effort into ask->extra_json. */
void bw_ask_read_template_values(bw_ask_reader *in);

#endif
