/* GET /metrics in Prometheus' text format 0.0.4, and the small texts that say what this worker is. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bw_clock.h"
#include "internal.h"

const char *bw_server_status_name(bw_server *server)
{
    pthread_mutex_lock(&server->lock);
    const char *name = server->stopping || server->load_error[0] ? "stopping"
                       : !server->engine                         ? "starting"
                       : server->n_active                        ? "busy"
                                                                 : "ready";
    pthread_mutex_unlock(&server->lock);
    return name;
}

void bw_server_set_backend(bw_server *server, const char *device, const char *implementation, const char *notice)
{
    pthread_mutex_lock(&server->lock);
    bw_backend *b = &server->backend;
    snprintf(b->device, sizeof b->device, "%s", device);
    if (implementation)
        snprintf(b->implementation, sizeof b->implementation, "%s", implementation);
    snprintf(b->notice, sizeof b->notice, "%s", notice ? notice : "");
    pthread_mutex_unlock(&server->lock);
}

void bw_server_get_backend(bw_server *server, bw_backend *backend)
{
    pthread_mutex_lock(&server->lock);
    *backend = server->backend;
    pthread_mutex_unlock(&server->lock);
}

void bw_server_write_worker(bw_server *server, const char *model_id, bw_str *out)
{
    const bw_server_options *o = &server->options;
    bw_backend b;
    bw_server_get_backend(server, &b);
    bw_str_add(out, "{\"id\":");
    bw_str_add_json(out, o->worker_id, strlen(o->worker_id));
    bw_str_add(out, ",\"model_id\":");
    bw_str_add_json(out, model_id, strlen(model_id));
    bw_str_add(out, ",\"device\":");
    bw_str_add_json(out, b.device, strlen(b.device));
    bw_str_add_format(out, ",\"port\":%u,\"status\":\"%s\",\"implementation\":", server->port,
                      bw_server_status_name(server));
    bw_str_add_json(out, b.implementation, strlen(b.implementation));
    pthread_mutex_lock(&server->lock);
    bw_engine *engine = server->engine;
    pthread_mutex_unlock(&server->lock);
    bw_str_add_format(out, ",\"version\":\"" BW_VERSION "\",\"vram_bytes\":%lld}",
                      (long long)bw_server_vram_bytes(engine));
}

/* A label's value. The format knows three escapes and no others: what JSON would write as \t or \u0007 becomes a space.
 */
static void add_label(bw_str *out, const char *name, const char *value)
{
    bw_str_add_format(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            bw_str_add_char(out, '\\');
        bw_str_add_char(out, (unsigned char)*value < 0x20 ? ' ' : *value);
    }
    bw_str_add_char(out, '"');
}

static void add_metric(bw_str *out, const char *name, const char *type, const char *help, double value)
{
    bw_str_add_format(out, "# HELP beeswax_%s %s\n# TYPE beeswax_%s %s\nbeeswax_%s ", name, help, name, type, name);
    bw_str_add_format(out, "%.17g\n", value);
}

static double resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %llu", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

int64_t bw_server_vram_bytes(bw_engine *engine)
{
    bw_engine_memory memory = {0};
    if (engine)
        bw_engine_get_memory(engine, &memory);
    return memory.vram;
}

static void write_memory(bw_engine *engine, bw_str *out)
{
    bw_engine_memory m = {0};
    bw_engine_get_memory(engine, &m);
    bw_str_add(out, "# HELP beeswax_memory_bytes What the model takes, by class.\n# TYPE beeswax_memory_bytes gauge\n");
    bw_str_add_format(out,
                      "beeswax_memory_bytes{class=\"weights\"} %lld\nbeeswax_memory_bytes{class=\"kv\"} %lld\n"
                      "beeswax_memory_bytes{class=\"scratch\"} %lld\n",
                      (long long)m.weights, (long long)m.kv, (long long)m.scratch);
    add_metric(out, "vram_bytes", "gauge", "GPU memory that this process took.", (double)m.vram);
    add_metric(out, "vram_free_bytes", "gauge", "GPU memory that is free.", (double)m.vram_free);
    add_metric(out, "vram_total_bytes", "gauge", "GPU memory in all.", (double)m.vram_total);
}

