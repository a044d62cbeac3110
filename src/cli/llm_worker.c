/* llm-worker-rbee: rbee's LLM worker. Owns the choice of a backend, signals and exit codes (worker_args.c: the command
 * line of section 1 of the worker contract); everything else is the server's and the engine's.
 *
 * argv is never written to: rbee's hive reads the model back from /proc/PID/cmdline. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_model_path.h"
#include "bw_probe.h"
#include "bw_server.h"
#include "bw_signals.h"
#include "bw_str.h"
#include "worker_args.h"

#ifndef BW_BUILD_TYPE
#define BW_BUILD_TYPE "release"
#endif

enum { EXIT_FAILED = 1, STOP_MS = 1600 };

/* ---- the backend ---- */

/* What a published name says: 'c' the CPU, 'r' ROCm, 'n' CUDA, 0 nothing (also a hive's copy under a free name, which
 * says cuda even for ROCm). */
static char backend_of_name(const char *name)
{
    if (bw_str_starts(name, "llm-worker-rbee")) {
        if (bw_str_ends(name, "-rocm"))
            return 'r';
        if (bw_str_ends(name, "-cuda"))
            return 'n';
    }
    return strstr(name, "-cpu") ? 'c' : 0;
}

static int fail_sentence(const char *format, ...) BW_PRINTF(1, 2);
static int fail_sentence(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("Error: ", stderr);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs("\n", stderr);
    return EXIT_FAILED;
}

static bool fits(const char *kind, const char *other)
{
    return strcmp(kind, other) == 0 || (strcmp(kind, "gpu") == 0 && strcmp(other, "cpu") != 0) ||
           (strcmp(other, "gpu") == 0 && strcmp(kind, "cpu") != 0);
}

/* What the device flags and --backend say together. 0, or the exit code where they contradict each other. */
static int read_wish(const worker_args *a, device_wish *w)
{
    const char *from = a->rocm_device ? "--rocm-device" : a->cuda_device ? "--cuda-device" : "--device";
    const char *text = a->rocm_device ? a->rocm_device : a->cuda_device ? a->cuda_device : a->device;
    const char *kind = a->rocm_device ? "rocm" : a->cuda_device ? "cuda" : NULL;
    device_wish d = {0};
    *w = d;
    if (text)
        worker_parse_device(text, w);
    if (kind && w->kind && !fits(kind, w->kind))
        return fail_sentence("%s %s names a device of another kind; drop one of the two", from, text);
    if (kind)
        w->kind = kind;
    if (kind && a->device) {
        worker_parse_device(a->device, &d);
        if ((d.kind && !fits(d.kind, kind)) || (d.has_number && w->has_number && d.number != w->number))
            return fail_sentence("%s %s and --device %s exclude each other; drop one of them", from, text, a->device);
        if (d.has_number)
            *w = (device_wish){kind, true, d.number};
    }
    if (a->backend && w->kind && !fits(w->kind, a->backend))
        return fail_sentence("--backend %s and %s %s exclude each other; drop one of them", a->backend, from, text);
    if (a->backend)
        w->kind = a->backend;
    return 0;
}

/* What is to compute, as far as the command line says it; no driver has been asked yet. */
typedef struct backend {
    const char *kind; /* "cpu", "rocm", "cuda"; NULL: the first GPU that can be used */
    device_wish wish; /* kind "gpu": one of either kind */
} backend;

static int plan_cpu(const worker_args *a, backend *b)
{
    *b = (backend){.kind = "cpu"};
    return a->require_gpu ? fail_sentence("--require-gpu and the processor as backend exclude each other") : 0;
}

/* In this order: a device flag's kind, --backend, the program's name; but --backend cpu is heeded in any case, so that
 * whoever always passes a device flag has a way to the processor. 0, or the exit code. */
