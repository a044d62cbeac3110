/* Streams and the hub; see pipe.h. */
#include "pipe.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_mem.h"

typedef struct watch {
    uint64_t id;
    int fd;
    bw_pipe *stream;
    int64_t probe_ns, wait_ns; /* a FIN came: when to send something, and how long to wait then; 0 = none came */
} watch;

struct bw_hub {
    pthread_mutex_t lock;
    pthread_t thread;
    bool quit, tick_soon;
    int epoll_fd, event_fd;
    bw_pipe *first, *last; /* marked, each with a reference */
    watch *watches;        /* [n_watches] */
    size_t n_watches, cap_watches;
    uint64_t next_id;
    void (*tick)(void *user);
    void *user;
};

enum { TICK_MS = 500, FIRST_WAIT_MS = 1000 };

/* ---- streams ---- */

bool bw_pipe_init(bw_pipe *stream, bw_hub *hub)
{
    *stream = (bw_pipe){.hub = hub, .interim = true};
    atomic_init(&stream->refs, 1);
    return pthread_mutex_init(&stream->lock, NULL) == 0;
}

void bw_pipe_ref(bw_pipe *stream)
{
    atomic_fetch_add(&stream->refs, 1);
}

void bw_pipe_unref(bw_pipe *stream)
{
    if (!stream || atomic_fetch_sub(&stream->refs, 1) != 1)
        return;
    bw_str_deinit(&stream->out);
    pthread_mutex_destroy(&stream->lock);
    stream->on_destroy(stream);
}

void bw_pipe_wake(bw_pipe *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->conn);
}

void bw_pipe_suspend(bw_pipe *stream)
{
    MHD_suspend_connection(stream->conn);
    stream->suspended = true;
}

static void hub_watch(bw_hub *hub, bw_pipe *stream, int fd)
{
    pthread_mutex_lock(&hub->lock);
    if (bw_reserve((void **)&hub->watches, &hub->cap_watches, hub->n_watches + 1, sizeof *hub->watches)) {
        uint64_t id = ++hub->next_id;
        struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = id};
        if (epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
            hub->watches[hub->n_watches++] = (watch){id, fd, stream, 0, 0};
            stream->watch_id = id;
        }
    }
    pthread_mutex_unlock(&hub->lock); /* unwatched, a lost client is noticed at the next write instead */
}

static void hub_unwatch(bw_hub *hub, uint64_t id)
{
    pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < hub->n_watches; i++) {
        if (hub->watches[i].id == id) {
            epoll_ctl(hub->epoll_fd, EPOLL_CTL_DEL, hub->watches[i].fd, NULL);
            hub->watches[i] = hub->watches[--hub->n_watches];
            break;
        }
    }
    pthread_mutex_unlock(&hub->lock);
}

void bw_pipe_attach(bw_pipe *stream, struct MHD_Connection *conn, int fd)
{
    pthread_mutex_lock(&stream->lock);
    stream->conn = conn;
    if (fd >= 0 && !stream->watch_id)
        hub_watch(stream->hub, stream, fd);
    pthread_mutex_unlock(&stream->lock);
}

void bw_pipe_detach(bw_pipe *stream)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t id = stream->watch_id;
    stream->watch_id = 0;
    stream->conn = NULL;
    stream->suspended = false;
    pthread_mutex_unlock(&stream->lock);
    if (id)
        hub_unwatch(stream->hub, id);
}

ssize_t bw_pipe_read(void *user, uint64_t pos, char *buffer, size_t max)
{
    bw_pipe *stream = user;
    (void)pos;
    ssize_t result = 0;
    pthread_mutex_lock(&stream->lock);
    size_t n = stream->out.len - stream->pos;
    if (stream->gone || stream->out.failed) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n > 0) {
        n = n < max ? n : max;
        memcpy(buffer, stream->out.data + stream->pos, n);
        stream->pos += n;
        stream->n_sent += n;
        result = (ssize_t)n;
        if (stream->pos == stream->out.len) {
            bw_str_clear(&stream->out);
            stream->pos = 0;
        } else if (stream->pos > 65536 && stream->pos > stream->out.len / 2) {
            stream->out.len -= stream->pos;
            memmove(stream->out.data, stream->out.data + stream->pos, stream->out.len);
            stream->pos = 0;
        }
    } else if (stream->finished) {
        bw_str_deinit(&stream->out); /* a job is remembered for a while, its buffer need not be */
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        bw_pipe_suspend(stream);
    }
    pthread_mutex_unlock(&stream->lock);
    return result;
}

