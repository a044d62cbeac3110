/* llm-worker-rbee: rbee's LLM worker. Owns the command line of section 1 of the worker contract, the choice of a
 * backend, signals and exit codes; everything else is the server's and the engine's.
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

#ifndef BW_BUILD_TYPE
#define BW_BUILD_TYPE "release"
#endif

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, STOP_MS = 1600 };

typedef struct worker_args {
    const char *name; /* the program's, without its folder */
    const char *worker_id, *model, *model_ref, *alias, *port, *hive_url, *queen_url, *callback_url;
    const char *rocm_device, *cuda_device, *metal_device, *device, *backend;
    const char *threads, *ctx, *parallel, *gpu_layers;
    bool local_mode, require_gpu, help, version;
    uint16_t port_number;
    int32_t n_threads, n_ctx, n_parallel, n_gpu_layers;
} worker_args;

/* ---- command line ---- */

static const char usage_text[] =
    "Usage: %s --worker-id ID --model MODEL --port PORT [options]\n"
    "\n"
    "  --worker-id ID         the worker's name, as the hive knows it\n"
    "  --model MODEL          a .gguf or .safetensors file, a directory, or an id such as org/repo:file.gguf\n"
    "  --port PORT            port to listen on (0 = any free one)\n"
    "  --model-ref REF        the model's name in heartbeats [default: MODEL]\n"
    "  --alias NAME           the model's name in answers [default: MODEL, of a path the file's name without its "
    "ending]\n"
    "  --hive-url URL         where heartbeats go (also --queen-url, --callback-url) [default: nowhere]\n"
    "  --backend NAME         cpu, rocm or cuda [default: from the program's name; under a name that says nothing the\n"
    "                         first GPU that can be used, else the CPU]\n"
    "  --rocm-device N        AMD GPU (--cuda-device N: NVIDIA; --metal-device N: refused) [default: the discrete one\n"
    "                         with most memory]\n"
    "  --device N             the same of the backend's kind; also with a kind: rocm:N, cuda:N, cpu:0\n"
    "  --gpu-layers N         layers on the GPU, the CPU computes the others [default: auto, as many as fit]\n"
    "  --require-gpu          refuse to start where the CPU would have to compute anything\n"
    "  --local-mode           listen on 127.0.0.1 only, without a token\n"
    "  --threads N            CPU threads [default: one per processor, no more than a cgroup's quota is worth]\n"
    "  --ctx N                tokens of context per request [default: the model's, at most 4096]\n"
    "  --parallel N           requests computed together [default: 4]\n"
    "  --build-info           print release or debug\n"
    "  --help, --version\n"
    "\n"
    "Environment: LLORCH_API_TOKEN (clients must send it as a bearer token), LLORCH_LOG_FORMAT=json\n";

/* What is wrong, then the usage, on standard error. */
static int fail_usage(const worker_args *args, const char *format, ...) BW_PRINTF(2, 3);
static int fail_usage(const worker_args *args, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs("\n\n", stderr);
    fprintf(stderr, usage_text, args->name);
    return EXIT_USAGE;
}

typedef struct flag {
    const char *name;
    const char **value; /* takes a value */
    bool *on;           /* is a switch */
} flag;

/* 0, or the exit code. */
static int parse_one(const worker_args *args, const flag *flags, size_t n_flags, int argc, char **argv, int *i)
{
    const char *text = argv[*i], *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) : strlen(text);
    if (strncmp(text, "--", 2) != 0)
        return fail_usage(args, "unexpected argument '%s' found", text);
    for (size_t f = 0; f < n_flags; f++) {
        if (strlen(flags[f].name) != n || strncmp(flags[f].name, text, n) != 0)
            continue;
        if (flags[f].on) {
            if (equals)
                return fail_usage(args, "unexpected value for '%s'", flags[f].name);
            *flags[f].on = true;
            return 0;
        }
        if (*flags[f].value)
            return fail_usage(args, "the argument '%s' cannot be used multiple times", flags[f].name);
        if (!equals && *i + 1 >= argc)
            return fail_usage(args, "a value is required for '%s' but none was supplied", flags[f].name);
        *flags[f].value = equals ? equals + 1 : argv[++*i];
        return 0;
    }
    return fail_usage(args, "unexpected argument '%.*s' found", (int)n, text);
}

typedef struct device_wish {
    const char *kind; /* "cpu", "rocm", "cuda", "metal"; "gpu": ROCm or CUDA; NULL: not said */
    bool has_number;
    uint64_t number; /* counts within the kind */
} device_wish;

/* "1", "cuda:1", "cuda", or as a hive numbers them "GPU-1", "CPU-0". */
static bool parse_device(const char *text, device_wish *out)
{
    static const char *const kinds[] = {"cpu", "rocm", "cuda", "metal", "gpu"};
    *out = (device_wish){0};
    if (!(*text >= '0' && *text <= '9')) {
        size_t n = strcspn(text, ":-");
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strlen(kinds[i]) == n && strncasecmp(kinds[i], text, n) == 0)
                out->kind = kinds[i];
        if (!out->kind || !text[n])
            return out->kind != NULL;
        text += n + 1;
    }
    out->has_number = bw_parse_u64(text, &out->number) && out->number <= UINT32_MAX;
    return out->has_number;
}

