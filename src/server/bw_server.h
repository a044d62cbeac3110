/* The HTTP server of one model: rbee's job API, the OpenAI API, health, readiness and metrics.
 *
 * Owns the listening socket, every connection and every job. It speaks to the model through beeswax.h alone and knows
 * nothing of files or devices. The port opens before the model is loaded: jobs that arrive meanwhile are held and
 * start when bw_server_set_engine is called. It refuses TLS: put a proxy in front for that.
 *
 * Threads: libmicrohttpd's (requests and socket writes), one that accepts connections, one hub (events of sessions,
 * lost clients, expiry) and, with a hive, one for heartbeats. Every function here may be called from any thread; start
 * and stop pair up. Starting raises the process's limit of open files to what it may be.
 */
#ifndef BW_SERVER_H
#define BW_SERVER_H

#include "bw_err.h"

typedef struct bw_server bw_server;

typedef struct bw_server_options {
    const char *host;           /* IPv4 or IPv6 address to bind, or a name: each of its; NULL = 127.0.0.1 */
    uint16_t port;              /* 0 = any free one, see bw_server_port */
    const char *token;          /* NULL or empty = no authentication; else needed for every path under /v1/ */
    bw_engine *engine;          /* NULL while the model is still loading; never freed here */
    const char *model_id;       /* what GET /v1/models lists and every answer names; NULL = "model" */
    const char *model_ref;      /* "model_id" of heartbeats; NULL = model_id */
    const char *info_model_id;  /* "model_id" of GET /info; NULL = model_ref */
    const char *model_path;     /* its folder is left out of what clients are told; NULL = none */
    const char *worker_id;      /* NULL = "worker" */
    const char *hive_url;       /* base URL for heartbeats; NULL or empty = none */
    const char *implementation; /* until bw_server_set_backend; NULL = "beeswax" */
    const char *device;         /* the same; NULL = "cpu:0" */
    const char *cors;           /* origins whose pages may use it, by commas; "*" = all; NULL or empty = its own only */
    const char *allow_hosts; /* names clients may call it by besides localhost and addresses; "*" = any; NULL = none */
    bool no_request_log;     /* leave out the log line per request */
    /* Control tokens such as <|im_end|> written in messages count, as with other servers: who writes a message can then
     * end its turn and forge others. Otherwise they are text. */
    bool control_tokens_in_messages;
    size_t max_body;          /* bytes; 0 = 2 MiB. Longer: 413 */
    size_t max_buffer;        /* bytes of one stream that wait for its reader; 0 = 2 MiB. Beyond: cancelled */
    uint32_t max_connections; /* 0 = 512; fewer where the process may open few files. Beyond: those that only wait go */
    uint32_t max_jobs;        /* rbee jobs that wait, run or are to be read; 0 = 4096, of one client 3/4. Beyond: 503 */
    size_t max_job_bytes;     /* what these hold, likewise; 0 = 256 MiB */
    uint32_t max_held;        /* other requests held while the model loads; 0 = 64. Beyond: 503 */
    uint32_t n_threads;       /* libmicrohttpd's; 0 = 2 */
    int64_t head_timeout_ms;  /* a request's whole head must arrive within this, also on an idle connection; 0 = 60 s */
    int64_t body_timeout_ms;  /* and its whole body within this; 0 = 30 s */
    int64_t send_timeout_ms;  /* a client must take at least 4 KiB of what waits for it within this; 0 = 30 s */
    int64_t job_expiry_ms;    /* finished or unclaimed jobs are dropped after this; 0 = 300 s */
    int64_t heartbeat_ms;     /* 0 = 30 s */
} bw_server_options;

/* Everything zero, which is every default. */
void bw_server_options_init(bw_server_options *options);

/* Bind, then serve on threads of its own. Strings are copied. BW_E_IO when the address cannot be bound. */
bw_status bw_server_start(const bw_server_options *options, bw_server **server, bw_err *err);
/* Stop accepting, cancel every job, deliver what clients are still owed (at most about a second), free everything.
 * The engine is not touched after this returns. NULL is allowed. */
void bw_server_stop(bw_server *server);
/* The port that was bound. */
uint16_t bw_server_port(const bw_server *server);

/* The device that computes was found and opened, which may take long after the port is open. device: "rocm:0";
 * implementation: NULL = as it was; notice: a sentence that /v1/ready repeats, such as a GPU that was missing, NULL =
 * none. Copied. */
void bw_server_set_backend(bw_server *server, const char *device, const char *implementation, const char *notice);
/* The model is loaded: held jobs start. Once only. */
void bw_server_set_engine(bw_server *server, bw_engine *engine);
/* The model will never be loaded: held and later jobs fail with this sentence. */
void bw_server_set_load_error(bw_server *server, const char *sentence);
/* For GET /v1/loading/progress; has the type of bw_engine_options.progress, with the server as `user`. */
void bw_server_set_load_progress(void *server, const bw_progress *progress);

/* For tests and the command line: jobs and requests whose sessions have not ended. */
int32_t bw_server_count_active(const bw_server *server);

#endif
