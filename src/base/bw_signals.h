/* Signals that end a program in good order. */
#ifndef BW_SIGNALS_H
#define BW_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* What asks a program to end: SIGINT, SIGTERM and SIGHUP, but no SIGHUP that is ignored, as nohup has it. Index 0 ..
 * until 0 comes. */
int bw_signals_end(int index);
/* Those and SIGUSR1 (a wake-up by this program itself) for sigwait: blocked in this thread, and in all that it starts
 * later, so to be called before any is. */
void bw_signals_block(sigset_t *signals);

#endif
