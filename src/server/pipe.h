/* A pipe: bytes, mostly a stream of events, that one thread writes and one HTTP connection reads; and the hub thread
 * that looks after all of them.
 *
 * The hub owns one thread. It runs jobs that were marked (their sessions have something to say), notices clients that
 * went away (libmicrohttpd itself does not look at suspended connections) and ticks twice a second.
 *
 * A client that closed and one that only ended its own sending look alike: a FIN came. So after one the client is sent
 * something harmless, at once and then ever more rarely. Who closed answers with a reset, which means gone; who still
 * reads finds a comment in its stream or, before any answer, "100 Continue", which HTTP/1.1 lets clients skip. Clients
 * of HTTP/1.0 know no such thing, and are gone.
 *
 * Lock order: server, then stream, then hub. Nothing of the engine is called with the hub's lock held, and notify
 * callbacks take the hub's lock only, so an engine may call them with its own locks held. */
#ifndef BW_SERVER_PIPE_H
#define BW_SERVER_PIPE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "bw_err.h"
#include "bw_str.h"

typedef struct bw_hub bw_hub;

typedef struct bw_pipe {
    pthread_mutex_t lock; /* guards all below, and what the embedding structure says it guards */
    atomic_int refs;
    bw_hub *hub;
    bw_str out; /* bytes [pos, out.len) wait for the reader */
    size_t pos;
    uint64_t n_sent;
    bool finished; /* nothing will be appended any more */
    bool gone;     /* the client went away */
    struct MHD_Connection *conn;
    bool suspended;
    uint64_t watch_id; /* 0 = not watched */
    bool begun;        /* its bytes are an answer's body already */
    bool interim;      /* the client knows HTTP/1.1's interim answers */
    bool marked;       /* in the hub's list of work (guarded by the hub's lock) */
    struct bw_pipe *next_marked;
    void (*on_work)(struct bw_pipe *stream);    /* hub thread: it was marked */
    void (*on_gone)(struct bw_pipe *stream);    /* hub thread: the client went away; may be NULL */
    void (*on_destroy)(struct bw_pipe *stream); /* the last reference went; frees the embedding structure */
} bw_pipe;

/* One reference, held by the caller. false: no memory. */
bool bw_pipe_init(bw_pipe *stream, bw_hub *hub);
void bw_pipe_ref(bw_pipe *stream);
void bw_pipe_unref(bw_pipe *stream);
/* The lock must be held: let the connection look at the stream again. */
void bw_pipe_wake(bw_pipe *stream);
/* Tie to a connection and watch its client. fd < 0: no watching. */
void bw_pipe_attach(bw_pipe *stream, struct MHD_Connection *conn, int fd);
/* The connection is done with it. Idempotent. */
void bw_pipe_detach(bw_pipe *stream);
/* The lock must be held, on the connection's own thread: stop reading until bw_pipe_wake. */
void bw_pipe_suspend(bw_pipe *stream);
/* A libmicrohttpd content reader over a bw_pipe. */
ssize_t bw_pipe_read(void *stream, uint64_t pos, char *buffer, size_t max);

/* tick runs on the hub's thread about twice a second, and after `bw_hub_wake`. */
bw_status bw_hub_new(void (*tick)(void *user), void *user, bw_hub **hub, bw_err *err);
/* Joins the thread; marking stays possible. Then free: what is still marked is dropped. NULL is allowed. */
void bw_hub_stop(bw_hub *hub);
void bw_hub_free(bw_hub *hub);
void bw_hub_wake(bw_hub *hub);
/* Have on_work called soon, once however often it is marked. Safe from any thread. */
void bw_hub_mark(bw_pipe *stream);

#endif
