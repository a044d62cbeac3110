/* What the server's files share: the server, its jobs and one HTTP exchange. */
#ifndef BW_SERVER_INTERNAL_H
#define BW_SERVER_INTERNAL_H

#include "ask.h"
#include "bw_server.h"
#include "pipe.h"

typedef enum bw_job_state {
    BW_JOB_QUEUED, /* held for the model, or waiting in the engine's queue, or running */
    BW_JOB_DONE,
    BW_JOB_FAILED,
    BW_JOB_CANCELLED
} bw_job_state;

/* One sequence of a job. */
typedef struct bw_choice {
    bw_session *session; /* NULL before submission and after the end */
    size_t prompt;       /* index into ask.prompts */
    bool done;
    bw_str text;        /* whole answers only */
    bw_str logprobs[4]; /* JSON list items: chat uses the first; else tokens, logprobs, tops, offsets */
    size_t text_offset; /* characters so far */
    bw_finish finish;
    int32_t n_prompt, n_cached, n_generated;
    char *stop_matched; /* bw_free */
    double generate_ms;
} bw_choice;

/* One request for text. The stream's lock guards it, links excepted. */
typedef struct bw_job {
    bw_pipe stream; /* first: a bw_pipe * is a bw_job * */
    bw_server *server;
    char id[64];
    bw_str body;        /* what is to be read; empty once it was */
    bool remember;      /* findable by its id */
    bw_ask ask;         /* the API alone until the body was read */
    bw_choice *choices; /* [n_choices]; NULL until then */
    size_t n_choices, n_done;
    bw_engine *engine; /* once it is admitted */
    bw_job_state state;
    bool admitted;  /* every choice has its session: the hub may read them */
    bool cancelled; /* somebody asked for the end */
    bool claimed;   /* a stream was handed out */
    bool dropped;   /* too much unread */
    bool started;   /* rbee: the job's id can be told */
    bool has_reply; /* reply is the whole answer */
    bw_reply reply;
    bw_err err;            /* FAILED: why */
    const char *bad_param; /* the member of the body that err complains about; NULL = the prompt */
    uint32_t n_pieces;
    int64_t created_unix, created_ns, ended_ns;
    uint64_t client;                           /* who asked, see bw_peer_client; 0 = unknown */
    size_t n_asked_bytes;                      /* of the request's body */
    struct bw_job *active_next, **active_link; /* server lock: all jobs that have not ended */
    struct bw_job *known_next;                 /* server lock: rbee jobs by id */
    struct bw_job *held_next;                  /* server lock: waiting for the model or a place in its queue */
    bool submitting;                           /* server lock: held, and a thread of bw_prep tries to submit it */
    struct bw_job *prep_next;                  /* the lock of bw_prep: waiting to be read */
} bw_job;

typedef struct bw_prep bw_prep; /* prep.h */

/* A client of /v1/loading/progress. */
typedef struct bw_watcher {
    bw_pipe stream; /* first */
    struct bw_watcher *next;
    int64_t last_ns;
} bw_watcher;

typedef struct bw_client bw_client;
typedef struct bw_door bw_door;

typedef enum bw_peer_state {
    BW_PEER_ARRIVING, /* accepted; libmicrohttpd has not begun with it */
    BW_PEER_HEAD,     /* it is the client's turn to ask */
    BW_PEER_BODY,     /* and to send the rest */
    BW_PEER_ANSWER,   /* an answer is made or sent */
    BW_PEER_WATCH     /* an answer that others need more than the client: progress of loading */
} bw_peer_state;

/* A TCP connection, for the deadlines that libmicrohttpd does not have. The server's lock guards it. */
typedef struct bw_peer {
    int fd;
    bw_client *client;
    bw_peer_state state;
    bool leaving;                /* shut down; libmicrohttpd will close it */
    bool refused;                /* one too many of its client: the first request is answered 503, and that is all */
    int64_t since_ns;            /* when the state began */
    int64_t deadline_ns;         /* and must be over; 0 = none */
    int64_t behind_ns, moved_ns; /* ANSWER: since when bytes wait for the client (0: none do); when it last took some */
    uint64_t n_acked;            /* it had taken by then */
    struct bw_peer *next, **link;
} bw_peer;

