/* Loading a model for a command, and one request from submit to its last event. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_model_path.h"

static const char *const kv_names[] = {"f16", "bf16", "q8_0", NULL};
_Static_assert(BW_KV_F16 == 0 && BW_KV_BF16 == 1 && BW_KV_Q8_0 == 2, "kv_names is in this order");

static const cli_option engine_options[] = {
    {"ctx", 'c', CLI_I32, offsetof(cli_engine_settings, n_ctx), "N",
     "most tokens of one sequence (default: the model's own, at most 4096)", 1, 16777216, NULL},
    {"threads", 't', CLI_I32, offsetof(cli_engine_settings, n_threads), "N",
     "threads that compute (default: one per processor, no more than a cgroup's quota is worth)", 1, 256, NULL},
    {"kv", 0, CLI_CHOICE, offsetof(cli_engine_settings, kv), "TYPE",
     "type of the KV cache: f16, bf16 or q8_0 (default f16)", 0, 0, kv_names},
    {"batch", 'b', CLI_I32, offsetof(cli_engine_settings, n_batch), "N",
     "most tokens of one step; longer prompts are cut (default 512)", 1, 65536, NULL},
    {"gpu-layers", 0, CLI_AUTO, offsetof(cli_engine_settings, n_gpu_layers), "N",
     "layers on the GPU, the CPU computes the others (default: auto, as many as fit)", 1, 1048576, NULL},
    {"require-gpu", 0, CLI_FLAG, offsetof(cli_engine_settings, require_gpu), NULL,
     "refuse rather than let the CPU compute anything", 0, 0, NULL},
    {"device", 'd', CLI_TEXT, offsetof(cli_engine_settings, device), "NAME",
     "where to compute: cpu:0, rocm:N, cuda:N; rocm or cuda alone is the best card of that kind (default: the "
     "best GPU, else the CPU)",
     0, 0, NULL},
};
const cli_group cli_engine_group = {"Model", engine_options, sizeof engine_options / sizeof *engine_options};

void cli_sampling_init(cli_sampling_settings *settings)
{
    *settings = (cli_sampling_settings){.temperature = 0.7f, .top_p = 0.95f, .top_k = 40, .repeat_penalty = 1};
}

void cli_sampling_apply(const cli_sampling_settings *settings, bw_request *request)
{
    request->sampling.temperature = settings->temperature;
    request->sampling.top_p = settings->top_p;
    request->sampling.min_p = settings->min_p;
    request->sampling.top_k = settings->top_k;
    request->sampling.repetition_penalty = settings->repeat_penalty;
    request->sampling.seed = settings->seed.value;
    request->sampling.has_seed = settings->seed.given;
    request->stop = settings->stop.items;
    request->n_stop = settings->stop.n;
}

void cli_engine_fill(const cli_engine_settings *settings, bw_engine_options *options)
{
    bw_engine_options_init(options);
    options->device = settings->device;
    options->n_threads = settings->n_threads;
    options->n_ctx = settings->n_ctx;
    options->n_batch = settings->n_batch;
    options->kv_dtype = settings->kv;
    options->n_gpu_layers = settings->n_gpu_layers;
    options->require_gpu = settings->require_gpu;
}

bw_status cli_engine_open(const cli_engine_settings *settings, const char *model, bool warm_up, bw_engine **engine,
                          bw_err *err)
{
    char *path = NULL;
    *engine = NULL;
    BW_TRY(bw_model_path_find(model, &path, err));
    cli_bar bar = {0};
    bw_engine_options options;
    cli_engine_fill(settings, &options);
    options.model = path;
    options.n_parallel = 1;
    options.no_warmup = !warm_up;
    options.progress = cli_bar_progress;
    options.progress_user = &bar;
    bw_status status = bw_engine_new(&options, engine, err);
    cli_bar_clear(&bar);
    bw_free(path);
    return status;
}

void cli_engine_note(const bw_engine *engine)
{
    bw_model_info info;
    char params[16], weights[16], kv[16];
    bw_engine_info(engine, &info);
    cli_note("%s: %s, %s parameters, %s (%s), context %d, KV cache %s, %s", info.name, info.architecture,
             cli_format_count(params, (double)info.n_params), info.quantisation,
             cli_format_bytes(weights, (double)info.weight_bytes), (int)info.n_ctx,
             cli_format_bytes(kv, (double)info.kv_bytes), info.device);
    if (strstr(info.device, "cpu"))
        cli_note(" with %d thread%s", (int)info.n_threads, info.n_threads == 1 ? "" : "s");
    cli_note("\n");
}

bw_status cli_generate(bw_engine *engine, const bw_request *request, bool stream, bw_str *text, cli_result *result,
                       bw_err *err)
{
    enum { POLL_MS = 50 }; /* how late Ctrl-C may be noticed */
    bw_session *session;
    *result = (cli_result){0};
    BW_TRY(bw_engine_submit(engine, request, &session, err));
    bool cancelled = false;
    bw_status status;
    for (;;) {
        bw_event event;
        if (!cancelled && (cli_signal_pending() || (stream && cli_out_failed()))) {
            bw_session_cancel(session);
            cancelled = true;
        }
        status = bw_session_next(session, POLL_MS, &event, err);
        if (status == BW_E_TIMEOUT)
            continue;
        if (status != BW_OK)
            break;
        if (event.type == BW_EVENT_TEXT) {
            if (stream)
                cli_out(event.text, event.text_bytes);
            if (text)
                bw_str_add_bytes(text, event.text, event.text_bytes);
        } else if (event.type != BW_EVENT_PROMPT) {
            *result =
                (cli_result){event.finish,    event.n_prompt_tokens, event.n_cached_tokens, event.n_generated_tokens,
                             event.prompt_ms, event.generate_ms};
            status = event.type == BW_EVENT_ERROR ? (err->status ? err->status : BW_E_INTERNAL) : BW_OK;
            break;
        }
    }
    bw_session_free(session);
    if (status == BW_OK && text && text->failed)
        return bw_fail_memory(err, text->len, "the generated text");
    return status;
}

double cli_prompt_rate(const cli_result *r)
{
    return r->prompt_ms > 0 ? (r->n_prompt - r->n_cached) * 1e3 / r->prompt_ms : 0;
}

double cli_generate_rate(const cli_result *r)
{
    return r->generate_ms > 0 && r->n_generated > 1 ? (r->n_generated - 1) * 1e3 / r->generate_ms : 0;
}

void cli_add_message(bw_str *json, const char *role, const char *content, size_t n_bytes)
{
    if (json->len > 1)
        bw_str_add_char(json, ',');
    bw_str_add(json, "{\"role\":");
    bw_str_add_json(json, role, strlen(role));
    bw_str_add(json, ",\"content\":");
    bw_str_add_json(json, content, n_bytes);
    bw_str_add_char(json, '}');
}

const char *cli_finish_name(bw_finish finish)
{
    switch (finish) {
    case BW_FINISH_EOS:
        return "eos";
    case BW_FINISH_LENGTH:
        return "length";
    case BW_FINISH_STOP:
        return "stop";
    case BW_FINISH_CANCELLED:
        return "cancelled";
    case BW_FINISH_NONE:
    case BW_FINISH_ERROR:
        break;
    }
    return "error";
}
