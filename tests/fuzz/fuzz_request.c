/* libFuzzer: request bodies. The first byte picks the form; the rest is the body. Checks that a refusal is a whole
 * answer, that what is accepted keeps its promises, and that nothing stays allocated. */
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "bw_mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_accepted(const bw_ask *ask)
{
    require(ask->n >= 1 && ask->n_prompts >= 1 && ask->n_prompts * (size_t)ask->n <= BW_ASK_MAX_CHOICES);
    require(ask->n_stop <= BW_ASK_MAX_STOP && ask->n_logprobs >= -1 && ask->n_logprobs <= BW_ASK_MAX_LOGPROBS);
    require(ask->sampling.temperature >= 0 && ask->sampling.temperature <= 2);
    require(ask->sampling.top_p >= 0 && ask->sampling.top_p <= 1 && ask->sampling.repetition_penalty > 0);
    for (size_t i = 0; i < ask->n_stop; i++)
        require(ask->stop[i][0] != 0);
    for (size_t i = 0; ask->api != BW_ASK_CHAT && i < ask->n_prompts; i++) {
        const bw_ask_prompt *prompt = &ask->prompts[i];
        require(prompt->tokens ? prompt->n_tokens > 0 : prompt->text != NULL);
        require(prompt->tokens || bw_utf8_valid_prefix(prompt->text, prompt->n_bytes) == prompt->n_bytes);
    }
    require(ask->api != BW_ASK_CHAT || ask->messages_json[0] == '[');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    int64_t live = bw_mem_live();
    bw_ask ask;
    bw_reply reply = {0};
    const char *body = (const char *)data + 1;
    int form = data[0] % 3;
    bool accepted = form == 0 ? bw_ask_read_rbee(body, n_bytes - 1, &ask, &reply)
                              : bw_ask_read_openai(body, n_bytes - 1, form == 1, &ask, &reply);
    if (accepted) {
        check_accepted(&ask);
        bw_ask_deinit(&ask);
    } else {
        require(reply.status >= 400 && reply.status <= 503 && reply.body.len > 0 && reply.content_type);
        require(bw_utf8_valid_prefix(reply.body.data, reply.body.len) == reply.body.len);
        bw_reply_deinit(&reply);
    }
    require(bw_mem_live() == live);
    return 0;
}