enum { BW_N_STATUS = 6 };

/* What computes, in words. */
typedef struct bw_backend {
    char device[96], implementation[64], notice[800]; /* notice: empty = none */
} bw_backend;

struct bw_server {
    bw_server_options options; /* with defaults; strings owned */
    unsigned char token_digest[32];
    char identity[16];           /* "token:abcdef" */
    struct MHD_Daemon **daemons; /* [options.n_threads], each with a thread */
    bw_door *door;
    uint16_t port;
    bw_hub *hub;
    bw_prep *prep;
    struct bw_heartbeat *heartbeat;
    int64_t started_unix;
    pthread_mutex_t lock; /* guards all below */
    bw_engine *engine;
    bw_backend backend;
    bool stopping;
    char load_error[500]; /* empty = none */
    bw_progress progress; /* stage points to static text */
    bool has_progress;
    bw_job *active;
    int32_t n_active;
    bw_job *known;
    uint32_t n_known;
    bw_job *held, **held_last;
    uint32_t n_held;
    bw_watcher *watchers;
    bw_peer *peers;
    uint32_t n_peers, n_leaving; /* the second are among the first */
    uint32_t n_places, n_spare;  /* connections at once, and room for those that leave */
    int32_t n_exchanges;
    int64_t n_by_class[BW_N_STATUS]; /* answers by hundreds of their status */
    int64_t n_jobs, n_gone, n_refused, n_bytes;
};

/* Whose page sent a request: none, one of this server, one that may, another. */
typedef enum bw_origin { BW_ORIGIN_NONE, BW_ORIGIN_SAME, BW_ORIGIN_ALLOWED, BW_ORIGIN_FOREIGN } bw_origin;

/* One HTTP exchange. */
typedef struct bw_http {
    bw_server *server;
    struct MHD_Connection *conn;
    bw_peer *peer;
    char method[16];
    char *path;
    const struct bw_route *route; /* NULL: none */
    const char *rest;             /* UNDER and JOB: the id, within path */
    size_t rest_bytes;
    const struct bw_route *same_path; /* and of the path with another method */
    bw_reply early;                   /* decided from the head alone; status 0 = none */
    bw_origin origin;
    char allow[64]; /* for 405 */
    bw_str body;
    bool too_large;
    bool close;  /* the connection ends with this answer */
    bw_job *job; /* a reference: this exchange waits for or streams it */
    bw_pipe *stream;
    bool answered;
    bool settled; /* the request was read, and libmicrohttpd knows */
    char job_id[64];
    unsigned status;
    uint64_t n_uploaded;
    uint64_t n_bytes; /* of whole answers */
    int64_t start_ns;
    bool authorised;
} bw_http;

/* ---- jobs (job.c) ---- */

/* Takes over *body (also on failure). NULL: no memory. One reference. */
bw_job *bw_job_new(bw_server *server, bw_ask_api api, bw_str *body, uint64_t client);
/* Hold or submit, once its ask is read. false: *reply says why, nothing happens any more. */
bool bw_job_start(bw_job *job, bw_reply *reply);

/* Room for one more rbee job, with the server's lock (job_room.c). Jobs that were read give way to it first; then, when
 * its client has less than its share, a finished one of the client that has most and more than its share. Nobody else
 * loses what he has not fetched. One client has at most three quarters. *evicted: those that were given up, linked by
 * known_next, each with a reference for the caller, also when there is no room; then `why` says so. */
bool bw_job_make_room(const bw_job *job, bw_job **evicted, char *why, size_t why_bytes);
/* true: it was findable, and the list's reference is now the caller's. */
bool bw_job_unlist_known(bw_job *job);