static void write_latencies(bw_engine *engine, bw_str *out)
{
    static const struct {
        const char *name, *help;
    } rows[BW_LATENCY_COUNT] = {
        [BW_LATENCY_QUEUE] = {"queue_seconds", "From submission to a place among those that run."},
        [BW_LATENCY_FIRST_TOKEN] = {"time_to_first_token_seconds", "From submission to the first token."},
        [BW_LATENCY_BETWEEN_TOKENS] = {"time_between_tokens_seconds", "From one token to the next."},
        [BW_LATENCY_END_TO_END] = {"request_seconds", "From submission to the end, of sequences that went well."},
    };
    bw_histogram all[BW_LATENCY_COUNT];
    const double *bounds = bw_histogram_bounds();
    bw_engine_get_latencies(engine, all);
    for (int i = 0; i < BW_LATENCY_COUNT; i++) {
        const char *name = rows[i].name;
        uint64_t n = 0;
        bw_str_add_format(out, "# HELP beeswax_%s %s\n# TYPE beeswax_%s histogram\n", name, rows[i].help, name);
        for (int j = 0; j < BW_HISTOGRAM_BUCKETS; j++) {
            n += all[i].counts[j];
            bw_str_add_format(out, "beeswax_%s_bucket{le=\"%g\"} %llu\n", name, bounds[j], (unsigned long long)n);
        }
        n += all[i].counts[BW_HISTOGRAM_BUCKETS];
        bw_str_add_format(out, "beeswax_%s_bucket{le=\"+Inf\"} %llu\nbeeswax_%s_sum %.9g\nbeeswax_%s_count %llu\n",
                          name, (unsigned long long)n, name, all[i].sum, name, (unsigned long long)n);
    }
}

static void write_engine(bw_engine *engine, bw_str *out)
{
    bw_engine_stats s = {0};
    bw_engine_get_stats(engine, &s);
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"engine_requests_total", "counter", "Sequences submitted.", (double)s.n_requests},
        {"engine_completed_total", "counter", "Sequences that went well.", (double)s.n_completed},
        {"engine_cancelled_total", "counter", "Sequences cancelled.", (double)s.n_cancelled},
        {"engine_failed_total", "counter", "Sequences that failed.", (double)s.n_failed},
        {"engine_rejected_total", "counter", "Sequences submitted and refused.", (double)s.n_rejected},
        {"prompt_tokens_total", "counter", "Prompt tokens computed.", (double)s.n_prompt_tokens},
        {"cached_tokens_total", "counter", "Prompt tokens found in the prefix cache.", (double)s.n_cached_tokens},
        {"generated_tokens_total", "counter", "Tokens generated.", (double)s.n_generated_tokens},
        {"engine_steps_total", "counter", "Steps run.", (double)s.n_steps},
        {"engine_step_seconds_total", "counter", "Time spent in steps.", s.step_seconds},
        {"engine_running", "gauge", "Sequences running.", s.n_running},
        {"engine_waiting", "gauge", "Sequences waiting for a place.", s.n_waiting},
        {"kv_pages_used", "gauge", "KV cache pages in use.", s.kv_pages_used},
        {"kv_pages", "gauge", "KV cache pages.", s.kv_pages_total},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add_metric(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
    write_memory(engine, out);
    write_latencies(engine, out);
}

void bw_metrics_write(bw_server *server, bw_str *out)
{
    pthread_mutex_lock(&server->lock);
    bw_engine *engine = server->engine;
    int64_t by_class[BW_N_STATUS];
    memcpy(by_class, server->n_by_class, sizeof by_class);
    double n_jobs = (double)server->n_jobs, n_gone = (double)server->n_gone, n_bytes = (double)server->n_bytes;
    double n_active = server->n_active, n_known = server->n_known, n_held = server->n_held;
    double n_refused = (double)server->n_refused;
    bw_backend backend = server->backend;
    pthread_mutex_unlock(&server->lock);
    bw_str_add(out, "# HELP beeswax_info What runs here.\n# TYPE beeswax_info gauge\n"
                    "beeswax_info{version=\"" BW_VERSION "\",");
    add_label(out, "device", backend.device);
    bw_str_add_char(out, ',');
    add_label(out, "model", server->options.model_id);
    bw_str_add(out, "} 1\n# HELP beeswax_http_responses_total Answers by class of status; 0xx: none was sent.\n"
                    "# TYPE beeswax_http_responses_total counter\n");
    for (int i = 0; i < BW_N_STATUS; i++)
        bw_str_add_format(out, "beeswax_http_responses_total{class=\"%dxx\"} %lld\n", i, (long long)by_class[i]);
    add_metric(out, "ready", "gauge", "1 when the model is loaded.", engine ? 1 : 0);
    add_metric(out, "http_body_bytes_total", "counter", "Bytes of bodies sent.", n_bytes);
    add_metric(out, "jobs_total", "counter", "Requests for text that were accepted.", n_jobs);
    add_metric(out, "jobs_refused_total", "counter", "Requests for text that were refused.", n_refused);
    add_metric(out, "jobs_disconnected_total", "counter", "Requests cancelled because the client went away.", n_gone);
    add_metric(out, "jobs_active", "gauge", "Requests for text under way.", n_active);
    add_metric(out, "jobs_held", "gauge",
               "Requests that wait for the model to load, or rbee jobs for a place in its queue.", n_held);
    add_metric(out, "jobs_known", "gauge", "rbee jobs remembered.", n_known);
    add_metric(out, "uptime_seconds", "gauge", "Seconds since the start.",
               (double)(bw_clock_unix_s() - server->started_unix));
    add_metric(out, "resident_bytes", "gauge", "Resident memory of the process.", resident_bytes());
    if (engine)
        write_engine(engine, out);
}
