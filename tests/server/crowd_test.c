/* Clients that take places and do nothing with them: who must leave, who may stay, and that others get in. */
#include "../bw_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "bw_server.h"
#include "client.h"
#include "mock_engine.h"

static bw_engine *engine;
static bw_server *server;
static uint16_t port;

static void start_server(bw_server_options *options)
{
    bw_err err = {0};
    bw_engine_options eo;
    bw_engine_options_init(&eo);
    assert_ok(bw_engine_new(&eo, &engine, &err), err);
    options->engine = engine;
    assert_ok(bw_server_start(options, &server, &err), err);
    port = bw_server_port(server);
}

static void start_with(uint32_t max_connections, int64_t send_timeout_ms)
{
    bw_server_options options;
    bw_server_options_init(&options);
    options.max_connections = max_connections;
    options.send_timeout_ms = send_timeout_ms;
    start_server(&options);
}

static void start_jobs(uint32_t max_jobs)
{
    bw_server_options options;
    bw_server_options_init(&options);
    options.max_jobs = max_jobs;
    start_server(&options);
}

static void wait_until_idle(void)
{
    for (int i = 0; i < 2000 && bw_server_count_active(server); i++)
        bw_clock_sleep_ms(1);
    assert_int_equal(bw_server_count_active(server), 0);
}

/* With deadlines that do not come to the rescue. */
static int start_patient(void **state)
{
    (void)state;
    start_with(96, 60000);
    return 0;
}

static int start_small(void **state)
{
    (void)state;
    start_with(8, 60000);
    return 0;
}

/* A client must read within half a second. */
static int start_impatient(void **state)
{
    (void)state;
    start_with(96, 500);
    return 0;
}

static void assert_alive(void)
{
    answer a;
    client_ask(port, "POST", "/v1/completions", "", "{\"prompt\":\"alive\",\"max_tokens\":1}", &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body.data, "\"text\":\" alive\""));
    answer_deinit(&a);
}

static int stop(void **state)
{
    (void)state;
    assert_alive();
    for (int i = 0; i < 400 && bw_server_count_active(server); i++)
        bw_clock_sleep_ms(5);
    assert_int_equal(bw_server_count_active(server), 0);
    bw_server_stop(server);
    assert_int_equal(mock_live_sessions(), 0);
    bw_engine_free(engine);
    return 0;
}

/* A stream of n tokens, one every so often. */
static void ask_stream(int fd, int ms, int n)
{
    char body[100], text[300];
    snprintf(body, sizeof body, "{\"prompt\":\"tick @slow=%d\",\"max_tokens\":%d,\"stream\":true}", ms, n);
    int n_bytes = snprintf(text, sizeof text,
                           "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                           strlen(body), body);
    assert_true(client_send(fd, text, (size_t)n_bytes));
}

/* Ask again and again without reading, until neither side's buffers take more. false: the server closed. */
static bool ask_without_reading(int fd)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (int i = 0; i < 3000; i++) {
        ssize_t n = send(fd, request, sizeof request - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        if (n < (ssize_t)sizeof request - 1)
            return true;
    }
    return true;
}

/* A client with small buffers, so that it is behind soon. */
static int connect_small(void)
{
    int fd = client_connect(port), small = 4096;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    return fd;
}

/* Every place is taken by connections that ask all the time and never read an answer. */
static void test_unread_crowd(void **state)
{
    (void)state;
    int fds[120];
    for (int i = 0; i < 120; i++)
        fds[i] = connect_small();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 120; i++)
            ask_without_reading(fds[i]);
        bw_clock_sleep_ms(50);
    }
    for (int i = 0; i < 3; i++) {
        int64_t begin = bw_clock_now_ns();
        assert_alive();
        assert_true(bw_clock_now_ns() - begin < 2000 * (int64_t)1000000);
    }
    for (int i = 0; i < 120; i++)
        close(fds[i]);
}

static double body_bytes(void)
{
    static const char name[] = "\nbeeswax_http_body_bytes_total ";
    answer a;
    client_ask(port, "GET", "/metrics", "", NULL, &a);
    const char *at = strstr(a.body.data, name);
    assert_non_null(at);
    double n = strtod(at + strlen(name), NULL);
    answer_deinit(&a);
    return n;
}

/* Answers that nobody reads are not made by the thousand: the kernel takes few of them. */
static void test_unread_answers(void **state)
{
    (void)state;
    double begin = body_bytes(), last = begin, now = begin;
    int stuck = connect_small();
    for (int still = 0; still < 10;
         still = now - last < 16384 ? still + 1 : 0) { /* asking for it makes a few KB itself */
        last = now;
        ask_without_reading(stuck);
        bw_clock_sleep_ms(20);
        now = body_bytes();
    }
    if (now - begin > 600000)
        fail_msg("%.0f bytes of answers were made for a client that reads none", now - begin);
    close(stuck);
}