static bool parse_count(const char *text, int32_t *out)
{
    uint64_t value = 0;
    if (text && (!bw_parse_u64(text, &value) || value > INT32_MAX))
        return false;
    *out = (int32_t)value;
    return true;
}

static int check_args(worker_args *a)
{
    uint64_t number;
    device_wish wish;
    if (!a->worker_id || !a->model || !a->port)
        return fail_usage(a, "the following required arguments were not provided:%s%s%s",
                          a->worker_id ? "" : " --worker-id", a->model ? "" : " --model", a->port ? "" : " --port");
    if (!bw_parse_u64(a->port, &number) || number > UINT16_MAX)
        return fail_usage(a, "invalid value '%s' for '--port': a number from 0 to 65535 is expected", a->port);
    a->port_number = (uint16_t)number;
    const char *const devices[] = {a->rocm_device, a->cuda_device, a->metal_device, a->device};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i] && !parse_device(devices[i], &wish))
            return fail_usage(a, "invalid device '%s': a number is expected, or one behind its kind such as rocm:1",
                              devices[i]);
    if (!parse_count(a->threads, &a->n_threads) || !parse_count(a->ctx, &a->n_ctx) ||
        !parse_count(a->parallel, &a->n_parallel))
        return fail_usage(a, "'--threads', '--ctx' and '--parallel' take whole numbers");
    if (a->gpu_layers && strcmp(a->gpu_layers, "auto") != 0 &&
        (!parse_count(a->gpu_layers, &a->n_gpu_layers) || a->n_gpu_layers < 1))
        return fail_usage(a, "'--gpu-layers' takes 'auto' or a number of at least 1");
    return 0;
}

static int parse_args(int argc, char **argv, worker_args *a)
{
    const flag flags[] = {
        {"--worker-id", &a->worker_id, NULL},
        {"--model", &a->model, NULL},
        {"--model-ref", &a->model_ref, NULL},
        {"--alias", &a->alias, NULL},
        {"--port", &a->port, NULL},
        {"--hive-url", &a->hive_url, NULL},
        {"--queen-url", &a->queen_url, NULL},
        {"--callback-url", &a->callback_url, NULL},
        {"--rocm-device", &a->rocm_device, NULL},
        {"--cuda-device", &a->cuda_device, NULL},
        {"--metal-device", &a->metal_device, NULL},
        {"--device", &a->device, NULL},
        {"--backend", &a->backend, NULL},
        {"--threads", &a->threads, NULL},
        {"--ctx", &a->ctx, NULL},
        {"--parallel", &a->parallel, NULL},
        {"--gpu-layers", &a->gpu_layers, NULL},
        {"--local-mode", NULL, &a->local_mode},
        {"--require-gpu", NULL, &a->require_gpu},
        {"--help", NULL, &a->help},
        {"--version", NULL, &a->version},
    };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0)
            a->help = true;
        else if (strcmp(argv[i], "-V") == 0)
            a->version = true;
        else {
            int code = parse_one(a, flags, sizeof flags / sizeof *flags, argc, argv, &i);
            if (code)
                return code;
        }
    }
    return a->help || a->version ? 0 : check_args(a);
}

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
        parse_device(text, w);
    if (kind && w->kind && !fits(kind, w->kind))
        return fail_sentence("%s %s names a device of another kind; drop one of the two", from, text);
    if (kind)
        w->kind = kind;
    if (kind && a->device) {
        parse_device(a->device, &d);
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
        return fail_sentence("unknown backend '%s'; this build knows cpu, rocm and cuda", a->backend);
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
    options.n_ctx = a->n_ctx;
    options.n_parallel = a->n_parallel;
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
        bw_model_hide_folder(err.text, w->path);
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
    options.port = a->port_number;
    options.token = token;
    char *name = a->alias ? bw_strdup(a->alias) : bw_model_name(a->model);
    char *shown = a->alias || !a->model_ref ? NULL : bw_model_name(a->model_ref);
    options.model_id = name;
    options.model_ref = a->model_ref ? a->model_ref : a->model; /* the hive's own words */
    options.info_model_id = shown ? shown : name;
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
        *code = fail_sentence("the device is lost, this process ends: %s", w->err.text);
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
    worker_args args = {0};
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    args.name = slash ? slash + 1 : argc > 0 ? argv[0] : "llm-worker-rbee";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--build-info") == 0) {
            puts(BW_BUILD_TYPE);
            return 0;
        }
    }
    int code = parse_args(argc, argv, &args);
    if (code)
        return code;
    if (args.help || args.version) {
        if (args.help)
            printf(usage_text, args.name);
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