/* All choices or none; BW_E_FULL: nothing happened, and it may be tried again. */
bw_status bw_job_submit(bw_job *job, bw_engine *engine, bw_err *err);
/* Its state and the last bytes of its stream. Hub thread, or whoever has just taken it off the held ones; the stream's
 * lock is not held. */
void bw_job_end(bw_job *job);
/* Ask for the end; false when it had ended or was cancelled before. */
bool bw_job_cancel(bw_job *job);
/* A reference, or NULL. */
bw_job *bw_job_find(bw_server *server, const char *id, size_t n_bytes);
/* On a thread of bw_prep, for one that is held: submit it, or leave it held while there is no room. */
void bw_job_submit_held(bw_job *job);
/* The server's lock is held. true: it was among the held, and their reference is now the caller's. */
bool bw_job_unlist_held(bw_job *job);
/* Hub thread: submit what is held, as far as there is room; the tick does this and drops what expired. */
void bw_jobs_submit_held(bw_server *server);
void bw_jobs_tick(bw_server *server);
/* The server's end. Cancel all; once the hub has stopped, tell the clients of those whose engine did not react in time;
 * once no exchange is left, free everything. */
void bw_jobs_cancel_all(bw_server *server);
void bw_jobs_end_all(bw_server *server);
void bw_jobs_forget_all(bw_server *server);
/* Take the model's folder out of a sentence, in place: clients need not know where it lies. */
void bw_server_hide_folder(const bw_server *server, char *text);
/* 503, to come again in a second. */
void bw_job_reply_busy(const bw_job *job, bw_reply *reply, const char *why);
/* What an engine's refusal means to a client. */
void bw_job_reply_failure(const bw_job *job, const bw_err *err, bw_reply *reply);

/* ---- their reading (prep.c) ---- */

/* Before any work is put into it: false when it would be refused, *reply says why. */
bool bw_job_has_room(bw_job *job, bw_reply *reply);
/* Read the body, then hold or submit; the connection that waits is woken. What is refused gets its reply. One that was
 * read before is held, and to be submitted. */
void bw_job_prepare(bw_job *job);
/* With a reply for it that refuses it. */
void bw_job_refuse(bw_job *job, bw_reply *reply);

/* ---- output (format_*.c): job->stream.lock is held ---- */

void bw_format_begin(bw_job *job);
void bw_format_event(bw_job *job, bw_choice *choice, const bw_event *event);
/* All choices have ended: the terminator of a stream, or job->reply. */
void bw_format_end(bw_job *job);
void bw_format_rbee_begin(bw_job *job);
void bw_format_rbee_event(bw_job *job, const bw_event *event);
void bw_format_rbee_end(bw_job *job);
/* A number or null. */
void bw_format_number(bw_str *out, double value);

/* ---- connections (door.c) ---- */

/* Bind and count the places; then, once there are daemons to hand connections to, accept. Shut: nobody comes in any
 * more; free, once the daemons are gone. Both allow that opening failed. */
bw_status bw_door_open(bw_server *server, bw_err *err);
bw_status bw_door_start(bw_server *server, bw_err *err);
void bw_door_shut(bw_server *server);
void bw_door_free(bw_server *server);
/* Look up soon: there may be a place. */
void bw_door_ring(bw_server *server);
/* Hub thread: close connections that are late or do not read. */
void bw_door_tick(bw_server *server, int64_t now_ns);
void bw_door_connection(void *server, struct MHD_Connection *conn, void **state,
                        enum MHD_ConnectionNotificationCode code);
/* The same for all connections of one client, now and later. peer NULL: 0. */
uint64_t bw_peer_client(const bw_peer *peer);
/* A connection's turn changes; limit_ms 0: for as long as it takes. peer NULL is allowed. */
void bw_peer_enter(bw_server *server, bw_peer *peer, bw_peer_state state, int64_t limit_ms);