static int plan_backend(const worker_args *a, backend *b)
{
    static const char *const known[] = {"cpu", "rocm", "cuda"};
    const char name = backend_of_name(a->name);
    bool is_known = !a->backend;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known = is_known || strcmp(a->backend, known[i]) == 0;
    if (!is_known)
        return fail_sentence("unknown backend '%s' (--backend or BW_BACKEND); this build knows cpu, rocm and cuda",
                             a->backend);
    if (a->metal_device || (a->device && strncasecmp(a->device, "metal", 5) == 0))
        return fail_sentence("beeswax has no Metal backend; run it on Linux with --backend cpu");
    if (a->rocm_device && a->cuda_device)
        return fail_sentence("--rocm-device and --cuda-device exclude each other; drop one of them");
    if (a->backend && strcmp(a->backend, "cpu") == 0)
        return plan_cpu(a, b);
    *b = (backend){0};
    int code = read_wish(a, &b->wish);
    if (code)
        return code;
    const device_wish *w = &b->wish;
    if (w->kind && strcmp(w->kind, "cpu") == 0)
        return w->number ? fail_sentence("device %s does not exist; there is one, cpu:0", a->device) : plan_cpu(a, b);
    if (w->kind && strcmp(w->kind, "gpu") != 0)
        b->kind = w->kind;
    else if (name == 'r' || name == 'n')
        b->kind = name == 'r' ? "rocm" : "cuda";
    else if (name == 'c' && !w->kind)
        return plan_cpu(a, b);
    return 0;
}

/* Opens this GPU: without a number the best of the kind. */
static bw_status open_gpu(const char *kind, const device_wish *w, bw_device **opened, bw_err *err)
{
    char name[16];
    snprintf(name, sizeof name, "%s", kind);
    if (w->has_number)
        snprintf(name, sizeof name, "%s:%u", kind, (unsigned)w->number);
    if (bw_device_open(name, 0, opened, err) == BW_OK)
        return BW_OK;
    bw_err why = *err;
    return bw_fail(err, why.status, "%s; to compute on the processor, pass --backend cpu", why.text);
}

/* Asks the drivers, which may take long: *opened is the GPU, or NULL for the processor. Where no kind was named that is
 * the first GPU that can be used, or of its kind the one with the number; where there is none the processor, and notice
 * says why. A number that is given is never another card's. */
static bw_status open_backend(const worker_args *a, const backend *b, bw_device **opened, bw_str *notice, bw_err *err)
{
    char name[16];
    *opened = NULL;
    if (b->kind)
        return strcmp(b->kind, "cpu") == 0 ? BW_OK : open_gpu(b->kind, &b->wish, opened, err);
    bw_status status = bw_device_choose_gpu(NULL, name, err);
    if (status == BW_OK && b->wish.has_number)
        return open_gpu(bw_str_starts(name, "rocm") ? "rocm" : "cuda", &b->wish, opened, err);
    if (status == BW_OK)
        status = bw_device_open(name, 0, opened, err);
    if (status == BW_OK || a->require_gpu || b->wish.kind || a->n_gpu_layers > 0)
        return status;
    bw_str_add_format(notice, "no GPU can be used, computing on the CPU: %s", err->text);
    return BW_OK;
}

/* rbee's name of a worker that computes there: whatever this program is called, hives call their copies as they like.
 */
static const char *implementation_of(const char *device)
{
    return bw_str_starts(device, "rocm")   ? "llm-worker-rbee-rocm"
           : bw_str_starts(device, "cuda") ? "llm-worker-rbee-cuda"
           : bw_str_starts(device, "cpu")  ? "llm-worker-rbee-cpu"
                                           : "llm-worker-rbee";
}

/* ---- loading and serving ---- */

typedef struct worker {
    const worker_args *args;
    const backend *backend;
    char *path;
    bw_server *server;
    pthread_mutex_t lock;
    bw_engine *engine; /* under lock */
    bw_err err;
    bool over, failed; /* under lock: loading has ended, and how */
    bool stopping;     /* under lock: the server must not be touched any more */
    bool lost;         /* under lock: the device is; err says how */
    pthread_t main_thread;
} worker;

static void tell_progress(void *arg, const bw_progress *progress)
{
    worker *w = arg;
    pthread_mutex_lock(&w->lock);
    if (!w->stopping)
        bw_server_set_load_progress(w->server, progress);
    pthread_mutex_unlock(&w->lock);
}

static void tell_lost(void *arg, const bw_err *err)
{
    worker *w = arg;
    pthread_mutex_lock(&w->lock);
    w->lost = true;
    w->err = *err;
    pthread_mutex_unlock(&w->lock);
    pthread_kill(w->main_thread, SIGUSR1);
}

/* Tells the server and the log what computes. */
static void tell_backend(worker *w, const char *device, const bw_str *notice)
{
    pthread_mutex_lock(&w->lock);
    if (!w->stopping)
        bw_server_set_backend(w->server, device, implementation_of(device), notice->data);
    pthread_mutex_unlock(&w->lock);
    if (notice->len)
        bw_log_warn("%s", notice->data);
    bw_log_info("computing on %s", device);
}