/* ---- the hub ---- */

static void ring(bw_hub *hub)
{
    uint64_t one = 1;
    ssize_t n = write(hub->event_fd, &one, sizeof one);
    (void)n; /* EAGAIN: it is awake already */
}

void bw_hub_wake(bw_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    hub->tick_soon = true;
    pthread_mutex_unlock(&hub->lock);
    ring(hub);
}

void bw_hub_mark(bw_pipe *stream)
{
    bw_hub *hub = stream->hub;
    pthread_mutex_lock(&hub->lock);
    if (!stream->marked) {
        bool was_empty = hub->first == NULL;
        stream->marked = true;
        stream->next_marked = NULL;
        bw_pipe_ref(stream);
        if (was_empty)
            hub->first = stream;
        else
            hub->last->next_marked = stream;
        hub->last = stream;
        if (was_empty)
            ring(hub); /* under the lock: a stream may end the moment it is released */
    }
    pthread_mutex_unlock(&hub->lock);
}

static void hub_run_marked(bw_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    bw_pipe *stream = hub->first;
    hub->first = hub->last = NULL;
    pthread_mutex_unlock(&hub->lock);
    while (stream) {
        pthread_mutex_lock(&hub->lock);
        bw_pipe *next = stream->next_marked;
        stream->marked = false;
        pthread_mutex_unlock(&hub->lock);
        if (stream->on_work)
            stream->on_work(stream);
        bw_pipe_unref(stream);
        stream = next;
    }
}

static void hub_lost_client(bw_hub *hub, uint64_t id)
{
    bw_pipe *stream = NULL;
    pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < hub->n_watches && !stream; i++)
        if (hub->watches[i].id == id)
            stream = hub->watches[i].stream;
    if (stream)
        bw_pipe_ref(stream); /* the connection holds another until it is unwatched, so this one is not the first */
    pthread_mutex_unlock(&hub->lock);
    if (!stream)
        return;
    if (stream->on_gone)
        stream->on_gone(stream);
    pthread_mutex_lock(&stream->lock);
    stream->gone = true;
    bw_pipe_wake(stream);
    pthread_mutex_unlock(&stream->lock);
    bw_pipe_unref(stream);
}

/* Say something that only a client that closed minds. The stream's lock is held. false: not now. */
static bool probe(bw_pipe *stream, int fd)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!stream->conn || stream->finished)
        return true;
    if (!stream->suspended)
        return false; /* its own thread is about to write */
    if (!stream->begun)
        return send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    bw_str_add(&stream->out, ": still there?\n\n");
    bw_pipe_wake(stream);
    return true;
}

/* A FIN came from this client, now or earlier: is it gone? */
static void hub_probe(bw_hub *hub, uint64_t id, int64_t now_ns)
{
    bw_pipe *stream = NULL;
    int fd = -1;
    pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < hub->n_watches && !stream; i++) {
        watch *w = &hub->watches[i];
        if (w->id != id)
            continue;
        stream = w->stream;
        fd = w->fd;
        if (!w->wait_ns) { /* from now on only resets and errors wake us */
            struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = id};
            epoll_ctl(hub->epoll_fd, EPOLL_CTL_MOD, fd, &event);
            w->wait_ns = (int64_t)FIRST_WAIT_MS * 1000000;
            w->probe_ns = now_ns;
        }
    }
    if (stream)
        bw_pipe_ref(stream);
    pthread_mutex_unlock(&hub->lock);
    if (!stream)
        return;
    pthread_mutex_lock(&stream->lock);
    const bool mute = !stream->begun && !stream->interim;
    const bool said = stream->watch_id == id && !mute && probe(stream, fd);
    pthread_mutex_unlock(&stream->lock);
    bw_pipe_unref(stream);
    if (mute)
        hub_lost_client(hub, id);
    pthread_mutex_lock(&hub->lock);
    for (size_t i = 0; i < hub->n_watches && said; i++) {
        if (hub->watches[i].id != id)
            continue;
        hub->watches[i].probe_ns = now_ns + hub->watches[i].wait_ns;
        hub->watches[i].wait_ns *= 2;
    }
    pthread_mutex_unlock(&hub->lock);
}