/* ---- what a head must be (guard.c) ---- */

/* false: two servers in a row might disagree on where this request ends (RFC 9112, 6.3 and 11.2: request smuggling).
 * Such are two lengths, a length and an encoding, an unknown encoding, a folded line and odd names. Or *repeated, else
 * NULL, is the name of a header that stands more than once and may not. */
bool bw_guard_head(struct MHD_Connection *conn, const char **repeated);
/* For libmicrohttpd: what stands for bytes in a path or query becomes these, in place, and the new length is returned.
 * %00 stays as it is: the text would end there, and what follows would be looked at by nobody. */
size_t bw_guard_unescape(void *user, struct MHD_Connection *conn, char *text);
/* Lists are divided by commas: origins such as http://localhost:3000, names of hosts; * is all. BW_E_ARG: which not. */
bw_status bw_guard_check_lists(const char *cors, const char *hosts, bw_err *err);
/* May a request be addressed to this host? localhost, addresses, the name that was bound, and those allowed: a page's
 * own name that was made to resolve to this machine (DNS rebinding) is none of them. host: the header, or NULL. */
bool bw_guard_host(const char *allowed, const char *bound, const char *host);
/* origin and host: the headers, or NULL. */
bw_origin bw_guard_origin(const char *cors, const char *origin, const char *host);

/* ---- HTTP (http.c, handlers.c, metrics.c) ---- */

typedef enum MHD_Result bw_mhd_result;
typedef struct bw_route {
    const char *method, *path;
    enum { BW_MATCH_EXACT, BW_MATCH_UNDER, BW_MATCH_JOB } match;
    bw_mhd_result (*handler)(bw_http *http);
    enum { BW_BODY_NONE, BW_BODY_JSON } body;
    enum { BW_ERROR_TEXT, BW_ERROR_OPENAI } error;
} bw_route;

bw_mhd_result bw_http_access(void *server, struct MHD_Connection *conn, const char *url, const char *method,
                             const char *version, const char *upload_data, size_t *upload_data_size, void **state);
void bw_http_completed(void *server, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode why);
/* Answer; the reply is consumed. */
bw_mhd_result bw_http_reply(bw_http *http, bw_reply *reply);
/* Answer with a stream of events; the exchange keeps a reference of its own. */
bw_mhd_result bw_http_stream(bw_http *http, bw_pipe *stream);
/* The row for a method and a path. NULL: none; then *same_path is some row of that path for another method, or NULL,
 * and allow names the methods. */
const bw_route *bw_route_find(const char *method, const char *path, const char **rest, size_t *rest_bytes,
                              const bw_route **same_path, char allow[64]);

void bw_watchers_tick(bw_server *server, int64_t now_ns);
/* What this process holds of the GPU's memory; 0 without one, and without a model (NULL). */
int64_t bw_server_vram_bytes(bw_engine *engine);
void bw_metrics_write(bw_server *server, bw_str *out);
void bw_server_get_backend(bw_server *server, bw_backend *backend);
/* starting, ready, busy or stopping. */
const char *bw_server_status_name(bw_server *server);
/* {"id":..,"model_id":..,...} of the worker contract. */
void bw_server_write_worker(bw_server *server, const char *model_id, bw_str *out);

/* ---- heartbeats (heartbeat.c) ---- */

bw_status bw_heartbeat_start(bw_server *server, struct bw_heartbeat **heartbeat, bw_err *err);
/* The status may have changed: if so, send one soon, but no more than two a second. NULL is allowed. */
void bw_heartbeat_poke(struct bw_heartbeat *heartbeat);
/* Begin the end: a last one is sent, for at most a few hundred milliseconds. Then wait for it and free. NULL is allowed
 * in both. */
void bw_heartbeat_end(struct bw_heartbeat *heartbeat);
void bw_heartbeat_free(struct bw_heartbeat *heartbeat);

#endif