/* Without any crowd: who does not read is cut, who waits for slow tokens is not. */
static void test_stuck_reader(void **state)
{
    (void)state;
    int stuck = connect_small(), slow = client_connect(port), waiting = client_connect(port);
    ask_stream(slow, 700, 3);
    client_send(waiting, "GET / HTTP/1.1\r\n", 16); /* not late yet: the deadline of heads is another */
    bool open = true;
    int64_t begin = bw_clock_now_ns();
    while (open && bw_clock_now_ns() - begin < 5000 * (int64_t)1000000) {
        open = ask_without_reading(stuck);
        bw_clock_sleep_ms(20);
    }
    assert_false(open);
    assert_true(bw_clock_now_ns() - begin > 450 * (int64_t)1000000);
    close(stuck);
    answer a;
    client_read(slow, &a, NULL);
    assert_true(a.whole);
    assert_non_null(strstr(a.body.data, "[DONE]"));
    answer_deinit(&a);
    close(slow);
    assert_true(client_send(waiting, "Host: localhost\r\n\r\n", 19));
    client_read(waiting, &a, NULL);
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    close(waiting);
}

static int connect_from(const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval limit = {.tv_sec = 10};
    inet_pton(AF_INET, address, &from.sin_addr);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* One address may hold three quarters of eight places with work under way; the rest is for others. */
static void test_share_of_places(void **state)
{
    (void)state;
    static const char ask[] = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fds[6];
    answer a;
    for (int i = 0; i < 6; i++) {
        fds[i] = connect_from("127.0.0.2");
        ask_stream(fds[i], 20, 400);
        bw_engine_stats stats = {0};
        for (int j = 0; j < 400 && stats.n_running + stats.n_waiting < i + 1; j++) {
            bw_clock_sleep_ms(5);
            bw_engine_get_stats(engine, &stats);
        }
    }
    int more = connect_from("127.0.0.2");
    client_send(more, ask, sizeof ask - 1);
    client_read(more, &a, NULL);
    assert_int_equal(a.status, 503);
    assert_non_null(strstr(a.body.data, "Too many connections from this address"));
    answer_deinit(&a);
    close(more);
    for (int i = 0; i < 3; i++) {
        int other = connect_from("127.0.0.3");
        client_send(other, ask, sizeof ask - 1);
        client_read(other, &a, NULL);
        assert_int_equal(a.status, 200);
        answer_deinit(&a);
        close(other);
    }
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    for (int i = 0; i < 1000 && bw_server_count_active(server); i++)
        bw_clock_sleep_ms(5);
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The process has no file left for another connection: one that waits makes room; where none does nothing spins. */
static void test_no_files(void **state)
{
    (void)state;
    static const char ask[] = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 10};
    int idle = client_connect(port), late[2], taken[600], n_taken = 0;
    answer a;
    for (int i = 0; i < 2; i++) {
        late[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(late[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    }
    bw_clock_sleep_ms(50); /* the idle one is accepted */
    struct rlimit files, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 500;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n_taken < 600 && (taken[n_taken] = dup(late[0])) >= 0)
        n_taken++;
    assert_int_equal(connect(late[0], (struct sockaddr *)&to, sizeof to), 0);
    ask_stream(late[0], 50, 16);
    char byte;
    assert_int_equal(recv(late[0], &byte, 1, MSG_PEEK), 1); /* it got in */
    assert_int_equal(recv(idle, &byte, 1, 0), 0);           /* in the place of the one that only waited */
    assert_int_equal(connect(late[1], (struct sockaddr *)&to, sizeof to), 0);
    client_send(late[1], ask, sizeof ask - 1);
    int64_t cpu = cpu_ms();
    bw_clock_sleep_ms(300);
    assert_true(cpu_ms() - cpu < 150);
    client_read(late[0], &a, NULL);
    assert_true(a.whole);
    answer_deinit(&a);
    client_read(late[1], &a, NULL); /* the first has left */
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    while (n_taken)
        close(taken[--n_taken]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    close(idle);
    close(late[0]);
    close(late[1]);
}

/* A process that may open 64 files, and 120 clients that say nothing. */
static void test_few_files(void **state)
{
    (void)state;
    int ends[2], fds[120];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit few = {32, 64};
        bw_err err = {0};
        bw_server_options options;
        bw_server_options_init(&options);
        bool good = setrlimit(RLIMIT_NOFILE, &few) == 0 && bw_server_start(&options, &server, &err) == BW_OK;
        port = good ? bw_server_port(server) : 0;
        if (write(ends[1], &port, sizeof port) == sizeof port)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ends[0], &port, sizeof port), sizeof port);
    assert_int_not_equal(port, 0);
    for (int i = 0; i < 120; i++)
        fds[i] = client_connect(port);
    for (int i = 0; i < 3; i++) {
        answer a;
        int64_t begin = bw_clock_now_ns();
        client_ask(port, "GET", "/health", "", NULL, &a);
        assert_int_equal(a.status, 200);
        assert_true(bw_clock_now_ns() - begin < 3000 * (int64_t)1000000);
        answer_deinit(&a);
    }
    kill(pid, SIGKILL);
    struct rusage used = {0};
    assert_int_equal(wait4(pid, NULL, 0, &used), pid);
    assert_true((used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
                    used.ru_stime.tv_usec <
                1000000);
    for (int i = 0; i < 120; i++)
        close(fds[i]);
    close(ends[0]);
    close(ends[1]);
}

/* A name stands for each of its addresses. */
static void test_localhost(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_server *named;
    bw_server_options options;
    bw_server_options_init(&options);
    options.host = "localhost";
    assert_ok(bw_server_start(&options, &named, &err), err);
    static const char *const hosts[] = {"127.0.0.1", "::1"};
    int n_reached = 0;
    for (int i = 0; i < 2; i++) {
        int fd = client_connect_to(hosts[i], bw_server_port(named));
        if (fd < 0 && i == 1) {
            print_message("SKIPPED: localhost over IPv6: this machine has none\n");
            continue;
        }
        answer a;
        client_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
        client_read(fd, &a, NULL);
        n_reached += a.status == 200;
        answer_deinit(&a);
        close(fd);
    }
    assert_true(n_reached >= 1);
    bw_server_stop(named);
    options.host = "no such host";
    assert_int_equal(bw_server_start(&options, &named, &err), BW_E_ARG);
    assert_non_null(strstr(err.text, "'no such host' is no address of this machine"));
}

/* The answer to a job's creation; its stream's path goes to url (bw_free). */
static int create_job_of(const char *address, const char *body, char **url)
{
    char request[400];
    answer a;
    int fd = connect_from(address);
    int n = snprintf(request, sizeof request,
                     "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                     strlen(body), body);
    client_send(fd, request, (size_t)n);
    client_read(fd, &a, NULL);
    close(fd);
    int status = a.status;
    if (url)
        *url = json_text(a.body.data, "sse_url");
    answer_deinit(&a);
    return status;
}

static int create_job(const char *address, char **url)
{
    return create_job_of(address, "{\"prompt\":\"a\",\"max_tokens\":1}", url);
}

/* 300 jobs of somebody else: mine, finished and not yet read, is still there. */
static void test_unread_job(void **state)
{
    (void)state;
    char *url = NULL;
    assert_int_equal(create_job("127.0.0.2", &url), 200);
    for (int n = 0, tries = 0; n < 300; tries++) {
        int status = create_job("127.0.0.3", NULL);
        assert_true(tries < 3000 && (status == 200 || status == 503));
        n += status == 200;
        if (status == 503)
            bw_clock_sleep_ms(5); /* the queue is full */
    }
    answer a;
    client_ask(port, "GET", url, "", NULL, &a);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.body.data, "[DONE]"));
    answer_deinit(&a);
    bw_free(url);
    /* The other client's jobs wait their turn in the engine's queue, which the next test wants. */
    for (int i = 0; i < 2000 && bw_server_count_active(server); i++)
        bw_clock_sleep_ms(5);
    assert_int_equal(bw_server_count_active(server), 0);
}

static int start_few_jobs(void **state)
{
    (void)state;
    start_jobs(12);
    return 0;
}

/* Clients that never fetch their jobs take all the room; another one still gets its share, from who has most, and
 * keeps what it has. */
static void test_room_is_shared(void **state)
{
    (void)state;
    static const char *const greedy[] = {"127.0.0.3", "127.0.0.4"};
    char *urls[3];
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < 12; n++) {
            create_job(greedy[i], NULL);
            wait_until_idle();
        }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(create_job("127.0.0.2", &urls[i]), 200);
        wait_until_idle();
    }
    assert_int_equal(create_job_of("127.0.0.2", "{\"prompt\":\"a @slow=20\",\"max_tokens\":500}", &urls[2]), 200);
    char path[128];
    snprintf(path, sizeof path, "%.*s", (int)(strlen(urls[2]) - strlen("/stream")), urls[2]);
    answer a;
    client_ask(port, "DELETE", path, "", NULL, &a); /* whose last words come afterwards */
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    for (int n = 0; n < 24; n++) { /* they go on, in turns */
        create_job(greedy[n % 2], NULL);
        wait_until_idle();
    }
    for (int i = 0; i < 3; i++) {
        client_ask(port, "GET", urls[i], "", NULL, &a);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.body.data, i < 2 ? "[DONE]" : "[CANCELLED]"));
        answer_deinit(&a);
        bw_free(urls[i]);
    }
}

int main(void)
{
    bw_log_configure(BW_LOG_OFF, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_files), /* forks: before there is any thread */
        cmocka_unit_test_setup_teardown(test_unread_crowd, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_unread_answers, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_stuck_reader, start_impatient, stop),
        cmocka_unit_test_setup_teardown(test_share_of_places, start_small, stop),
        cmocka_unit_test_setup_teardown(test_no_files, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_unread_job, start_patient, stop),
        cmocka_unit_test_setup_teardown(test_room_is_shared, start_few_jobs, stop),
        cmocka_unit_test(test_localhost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
