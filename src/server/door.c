/* The door: the listening sockets, a thread that lets connections in, and who must leave. libmicrohttpd serves what it
 * is handed here and never accepts by itself, so that one place knows how many connections there are, whose they are,
 * and whether they do anything. See internal.h.
 *
 * There are only so many places, fewer where this process may open few files. When all are taken, a newcomer gets the
 * place of a connection that only waits: for the rest of a request, or for a client that does not read its answer. The
 * client with most connections loses first, and of its connections the one that has waited longest. Answers under way
 * that the client reads are never cut. Where nobody waits, newcomers stay in the kernel's queue until a place is free.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "internal.h"

enum {
    BACKLOG = 1024,
    MAX_LISTENERS = 8,
    PORT_TRIES = 8,
    PER_TURN = 64,      /* connections let in before the thread looks up */
    PATIENCE_MS = 20,   /* until it looks again whether there is a place */
    GRACE_MS = 100,     /* nobody who waits for less has to leave */
    LOOK_MS = 50,       /* between two looks at who reads */
    LEAST_BYTES = 4096, /* a client that takes fewer within the deadline does not read */
    LEAST_PLACES = 4,
    /* of answers in the kernel for one client. Left alone it takes 4 MB, a thousand answers for one who never reads,
     * and a crowd of those makes everyone wait for seconds while theirs are written. */
    SEND_BYTES = 1 << 16,
    KEPT_FILES = 20 /* for models, devices and heartbeats */
};

/* Whoever shares an address; of IPv6 the first 64 bits. Guarded by the server's lock. */
struct bw_client {
    unsigned char address[16];
    uint32_t n;
    struct bw_client *next;
};

struct bw_door {
    bw_server *server;
    pthread_t thread;
    bool has_thread;
    atomic_bool quit, paused;
    int epoll_fd, event_fd;
    int listeners[MAX_LISTENERS];
    int n_listeners;
    bw_peer **by_fd; /* [n_by_fd], server's lock */
    size_t n_by_fd;
    bw_client *clients;
    int64_t looked_ns, warned_ns;
    size_t turn; /* which daemon is next */
};

/* ---- who is connected; the server's lock is held ---- */

