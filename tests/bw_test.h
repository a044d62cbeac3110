/* What every cmocka program here includes first. */
#ifndef BW_TEST_H
#define BW_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "beeswax.h"

/* Assert BW_OK and show the error's sentence when it is not. */
#define assert_ok(expression, err)                                                                                     \
    do {                                                                                                               \
        bw_status bw_test_status = (expression);                                                                       \
        if (bw_test_status != BW_OK)                                                                                   \
            fail_msg("%s: %s: %s", #expression, bw_status_name(bw_test_status), (err).text);                           \
    } while (0)

#endif
