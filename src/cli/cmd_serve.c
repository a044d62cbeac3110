/* beeswax serve: a model over HTTP. The port opens first, requests wait until the model is loaded. */
#include "cli.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>
#include <unistd.h>

#include "bw_log.h"
#include "bw_mem.h"
#include "bw_model_path.h"
#include "bw_server.h"
#include "bw_signals.h"

typedef struct serve_settings {
    cli_engine_settings engine;
    const char *host, *token, *name;
    int32_t port, n_parallel, n_queue, kv_tokens;
    cli_texts allow_hosts, cors;
    bool no_request_log, control_tokens;
} serve_settings;

static void init(void *settings)
{
    serve_settings *s = settings;
    s->host = "127.0.0.1";
    s->port = 8080;
}

static const cli_option options[] = {
    {"host", 0, CLI_TEXT, offsetof(serve_settings, host), "ADDRESS",
     "address to listen on (default 127.0.0.1: this machine only; 0.0.0.0: everybody)", 0, 0, NULL},
    {"port", 'p', CLI_I32, offsetof(serve_settings, port), "N", "port; 0 takes any free one (default 8080)", 0, 65535,
     NULL},
    {"token", 0, CLI_TEXT, offsetof(serve_settings, token), "TEXT",
     "clients must send \"Authorization: Bearer TEXT\" (default: $LLORCH_API_TOKEN, which ps does not show)", 0, 0,
     NULL},
    {"alias", 0, CLI_TEXT, offsetof(serve_settings, name), "TEXT",
     "the model's name for clients (default: the file's, without folder and ending)", 0, 0, NULL},
    {"name", 0, CLI_TEXT, offsetof(serve_settings, name), "TEXT", "the same as --alias", 0, 0, NULL},
    {"parallel", 0, CLI_I32, offsetof(serve_settings, n_parallel), "N", "requests computed together (default 4)", 1, 64,
     NULL},
    {"queue", 0, CLI_I32, offsetof(serve_settings, n_queue), "N",
     "requests that may wait for a place; more get 503 (default 512)", 1, 65536, NULL},
    {"kv-tokens", 0, CLI_I32, offsetof(serve_settings, kv_tokens), "N",
     "tokens the KV cache holds over all requests (default: --ctx times --parallel)", 1, 1e9, NULL},
    {"allow-host", 0, CLI_TEXTS, offsetof(serve_settings, allow_hosts), "NAME",
     "a name clients may call it by, besides localhost and addresses; * for any ($BW_ALLOW_HOST)", 0, 0, NULL},
    {"cors", 0, CLI_TEXTS, offsetof(serve_settings, cors), "ORIGIN",
     "a site whose pages may use it, such as http://localhost:3000; * for all ($BW_CORS)", 0, 0, NULL},
    {"control-tokens-in-messages", 0, CLI_FLAG, offsetof(serve_settings, control_tokens), NULL,
     "control tokens such as <|im_end|> in messages count, as with other servers; otherwise they are text", 0, 0, NULL},
    {"no-request-log", 0, CLI_FLAG, offsetof(serve_settings, no_request_log), NULL, "no log line per request", 0, 0,
     NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

typedef struct service {
    const serve_settings *settings;
    char *path;
    bw_server *server;
    bw_engine *engine;
    cli_bar bar;
    bw_err err;
    pthread_t main_thread;
    _Atomic bool lost; /* the device; lost_err says how */
    bw_err lost_err;
} service;

static void on_progress(void *user, const bw_progress *progress)
{
    service *s = user;
    bw_server_set_load_progress(s->server, progress);
    cli_bar_progress(&s->bar, progress);
}

/* On the engine's thread: the main thread sees it when it wakes. */
static void on_lost(void *user, const bw_err *err)
{
    service *s = user;
    s->lost_err = *err;
    atomic_store(&s->lost, true);
    pthread_kill(s->main_thread, SIGUSR1);
}

static void *load_main(void *arg)
{
    service *s = arg;
    bw_engine_options o;
    cli_engine_fill(&s->settings->engine, &o);
    o.model = s->path;
    o.n_parallel = s->settings->n_parallel;
    o.n_queue = s->settings->n_queue;
    o.kv_tokens = s->settings->kv_tokens;
    o.progress = on_progress;
    o.progress_user = s;
    o.lost = on_lost;
    o.lost_user = s;
    bw_status status = bw_engine_new(&o, &s->engine, &s->err);
    cli_bar_clear(&s->bar);
    if (status == BW_OK) {
        bw_model_info info;
        bw_engine_info(s->engine, &info);
        bw_server_set_backend(s->server, info.device, NULL, NULL);
        bw_server_set_engine(s->server, s->engine);
    } else {
        bw_server_set_load_error(s->server, s->err.text);
    }
    pthread_kill(s->main_thread, SIGUSR1);
    return NULL;
}

/* What was given, by commas (bw_free), or the variable's value. */
static char *join(const cli_texts *texts, const char *variable)
{
    bw_str out = {0};
    const char *value = getenv(variable);
    for (size_t i = 0; i < texts->n; i++)
        bw_str_add_format(&out, "%s%s", i ? "," : "", texts->items[i]);
    if (texts->n == 0 && value)
        bw_str_add(&out, value);
    return bw_str_take(&out, NULL);
}

static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || bw_str_starts(host, "127.") || strcmp(host, "::1") == 0;
}

static bw_status start(service *s, const char *model, bw_err *err)
{
    const serve_settings *settings = s->settings;
    const char *token = settings->token ? settings->token : getenv("LLORCH_API_TOKEN");
    bw_server_options o;
    bw_server_options_init(&o);
    o.host = settings->host;
    o.port = (uint16_t)settings->port;
    o.token = token;
    o.device = settings->engine.device ? settings->engine.device : "unknown"; /* until it is open */
    char *name = settings->name ? bw_strdup(settings->name) : bw_model_name(model);
    if (!name)
        return bw_fail_memory(err, strlen(model), "the model's name");
    o.model_id = name;
    o.model_path = s->path;
    char *hosts = join(&settings->allow_hosts, "BW_ALLOW_HOST"), *cors = join(&settings->cors, "BW_CORS");
    o.allow_hosts = hosts;
    o.cors = cors;
    o.control_tokens_in_messages = settings->control_tokens;
    o.no_request_log = settings->no_request_log;
    bw_status status = bw_server_start(&o, &s->server, err);
    bw_free(name);
    bw_free(hosts);
    bw_free(cors);
    if (status != BW_OK)
        return status;
    cli_note("http://%s%s%s:%u  (OpenAI: /v1/chat/completions, /v1/completions; Ctrl-C ends)\n",
             strchr(o.host, ':') ? "[" : "", o.host, strchr(o.host, ':') ? "]" : "",
             (unsigned)bw_server_port(s->server));
    if ((!token || !*token) && !is_loopback(o.host))
        bw_log_warn("there is no token: anyone who reaches %s port %u may use this server; see --token", o.host,
                    (unsigned)bw_server_port(s->server));
    return BW_OK;
}

static void leave_now(int number)
{
    (void)number;
    _exit(CLI_OK);
}

/* A step under way, or a request that is being read, may take long: what is not done in time is left to the kernel. */
static void stop(service *s)
{
    struct itimerval limit = {.it_value = {.tv_sec = 1, .tv_usec = 700000}};
    signal(SIGALRM, leave_now);
    setitimer(ITIMER_REAL, &limit, NULL);
    bw_server_stop(s->server);
    bw_engine_free(s->engine);
    signal(SIGALRM, SIG_IGN);
}

/* Until a signal ends it or loading fails. */
static int serve(service *s, const sigset_t *signals)
{
    pthread_t loader;
    int number = 0, e = pthread_create(&loader, NULL, load_main, s);
    if (e != 0) {
        bw_server_stop(s->server);
        return cli_fail("a thread cannot be started: %s", strerror(e));
    }
    while (sigwait(signals, &number) != 0) {
    }
    if (number != SIGUSR1) { /* still loading, and the loader uses the server: tell clients, then leave all as it is */
        bw_server_set_load_error(s->server, "the server is shutting down");
        usleep(200000);
        _exit(CLI_OK);
    }
    pthread_join(loader, NULL);
    if (!s->engine) {
        int code = cli_fail_err(&s->err);
        bw_server_stop(s->server);
        return code;
    }
    cli_engine_note(s->engine);
    while (!atomic_load(&s->lost) && (sigwait(signals, &number) != 0 || number == SIGUSR1)) {
    }
    if (!atomic_load(&s->lost)) {
        bw_log_info("stopping on %s", strsignal(number));
        stop(s);
        return CLI_OK;
    }
    usleep(500000); /* the requests that it took along are answered */
    fflush(NULL);
    _exit(cli_fail_err(&s->lost_err)); /* freeing what lies on a lost device may wait for ever */
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    service s = {.settings = settings, .main_thread = pthread_self()};
    bw_err err = {0};
    if (n_words == 0)
        return cli_usage(command, "serve needs a model");
    if (n_words > 1)
        return cli_usage(command, "\"%.60s\" is one word too many", words[1]);
    sigset_t signals;
    bw_signals_block(&signals); /* before any thread */
    signal(SIGPIPE, SIG_IGN);   /* a client that left is not our end */
    int code;
    if (bw_model_path_find(words[0], &s.path, &err) != BW_OK || start(&s, words[0], &err) != BW_OK)
        code = cli_fail_err(&err);
    else
        code = serve(&s, &signals);
    bw_free(s.path);
    return code;
}

const cli_command cli_cmd_serve = {
    .name = "serve",
    .usage = "MODEL [options]",
    .summary = "serve a model over HTTP (OpenAI API and rbee jobs)",
    .details = "Any OpenAI client works with the base URL http://HOST:PORT/v1. Requests that come while the model\n"
               "is loading wait. Without a token everyone who reaches the port may use it, so it listens on this\n"
               "machine only unless --host says otherwise.\n"
               "\n"
               "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
               "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
    .groups = {&group, &cli_engine_group, &cli_common_group},
    .settings_bytes = sizeof(serve_settings),
    .init = init,
    .log_info = true,
    .run = run,
};
