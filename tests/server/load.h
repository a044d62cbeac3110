/* Many clients at once that behave as clients do: they stream, wait, cancel, hang up and send rubbish. Used by the
 * tests for seconds and by bench/soak for hours. */
#ifndef BW_TEST_LOAD_H
#define BW_TEST_LOAD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct load_options {
    const char *host;
    uint16_t port;
    const char *headers; /* further header lines with CRLF, such as a token; "" = none */
    int n_clients;
    double seconds;
    int max_tokens; /* of one request */
    uint64_t seed;
    int wait_ms;        /* some jobs' streams are asked for up to so long after the job was made; 0: none */
    bool own_addresses; /* each client from a loopback address of its own, 127.1.0.1 and on; the host is one as well */
} load_options;

/* How long streams took to their first token, by steps of a twentieth from 0.1 ms on. */
enum { LOAD_STEPS = 400 };

typedef struct load_result {
    int64_t n_requests;
    int64_t n_accepted;  /* the server promised an answer and we stayed to read it */
    int64_t n_answered;  /* of these: came whole, with its proper end */
    int64_t n_cancelled; /* we sent DELETE */
    int64_t n_hung_up;   /* we closed the connection while it was being answered */
    int64_t n_refused;   /* 503 */
    int64_t n_refused_jobs;
    char first_refused[2][200]; /* what the server said: to a job, to another request */
    int64_t n_bad;              /* rubbish, answered with an error or a closed connection as it should be */
    int64_t n_waited;           /* jobs whose stream was asked for seconds after they ended */
    int64_t n_wrong;            /* anything else */
    char first_wrong[300];
    double slowest_ms; /* one turn of a client: a request, or a job and its stream */
    int slowest_kind;  /* 0 job, 1 OpenAI, 2 bad request, 3 rubbish */
    int64_t n_first, first_tokens[LOAD_STEPS];
} load_result;

void load_add(load_result *sum, const load_result *r);
/* One more that took so long. */
void load_note_first_token(load_result *result, double ms);
/* Milliseconds to the first token within which this share (0 to 1) of all streams began; 0 without any. */
double load_first_token_ms(const load_result *result, double share);

/* Runs for the time given; every client ends its last request. */
void load_run(const load_options *options, load_result *result);

#endif
