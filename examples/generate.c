/* The smallest useful program on top of libbeeswax: load a model, ask it something, print the text as it comes.
 *
 *   cc generate.c -lbeeswax -o generate
 *   ./generate model.gguf "Why is the sky blue?"
 */
#include <beeswax.h>

#include <stdio.h>
#include <string.h>

static int complain(const char *what, const bw_err *err)
{
    fprintf(stderr, "%s: %s (%s)\n", what, err->text, bw_status_name(err->status));
    return 1;
}

/* [{"role":"user","content":"<question>"}], with the question's special characters escaped. false: it is too long. */
static bool write_messages(const char *question, char *out, size_t n_out)
{
    int n = snprintf(out, n_out, "[{\"role\":\"user\",\"content\":\"");
    for (const unsigned char *c = (const unsigned char *)question; *c; c++) {
        if ((size_t)n + 16 > n_out)
            return false;
        if (*c == '"' || *c == '\\' || *c < 0x20)
            n += snprintf(out + n, n_out - (size_t)n, "\\u%04x", (unsigned)*c);
        else
            out[n++] = (char)*c;
    }
    snprintf(out + n, n_out - (size_t)n, "\"}]");
    return true;
}

/* Print events until the last one. */
static int print_text(bw_session *session)
{
    bw_err err = {0};
    bw_event event;
    for (;;) {
        if (bw_session_next(session, -1, &event, &err) != BW_OK)
            return complain("no event", &err);
        switch (event.type) {
        case BW_EVENT_TEXT:
            fwrite(event.text, 1, event.text_bytes, stdout);
            fflush(stdout);
            break;
        case BW_EVENT_END:
            fprintf(stderr, "\n%d prompt tokens in %.0f ms, %d generated in %.0f ms\n", (int)event.n_prompt_tokens,
                    event.prompt_ms, (int)event.n_generated_tokens, event.generate_ms);
            return 0;
        case BW_EVENT_ERROR:
            return complain("generation failed", &err);
        case BW_EVENT_PROMPT: /* comes only when echo_logprobs is set */
            break;
        }
    }
}

static int answer(bw_engine *engine, const char *question)
{
    bw_err err = {0};
    char messages[16384];
    if (!write_messages(question, messages, sizeof messages)) {
        fprintf(stderr, "the question is too long\n");
        return 1;
    }
    bw_chat_text chat;
    if (bw_engine_render_chat(engine, messages, NULL, true, &chat, &err) != BW_OK)
        return complain("the chat template failed", &err);

    bw_request request;
    bw_request_init(&request);
    request.prompt = chat.text;
    request.prompt_bytes = chat.text_bytes;
    request.parse_special = true;   /* the template's control tokens, but ... */
    request.literal = chat.literal; /* ... none that the question spells out */
    request.n_literal = chat.n_literal;
    request.max_tokens = 200;
    request.sampling.temperature = 0.7f;
    request.sampling.top_p = 0.9f;

    bw_session *session = NULL;
    bw_status status = bw_engine_submit(engine, &request, &session, &err);
    bw_chat_text_free(&chat); /* the session has its own copy */
    if (status != BW_OK)
        return complain("the request was refused", &err);
    int result = print_text(session);
    bw_session_free(session);
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL QUESTION\n", argv[0]);
        return 2;
    }
    bw_engine_options options;
    bw_engine_options_init(&options);
    options.model = argv[1];
    bw_engine *engine = NULL;
    bw_err err = {0};
    if (bw_engine_new(&options, &engine, &err) != BW_OK)
        return complain("the model cannot be loaded", &err);
    int result = answer(engine, argv[2]);
    bw_engine_free(engine);
    return result;
}