static bw_status load(worker *w, bw_engine **engine, bw_err *err)
{
    const worker_args *a = w->args;
    bw_engine_options options;
    bw_engine_options_init(&options);
    bw_str notice = {0};
    bw_status status = open_backend(a, w->backend, &options.opened, &notice, err);
    if (status != BW_OK) {
        bw_str_deinit(&notice);
        return status;
    }
    char device[16];
    snprintf(device, sizeof device, "%s", options.opened ? bw_device_name(options.opened) : "cpu:0");
    tell_backend(w, device, &notice);
    bw_str_deinit(&notice);
    options.model = w->path;
    options.device = device;
    options.n_threads = a->n_threads;
    options.n_ctx = a->n_ctx ? a->n_ctx : BW_CTX_MODEL;
    options.n_parallel = a->n_parallel;
    options.n_batch = a->n_batch;
    options.kv_dtype = a->kv;
    options.kv_tokens = a->kv_tokens;
    options.n_gpu_layers = a->n_gpu_layers;
    options.require_gpu = a->require_gpu;
    options.progress = tell_progress;
    options.progress_user = w;
    options.lost = tell_lost;
    options.lost_user = w;
    status = bw_engine_new(&options, engine, err);
    return status == BW_OK ? BW_OK : bw_err_prefix(err, "cannot load the model");
}

static void *load_main(void *arg)
{
    worker *w = arg;
    bw_engine *engine = NULL;
    int64_t start = bw_clock_now_ns();
    bw_err err = {0};
    bw_status status = load(w, &engine, &err);
    pthread_mutex_lock(&w->lock);
    w->engine = engine;
    w->err = err;
    w->over = true;
    w->failed = status != BW_OK;
    if (!w->stopping && status == BW_OK) {
        bw_log_info("model ready after %.2f s: %s", (double)(bw_clock_now_ns() - start) / 1e9, w->path);
        bw_server_set_engine(w->server, engine);
    } else if (!w->stopping) {
        bw_server_set_load_error(w->server, err.text[0] ? err.text : bw_status_name(status));
    }
    pthread_mutex_unlock(&w->lock);
    pthread_kill(w->main_thread, SIGUSR1); /* loading is over, one way or the other */
    return NULL;
}

static bw_status start_server(worker *w, bw_err *err)
{
    const worker_args *a = w->args;
    const char *token = getenv("LLORCH_API_TOKEN");
    const bool open = !token || !*token;
    bw_server_options options;
    bw_server_options_init(&options);
    options.host = a->local_mode ? "127.0.0.1" : "0.0.0.0";
    options.port = (uint16_t)a->port;
    options.token = token;
    char *name = a->alias ? bw_strdup(a->alias) : bw_model_name(a->model);
    char *shown = a->alias || !a->model_ref ? NULL : bw_model_name(a->model_ref);
    options.model_id = name;
    options.model_path = w->path;
    options.model_ref = a->model_ref ? a->model_ref : a->model; /* the hive's own words */
    options.info_model_id = shown ? shown : name;
    options.allow_hosts = a->allow_host ? a->allow_host : "*"; /* the worker contract's */
    options.cors = a->cors ? a->cors : "*";
    options.control_tokens_in_messages = a->control_tokens;
    options.worker_id = a->worker_id;
    options.hive_url = a->hive_url ? a->hive_url : a->queen_url ? a->queen_url : a->callback_url;
    options.device = w->backend->kind ? w->backend->kind : "unknown"; /* until it is open */
    if (strcmp(options.device, "cpu") == 0)
        options.device = "cpu:0";
    options.implementation = implementation_of(options.device);
    bw_status status =
        name ? bw_server_start(&options, &w->server, err) : bw_fail_memory(err, strlen(a->model), "the model's name");
    bw_free(name);
    bw_free(shown);
    if (status != BW_OK)
        return status;
    bw_log_info("listening on http://%s:%u", options.host, bw_server_port(w->server));
    if (open && !a->local_mode)
        bw_log_warn("NO TOKEN: anyone who reaches port %u of this machine may use this worker. Set LLORCH_API_TOKEN, "
                    "or use --local-mode to listen on 127.0.0.1 only",
                    bw_server_port(w->server));
    return BW_OK;
}