static void read_address(const struct sockaddr_storage *from, unsigned char out[16])
{
    static const unsigned char mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    memset(out, 0, 16);
    if (from->ss_family == AF_INET) {
        memcpy(out, mapped, 12);
        memcpy(out + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        const unsigned char *bytes = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr.s6_addr;
        bool whole = memcmp(bytes, mapped, 12) == 0 || memcmp(bytes, &in6addr_loopback, 16) == 0;
        memcpy(out, bytes, whole ? 16 : 8);
    }
}

/* A proxy in front of many clients, or the only user of a server that nobody else reaches. */
static bool is_this_machine(const bw_client *client)
{
    static const unsigned char v4[16] = {[10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1};
    return memcmp(client->address, v4, 16) == 0 || memcmp(client->address, &in6addr_loopback, 16) == 0;
}

static bw_client *get_client(bw_door *door, const unsigned char address[16])
{
    bw_client *client = door->clients;
    while (client && memcmp(client->address, address, 16) != 0)
        client = client->next;
    if (client)
        return client;
    client = bw_alloc_zero(1, sizeof *client);
    if (!client)
        return NULL;
    memcpy(client->address, address, 16);
    client->next = door->clients;
    door->clients = client;
    return client;
}

static void drop_client(bw_door *door, bw_client *client)
{
    if (--client->n)
        return;
    bw_client **link = &door->clients;
    while (*link != client)
        link = &(*link)->next;
    *link = client->next;
    bw_free(client);
}

static void peer_free(bw_server *server, bw_peer *peer)
{
    server->n_peers--;
    server->n_leaving -= peer->leaving;
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    if (server->door->by_fd[peer->fd] == peer)
        server->door->by_fd[peer->fd] = NULL;
    drop_client(server->door, peer->client);
    bw_free(peer);
}

static bw_peer *peer_new(bw_server *server, int fd, const unsigned char address[16])
{
    bw_door *door = server->door;
    bw_client *client = get_client(door, address);
    if (!client)
        return NULL;
    client->n++;
    bw_peer *peer = bw_alloc_zero(1, sizeof *peer);
    size_t n_before = door->n_by_fd;
    if (!peer || !bw_reserve((void **)&door->by_fd, &door->n_by_fd, (size_t)fd + 1, sizeof *door->by_fd)) {
        drop_client(door, client);
        bw_free(peer);
        return NULL;
    }
    for (size_t i = n_before; i < door->n_by_fd; i++)
        door->by_fd[i] = NULL;
    peer->fd = fd;
    peer->client = client;
    peer->since_ns = bw_clock_now_ns();
    server->n_peers++;
    peer->next = server->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    peer->link = &server->peers;
    server->peers = peer;
    return peer;
}

/* libmicrohttpd then closes it. */
static void show_out(bw_server *server, bw_peer *peer)
{
    shutdown(peer->fd, SHUT_RDWR);
    peer->leaving = true;
    server->n_leaving++;
}

/* ---- who only waits; the server's lock is held ---- */

/* Does the client take what it is sent? It does not when bytes lie unsent because its window is closed, or when none
 * of those that were sent is acknowledged from one look to the next. */
static void look_at_sender(bw_peer *peer, int64_t now_ns)
{
    struct tcp_info info = {0};
    socklen_t n_bytes = sizeof info;
    if (getsockopt(peer->fd, IPPROTO_TCP, TCP_INFO, &info, &n_bytes) != 0)
        return;
    bool moved = info.tcpi_bytes_acked != peer->n_acked;
    if (info.tcpi_notsent_bytes == 0 && (info.tcpi_unacked == 0 || moved)) {
        peer->behind_ns = 0;
        peer->n_acked = info.tcpi_bytes_acked;
        return;
    }
    bool first = peer->behind_ns == 0;
    if (first)
        peer->behind_ns = now_ns;
    if (first || info.tcpi_bytes_acked - peer->n_acked >= LEAST_BYTES) {
        peer->n_acked = info.tcpi_bytes_acked;
        peer->moved_ns = now_ns;
    }
}

static void look_at_senders(bw_server *server, int64_t now_ns)
{
    if (now_ns - server->door->looked_ns < (int64_t)LOOK_MS * 1000000)
        return;
    server->door->looked_ns = now_ns;
    for (bw_peer *peer = server->peers; peer; peer = peer->next)
        if (peer->state == BW_PEER_ANSWER && !peer->leaving)
            look_at_sender(peer, now_ns);
}

/* Since when it has waited, or now. */
static int64_t waits_since(const bw_peer *peer, int64_t now_ns)
{
    switch (peer->state) {
    case BW_PEER_HEAD:
    case BW_PEER_BODY:
    case BW_PEER_WATCH:
        return peer->since_ns;
    case BW_PEER_ANSWER:
        return peer->behind_ns ? peer->behind_ns : now_ns;
    case BW_PEER_ARRIVING:
        break;
    }
    return now_ns;
}

/* One who waits; of = NULL: anybody's. */
static bw_peer *find_waiting(bw_server *server, const bw_client *of, int64_t now_ns)
{
    bw_peer *found = NULL;
    int64_t since_ns = 0;
    for (bw_peer *peer = server->peers; peer; peer = peer->next) {
        int64_t waits_ns = waits_since(peer, now_ns);
        if (peer->leaving || now_ns - waits_ns < (int64_t)GRACE_MS * 1000000 || (of && peer->client != of))
            continue;
        if (found &&
            (peer->client->n < found->client->n || (peer->client->n == found->client->n && waits_ns >= since_ns)))
            continue;
        int n_unread = 0;
        if (peer->state == BW_PEER_HEAD && ioctl(peer->fd, FIONREAD, &n_unread) == 0 && n_unread > 0)
            continue; /* its request lies there already */
        found = peer;
        since_ns = waits_ns;
    }
    return found;
}

static bool make_place(bw_server *server, int64_t now_ns)
{
    if (server->n_peers >= server->n_places + server->n_spare)
        return false; /* those who were shown out must be gone first */
    if (server->n_peers - server->n_leaving < server->n_places)
        return true;
    look_at_senders(server, now_ns);
    bw_peer *peer = find_waiting(server, NULL, now_ns);
    if (peer)
        show_out(server, peer);
    return peer != NULL;
}

/* No client but those of this machine has more than three quarters of the places. */
static void check_share(bw_server *server, bw_peer *newcomer, int64_t now_ns)
{
    if (newcomer->client->n <= server->n_places - server->n_places / 4 || is_this_machine(newcomer->client))
        return;
    bw_peer *peer = find_waiting(server, newcomer->client, now_ns);
    if (peer)
        show_out(server, peer);
    else
        newcomer->refused = true;
}

/* ---- what libmicrohttpd and the exchanges tell ---- */

void bw_door_connection(void *user, struct MHD_Connection *conn, void **state, enum MHD_ConnectionNotificationCode code)
{
    bw_server *server = user;
    pthread_mutex_lock(&server->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
        bw_door *door = server->door;
        bw_peer *peer = info && (size_t)info->connect_fd < door->n_by_fd ? door->by_fd[info->connect_fd] : NULL;
        if (peer) {
            peer->state = BW_PEER_HEAD;
            peer->since_ns = bw_clock_now_ns();
            peer->deadline_ns = peer->since_ns + server->options.head_timeout_ms * 1000000;
        }
        *state = peer;
    } else if (*state) {
        peer_free(server, *state);
        *state = NULL;
        if (atomic_load(&server->door->paused))
            bw_door_ring(server);
    }
    pthread_mutex_unlock(&server->lock);
}

uint64_t bw_peer_client(const bw_peer *peer)
{
    uint64_t hash = 0xCBF29CE484222325; /* FNV-1a */
    for (int i = 0; peer && i < 16; i++)
        hash = (hash ^ peer->client->address[i]) * 0x100000001B3;
    return peer ? hash : 0;
}

void bw_peer_enter(bw_server *server, bw_peer *peer, bw_peer_state state, int64_t limit_ms)
{
    if (!peer)
        return;
    pthread_mutex_lock(&server->lock);
    peer->state = state;
    peer->since_ns = bw_clock_now_ns();
    peer->deadline_ns = limit_ms ? peer->since_ns + limit_ms * 1000000 : 0;
    peer->behind_ns = 0;
    pthread_mutex_unlock(&server->lock);
}

void bw_door_tick(bw_server *server, int64_t now_ns)
{
    const int64_t limit_ns = server->options.send_timeout_ms * 1000000;
    pthread_mutex_lock(&server->lock);
    look_at_senders(server, now_ns);
    for (bw_peer *peer = server->peers; peer; peer = peer->next) {
        bool late = peer->deadline_ns && now_ns > peer->deadline_ns;
        bool stuck = peer->state == BW_PEER_ANSWER && peer->behind_ns && now_ns - peer->moved_ns > limit_ns;
        if (!peer->leaving && (late || stuck))
            show_out(server, peer);
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- letting in ---- */

void bw_door_ring(bw_server *server)
{
    uint64_t one = 1;
    ssize_t n = write(server->door->event_fd, &one, sizeof one);
    (void)n; /* EAGAIN: it is awake already */
}

static void set_listening(bw_door *door, bool on)
{
    for (int i = 0; i < door->n_listeners; i++) {
        struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.fd = door->listeners[i]};
        epoll_ctl(door->epoll_fd, EPOLL_CTL_MOD, door->listeners[i], &event);
    }
}

/* The process has no file left, though places were counted: others took them. */
static void shed_for_files(bw_door *door, int why)
{
    bw_server *server = door->server;
    int64_t now_ns = bw_clock_now_ns();
    pthread_mutex_lock(&server->lock);
    look_at_senders(server, now_ns);
    bw_peer *peer = server->n_leaving ? NULL : find_waiting(server, NULL, now_ns);
    if (peer)
        show_out(server, peer);
    pthread_mutex_unlock(&server->lock);
    if (door->warned_ns == 0 || now_ns - door->warned_ns > 60000000000) {
        door->warned_ns = now_ns;
        bw_log_warn("a connection cannot be accepted: %s; raise the limit of open files (ulimit -n)", strerror(why));
    }
}

static void let_in(bw_door *door, int fd, const struct sockaddr_storage *from, socklen_t n_bytes)
{
    bw_server *server = door->server;
    unsigned char address[16];
    read_address(from, address);
    int on = 1, room = SEND_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    pthread_mutex_lock(&server->lock);
    if ((size_t)fd < door->n_by_fd && door->by_fd[fd])
        peer_free(server, door->by_fd[fd]); /* libmicrohttpd closed it without a word */
    bw_peer *peer = peer_new(server, fd, address);
    if (peer) {
        check_share(server, peer, peer->since_ns);
        door->by_fd[fd] = peer;
    }
    pthread_mutex_unlock(&server->lock);
    if (!peer) {
        close(fd);
        return;
    }
    if (MHD_add_connection(server->daemons[door->turn++ % server->options.n_threads], fd, (const struct sockaddr *)from,
                           n_bytes) == MHD_YES)
        return;
    pthread_mutex_lock(&server->lock); /* it has closed the socket */
    peer_free(server, peer);
    pthread_mutex_unlock(&server->lock);
}

/* false: there is no place now. */
static bool accept_from(bw_door *door, int listener)
{
    bw_server *server = door->server;
    for (int i = 0; i < PER_TURN && !atomic_load(&door->quit); i++) {
        struct sockaddr_storage from = {0};
        socklen_t n_bytes = sizeof from;
        pthread_mutex_lock(&server->lock);
        bool room = make_place(server, bw_clock_now_ns());
        pthread_mutex_unlock(&server->lock);
        if (!room)
            return false;
        int fd = accept4(listener, (struct sockaddr *)&from, &n_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            let_in(door, fd, &from, n_bytes);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            shed_for_files(door, errno);
            return false;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return true; /* EAGAIN: that was all */
        }
    }
    return true;
}

static void *door_main(void *arg)
{
    bw_door *door = arg;
    while (!atomic_load(&door->quit)) {
        struct epoll_event events[MAX_LISTENERS + 1];
        bool paused = atomic_load(&door->paused);
        int n = epoll_wait(door->epoll_fd, events, MAX_LISTENERS + 1, paused ? PATIENCE_MS : -1);
        uint64_t count;
        ssize_t n_read = read(door->event_fd, &count, sizeof count);
        (void)n_read; /* EAGAIN: nobody rang */
        if (paused) {
            atomic_store(&door->paused, false);
            set_listening(door, true);
            continue;
        }
        for (int i = 0; i < n && !atomic_load(&door->paused); i++) {
            if (events[i].data.fd != door->event_fd && !accept_from(door, events[i].data.fd)) {
                atomic_store(&door->paused, true);
                set_listening(door, false);
            }
        }
    }
    return NULL;
}

/* ---- places ---- */

static uint64_t count_open_files(void)
{
    uint64_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n ? n : 16;
}

static void count_places(bw_server *server)
{
    uint32_t wished = server->options.max_connections, places = wished;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        if (files.rlim_cur < files.rlim_max) {
            struct rlimit more = {files.rlim_max, files.rlim_max};
            if (setrlimit(RLIMIT_NOFILE, &more) == 0)
                files = more;
        }
        uint64_t kept = count_open_files() + KEPT_FILES + (files.rlim_cur / 16 < 256 ? files.rlim_cur / 16 : 256);
        uint64_t left = files.rlim_cur > kept ? files.rlim_cur - kept : 0;
        if (left < wished + wished / 8)
            places = (uint32_t)(left - left / 8);
        if (places < LEAST_PLACES)
            places = LEAST_PLACES < wished ? LEAST_PLACES : wished;
        if (places < wished)
            bw_log_warn("at most %u connections at once, not %u: this process may open %llu files (ulimit -n)", places,
                        wished, (unsigned long long)files.rlim_cur);
    }
    server->n_places = places;
    server->n_spare = places / 8 + 2;
}

/* ---- the sockets ---- */

static void close_listeners(bw_door *door)
{
    for (int i = 0; i < door->n_listeners; i++)
        close(door->listeners[i]);
    door->n_listeners = 0;
}

/* 0, or the errno. *port: 0 = any, and then the one that was taken. */
static int listen_on(bw_door *door, const struct addrinfo *at, bool only_v6, uint16_t *port)
{
    struct sockaddr_storage address = {0};
    socklen_t n_bytes = at->ai_addrlen;
    memcpy(&address, at->ai_addr, n_bytes);
    if (at->ai_family == AF_INET)
        ((struct sockaddr_in *)(void *)&address)->sin_port = htons(*port);
    else
        ((struct sockaddr_in6 *)(void *)&address)->sin6_port = htons(*port);
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (only_v6 && at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (bind(fd, (struct sockaddr *)&address, n_bytes) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n_bytes) != 0 ||
        epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        int why = errno;
        close(fd);
        return why;
    }
    *port = ntohs(at->ai_family == AF_INET ? ((struct sockaddr_in *)(void *)&address)->sin_port
                                           : ((struct sockaddr_in6 *)(void *)&address)->sin6_port);
    door->listeners[door->n_listeners++] = fd;
    return 0;
}

static bool is_repeated(const struct addrinfo *list, const struct addrinfo *at)
{
    for (; list != at; list = list->ai_next)
        if (list->ai_addrlen == at->ai_addrlen && memcmp(list->ai_addr, at->ai_addr, at->ai_addrlen) == 0)
            return true;
    return false;
}

/* Every address of the list that this machine has. 0, or the errno; EADDRINUSE: a port that one was given by chance may
 * be taken on the next. */
static int listen_on_all(bw_door *door, const struct addrinfo *list, uint16_t *port)
{
    int why = 0, missing = 0;
    for (const struct addrinfo *at = list; at && !why && door->n_listeners < MAX_LISTENERS; at = at->ai_next) {
        if ((at->ai_family != AF_INET && at->ai_family != AF_INET6) || is_repeated(list, at))
            continue;
        why = listen_on(door, at, list->ai_next != NULL, port);
        if (list->ai_next && (why == EADDRNOTAVAIL || why == EAFNOSUPPORT)) { /* no IPv6 here, say */
            missing = why;
            why = 0;
        }
    }
    if (!why && door->n_listeners == 0)
        why = missing ? missing : EADDRNOTAVAIL;
    if (why)
        close_listeners(door);
    return why;
}

static bw_status open_sockets(bw_door *door, bw_err *err)
{
    bw_server *server = door->server;
    const char *host = server->options.host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    if (strcasecmp(host, "localhost") == 0) { /* no name at all: the loopback addresses of both kinds */
        host = NULL;
        hints.ai_flags = 0;
    }
    int failed = getaddrinfo(host, "0", &hints, &list), why = EADDRINUSE;
    host = server->options.host;
    if (failed)
        return bw_fail(err, BW_E_ARG, "'%s' is no address of this machine to listen on: %s; try 127.0.0.1 or 0.0.0.0",
                       host, gai_strerror(failed));
    for (int i = 0; i < PORT_TRIES && why == EADDRINUSE && (i == 0 || !server->options.port); i++) {
        server->port = server->options.port;
        why = listen_on_all(door, list, &server->port);
    }
    freeaddrinfo(list);
    return why ? bw_fail_errno(err, why, "cannot bind %s port %u", host, server->options.port) : BW_OK;
}

bw_status bw_door_open(bw_server *server, bw_err *err)
{
    bw_door *door = bw_alloc_zero(1, sizeof *door);
    if (!door)
        return bw_fail_memory(err, sizeof *door, "the server's door");
    server->door = door;
    door->server = server;
    door->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    door->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = door->event_fd};
    if (door->epoll_fd < 0 || door->event_fd < 0 ||
        epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, door->event_fd, &event) != 0)
        return bw_fail_errno(err, errno, "cannot prepare for connections");
    count_places(server);
    return open_sockets(door, err);
}

bw_status bw_door_start(bw_server *server, bw_err *err)
{
    bw_door *door = server->door;
    int failed = pthread_create(&door->thread, NULL, door_main, door);
    door->has_thread = failed == 0;
    return failed ? bw_fail_errno(err, failed, "cannot start the thread that accepts connections") : BW_OK;
}

void bw_door_shut(bw_server *server)
{
    bw_door *door = server->door;
    if (!door)
        return;
    atomic_store(&door->quit, true);
    if (door->has_thread) {
        bw_door_ring(server);
        pthread_join(door->thread, NULL);
        door->has_thread = false;
    }
    close_listeners(door);
}

void bw_door_free(bw_server *server)
{
    bw_door *door = server->door;
    if (!door)
        return;
    while (server->peers) /* whatever libmicrohttpd never took */
        peer_free(server, server->peers);
    if (door->epoll_fd >= 0)
        close(door->epoll_fd);
    if (door->event_fd >= 0)
        close(door->event_fd);
    bw_free(door->by_fd);
    bw_free(door);
    server->door = NULL;
}
