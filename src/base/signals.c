#include "bw_signals.h"

#include <stddef.h>

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int bw_signals_end(int index)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    enum { N = sizeof numbers / sizeof *numbers };
    if (index < 0 || index >= N || (numbers[index] == SIGHUP && is_ignored(SIGHUP)))
        return 0;
    return numbers[index];
}

void bw_signals_block(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGUSR1);
    for (int i = 0; bw_signals_end(i); i++)
        sigaddset(signals, bw_signals_end(i));
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}
