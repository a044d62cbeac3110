/* For tests that look at something in a process of its own. */
#ifndef BW_TEST_CHILD_H
#define BW_TEST_CHILD_H

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bw_test.h"

/* The coverage runtime's; absent where nothing is counted. */
extern void __gcov_dump(void) __attribute__((weak)); /* NOLINT: its name */

/* Ends a child of fork() at once, but not without what it has covered. */
__attribute__((noreturn)) static inline void bw_test_exit(int code)
{
    if (__gcov_dump)
        __gcov_dump();
    _exit(code);
}

/* What is loaded once per process, such as a driver, is loaded anew there. check ends the child where it finds a fault.
 */
static inline void bw_test_in_child(void check(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        check();
        bw_test_exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
