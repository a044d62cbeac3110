/* For tests that look at something in a process of its own. */
#ifndef BW_TEST_CHILD_H
#define BW_TEST_CHILD_H

#include <unistd.h>

/* The coverage runtime's; absent where nothing is counted. */
extern void __gcov_dump(void) __attribute__((weak)); /* NOLINT: its name */

/* Ends a child of fork() at once, but not without what it has covered. */
__attribute__((noreturn)) static inline void bw_test_exit(int code)
{
    if (__gcov_dump)
        __gcov_dump();
    _exit(code);
}

#endif
