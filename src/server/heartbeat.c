/* Heartbeats to rbee: POST {hive}/v1/worker-heartbeat, first at once, then every 30 s and whenever the status changes
 * (ready, busy ...), on a thread of its own. However often it changes, two follow each other after half a second at the
 * soonest, and the last status is always told.
 * Best effort: whatever goes wrong is a line at debug level and nothing else. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "internal.h"

enum { TIMEOUT_MS = 5000, LAST_TIMEOUT_MS = 400, GAP_MS = 500 };

struct bw_heartbeat {
    bw_server *server;
    char *url;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool poked, stop; /* under lock */
    const char *told; /* the status that the last one named */
};

static size_t drop_body(char *data, size_t size, size_t n, void *user)
{
    (void)data;
    size_t *total = user;
    *total += size * n;
    return *total > 65536 ? 0 : size * n; /* an endless answer ends the transfer */
}

static int should_abort(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    struct bw_heartbeat *hb = user;
    pthread_mutex_lock(&hb->lock);
    bool stop = hb->stop;
    pthread_mutex_unlock(&hb->lock);
    return stop;
}

static void send_one(struct bw_heartbeat *hb, bool last)
{
    bw_str body = {0};
    char now[32];
    bw_clock_rfc3339(now);
    hb->told = bw_server_status_name(hb->server); /* before the body: what changes in between is told again */
    bw_str_add(&body, "{\"worker\":");
    bw_server_write_worker(hb->server, hb->server->options.model_ref, &body);
    bw_str_add_format(&body, ",\"timestamp\":\"%s\"}", now);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (curl && headers && !body.failed) {
        size_t received = 0;
        long status = 0;
        curl_easy_setopt(curl, CURLOPT_URL, hb->url);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, last ? (long)LAST_TIMEOUT_MS : (long)TIMEOUT_MS);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body.len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &received);
        if (!last) {
            curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
            curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, should_abort);
            curl_easy_setopt(curl, CURLOPT_XFERINFODATA, hb);
        }
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (code != CURLE_OK)
            bw_log_debug("heartbeat to %s: %s", hb->url, curl_easy_strerror(code));
        else if (status < 200 || status > 299)
            bw_log_debug("heartbeat to %s: HTTP %ld", hb->url, status);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    bw_str_deinit(&body);
}

/* The lock is held: wait until the time, an end, or (when it counts) a poke. */
static void wait_until(struct bw_heartbeat *hb, int64_t until_ns, bool poke_counts)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (!hb->stop && !(poke_counts && hb->poked) && bw_clock_now_ns() < until_ns)
        pthread_cond_timedwait(&hb->changed, &hb->lock, &until);
}

/* The lock is held, and let go meanwhile. */
static bool status_changed(struct bw_heartbeat *hb)
{
    hb->poked = false;
    pthread_mutex_unlock(&hb->lock);
    bool changed = strcmp(hb->told, bw_server_status_name(hb->server)) != 0;
    pthread_mutex_lock(&hb->lock);
    return changed;
}

static void *heartbeat_main(void *arg)
{
    struct bw_heartbeat *hb = arg;
    int64_t interval_ns = hb->server->options.heartbeat_ms * 1000000, gap_ns = GAP_MS * 1000000;
    gap_ns = gap_ns < interval_ns ? gap_ns : interval_ns;
    pthread_mutex_lock(&hb->lock);
    while (!hb->stop) {
        int64_t begin_ns = bw_clock_now_ns();
        pthread_mutex_unlock(&hb->lock);
        send_one(hb, false);
        pthread_mutex_lock(&hb->lock);
        wait_until(hb, begin_ns + gap_ns, false);
        do
            wait_until(hb, begin_ns + interval_ns, true);
        while (!hb->stop && bw_clock_now_ns() < begin_ns + interval_ns && !status_changed(hb));
    }
    pthread_mutex_unlock(&hb->lock);
    send_one(hb, true);
    return NULL;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

bw_status bw_heartbeat_start(bw_server *server, struct bw_heartbeat **out, bw_err *err)
{
    *out = NULL;
    const char *base = server->options.hive_url;
    if (!base[0])
        return BW_OK;
    pthread_once(&curl_once, init_curl);
    struct bw_heartbeat *hb = bw_alloc_zero(1, sizeof *hb);
    bw_str url = {0};
    size_t n = strlen(base);
    while (n && base[n - 1] == '/')
        n--;
    bw_str_add_bytes(&url, base, n);
    bw_str_add(&url, "/v1/worker-heartbeat");
    if (hb)
        hb->url = bw_str_take(&url, NULL);
    if (!hb || !hb->url) {
        bw_str_deinit(&url);
        bw_free(hb);
        return bw_fail_memory(err, sizeof *hb, "heartbeats");
    }
    hb->server = server;
    pthread_mutex_init(&hb->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&hb->changed, &attr);
    pthread_condattr_destroy(&attr);
    int failed = pthread_create(&hb->thread, NULL, heartbeat_main, hb);
    if (failed) {
        bw_free(hb->url);
        bw_free(hb);
        return bw_fail_errno(err, failed, "cannot start the heartbeat thread");
    }
    *out = hb;
    return BW_OK;
}

void bw_heartbeat_poke(struct bw_heartbeat *hb)
{
    if (!hb)
        return;
    pthread_mutex_lock(&hb->lock);
    hb->poked = true;
    pthread_cond_signal(&hb->changed);
    pthread_mutex_unlock(&hb->lock);
}

void bw_heartbeat_end(struct bw_heartbeat *hb)
{
    if (!hb)
        return;
    pthread_mutex_lock(&hb->lock);
    hb->stop = true;
    pthread_cond_signal(&hb->changed);
    pthread_mutex_unlock(&hb->lock);
}

void bw_heartbeat_free(struct bw_heartbeat *hb)
{
    if (!hb)
        return;
    pthread_join(hb->thread, NULL);
    pthread_cond_destroy(&hb->changed);
    pthread_mutex_destroy(&hb->lock);
    bw_free(hb->url);
    bw_free(hb);
}