static void hub_probe_again(bw_hub *hub, int64_t now_ns)
{
    for (;;) {
        uint64_t id = 0;
        pthread_mutex_lock(&hub->lock);
        for (size_t i = 0; i < hub->n_watches && !id; i++) {
            watch *w = &hub->watches[i];
            if (!w->wait_ns || now_ns < w->probe_ns)
                continue;
            id = w->id;
            w->probe_ns = now_ns + (int64_t)TICK_MS * 1000000; /* also when nothing can be said now */
        }
        pthread_mutex_unlock(&hub->lock);
        if (!id)
            return;
        hub_probe(hub, id, now_ns);
    }
}

static bool hub_should_quit(bw_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    bool quit = hub->quit;
    pthread_mutex_unlock(&hub->lock);
    return quit;
}

/* Not after every token, but twice a second and when bw_hub_wake asked for it. */
static void hub_tick(bw_hub *hub, int64_t *last_ns)
{
    int64_t now = bw_clock_now_ns();
    pthread_mutex_lock(&hub->lock);
    bool due = hub->tick_soon || now - *last_ns >= (int64_t)TICK_MS * 1000000;
    hub->tick_soon = false;
    pthread_mutex_unlock(&hub->lock);
    if (!due)
        return;
    *last_ns = now;
    hub_probe_again(hub, now);
    hub->tick(hub->user);
}

static void *hub_main(void *arg)
{
    bw_hub *hub = arg;
    int64_t last_tick = 0;
    while (!hub_should_quit(hub)) {
        struct epoll_event events[64];
        int n = epoll_wait(hub->epoll_fd, events, 64, TICK_MS);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.u64 != 0 && !(events[i].events & (EPOLLHUP | EPOLLERR)))
                hub_probe(hub, events[i].data.u64, bw_clock_now_ns());
            else if (events[i].data.u64 != 0)
                hub_lost_client(hub, events[i].data.u64);
            else if (read(hub->event_fd, &count, sizeof count) < 0)
                continue; /* EAGAIN: nobody rang */
        }
        hub_run_marked(hub);
        hub_tick(hub, &last_tick);
    }
    return NULL;
}

bw_status bw_hub_new(void (*tick)(void *user), void *user, bw_hub **out, bw_err *err)
{
    *out = NULL;
    bw_hub *hub = bw_alloc_zero(1, sizeof *hub);
    if (!hub)
        return bw_fail_memory(err, sizeof *hub, "the server's hub");
    pthread_mutex_init(&hub->lock, NULL);
    hub->tick = tick;
    hub->user = user;
    hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    hub->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    int failed =
        hub->epoll_fd < 0 || hub->event_fd < 0 || epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, hub->event_fd, &event) != 0
            ? errno
            : pthread_create(&hub->thread, NULL, hub_main, hub);
    if (failed) {
        if (hub->epoll_fd >= 0)
            close(hub->epoll_fd);
        if (hub->event_fd >= 0)
            close(hub->event_fd);
        pthread_mutex_destroy(&hub->lock);
        bw_free(hub);
        return bw_fail_errno(err, failed, "cannot start the server's hub thread");
    }
    *out = hub;
    return BW_OK;
}

void bw_hub_stop(bw_hub *hub)
{
    if (!hub)
        return;
    pthread_mutex_lock(&hub->lock);
    hub->quit = true;
    pthread_mutex_unlock(&hub->lock);
    bw_hub_wake(hub);
    pthread_join(hub->thread, NULL);
}

void bw_hub_free(bw_hub *hub)
{
    if (!hub)
        return;
    for (bw_pipe *stream = hub->first; stream;) {
        bw_pipe *next = stream->next_marked;
        bw_pipe_unref(stream);
        stream = next;
    }
    close(hub->epoll_fd);
    close(hub->event_fd);
    bw_free(hub->watches);
    pthread_mutex_destroy(&hub->lock);
    bw_free(hub);
}