/* Has loading ended, and badly? Then *code is set. */
static void look_at_loading(worker *w, int *code)
{
    pthread_mutex_lock(&w->lock);
    if (w->over && w->failed)
        *code = fail_sentence("%s", w->err.text);
    else if (w->lost)
        *code = fail_sentence("this process ends: %s", w->err.text);
    pthread_mutex_unlock(&w->lock);
}

/* Everything that takes an orderly end, on a thread of its own so that main can give up waiting. */
static void *shut_down(void *arg)
{
    worker *w = arg;
    bw_server_stop(w->server);
    pthread_mutex_lock(&w->lock);
    bw_engine *engine = w->engine;
    w->engine = NULL;
    pthread_mutex_unlock(&w->lock);
    bw_engine_free(engine);
    return NULL;
}

/* Neither loading nor a step under way can be interrupted: whatever is not done in time is left to the kernel. */
static void leave(worker *w, pthread_t loader, int code)
{
    pthread_t thread;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (until.tv_nsec + STOP_MS * 1000000L) / 1000000000L;
    until.tv_nsec = (until.tv_nsec + STOP_MS * 1000000L) % 1000000000L;
    bool down = pthread_create(&thread, NULL, shut_down, w) == 0;
    if (down && pthread_timedjoin_np(thread, NULL, &until) != 0) {
        pthread_detach(thread);
        down = false;
    }
    if (pthread_tryjoin_np(loader, NULL) != 0) {
        pthread_detach(loader);
        down = false;
    }
    if (!down) {
        fflush(NULL);
        _exit(code);
    }
    bw_engine_free(w->engine); /* when loading ended only after it was looked for */
}

/* Until a signal ends it or loading fails. */
static int serve(worker *w, const sigset_t *signals)
{
    pthread_t loader;
    int failed = pthread_create(&loader, NULL, load_main, w);
    if (failed) {
        bw_server_stop(w->server);
        return fail_sentence("cannot start a thread: %s", strerror(failed));
    }
    int code = 0, signal_number = 0;
    while (code == 0 && sigwait(signals, &signal_number) == 0 && signal_number == SIGUSR1)
        look_at_loading(w, &code);
    if (code == 0)
        bw_log_info("stopping on %s", strsignal(signal_number));
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    bool over = w->over, lost = w->lost;
    pthread_mutex_unlock(&w->lock);
    if (lost) { /* the requests that it took along are answered; to free what lies on it may take for ever */
        usleep(500000);
        fflush(NULL);
        _exit(code);
    }
    if (!over)
        bw_server_set_load_error(w->server, "the worker is shutting down");
    leave(w, loader, code);
    return code;
}

static void configure_log(const char *name)
{
    const char *format = getenv("LLORCH_LOG_FORMAT"), *level = getenv("RUST_LOG");
    bool json = (format && strcmp(format, "json") == 0) || backend_of_name(name) == 'r';
    bool debug = level && (strcmp(level, "debug") == 0 || strcmp(level, "trace") == 0);
    bw_log_configure(debug ? BW_LOG_DEBUG : BW_LOG_INFO, json);
}

int main(int argc, char **argv)
{
    worker_args args;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--build-info") == 0) {
            puts(BW_BUILD_TYPE);
            return 0;
        }
    }
    int code = worker_args_read(argc, argv, &args);
    if (code)
        return code;
    if (args.help || args.version) {
        if (args.help)
            worker_args_print_help(&args, false);
        else
            printf("%s %s\n", args.name, bw_version());
        return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
    }
    configure_log(args.name);
    sigset_t signals;
    bw_signals_block(&signals); /* before any thread, also those that a GPU's driver starts */
    signal(SIGPIPE, SIG_IGN);
    const char *token = getenv("LLORCH_API_TOKEN");
    backend plan;
    if ((code = plan_backend(&args, &plan)) != 0)
        return code;
    if (args.local_mode && token && *token)
        return fail_sentence("--local-mode and LLORCH_API_TOKEN exclude each other; drop one of them");
    worker w = {.args = &args, .backend = &plan, .lock = PTHREAD_MUTEX_INITIALIZER, .main_thread = pthread_self()};
    bw_err err = {0};
    if (bw_model_path_find(args.model, &w.path, &err) != BW_OK || start_server(&w, &err) != BW_OK) {
        bw_free(w.path);
        return fail_sentence("%s", err.text);
    }
    code = serve(&w, &signals);
    bw_free(w.path);
    return code;
}
