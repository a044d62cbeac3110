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
} load_options;

typedef struct load_result {
    int64_t n_requests;
    int64_t n_accepted;  /* the server promised an answer and we stayed to read it */
    int64_t n_answered;  /* of these: came whole, with its proper end */
    int64_t n_cancelled; /* we sent DELETE */
    int64_t n_hung_up;   /* we closed the connection while it was being answered */
    int64_t n_refused;   /* 503 */
    int64_t n_bad;       /* rubbish, answered with an error or a closed connection as it should be */
    int64_t n_wrong;     /* anything else */
    char first_wrong[300];
} load_result;

/* Runs for the time given; every client ends its last request. */
void load_run(const load_options *options, load_result *result);

#endif
