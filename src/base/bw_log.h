/* Log lines on standard error: for people, or one JSON object a line. Thread-safe. */
#ifndef BW_LOG_H
#define BW_LOG_H

#include "beeswax.h"

typedef enum bw_log_level { BW_LOG_DEBUG, BW_LOG_INFO, BW_LOG_WARN, BW_LOG_ERROR, BW_LOG_OFF } bw_log_level;

/* Lines below `level` are dropped. json: {"timestamp":"...","level":"INFO","fields":{"message":"..."}}. */
void bw_log_configure(bw_log_level level, bool json);
bw_log_level bw_log_get_level(void);
void bw_log(bw_log_level level, const char *format, ...) BW_PRINTF(2, 3);
/* fields_json: further members of "fields", such as "\"job_id\":\"job-1\",\"n\":3", or NULL. */
void bw_log_fields(bw_log_level level, const char *fields_json, const char *format, ...) BW_PRINTF(3, 4);

#define bw_log_debug(...) bw_log(BW_LOG_DEBUG, __VA_ARGS__)
#define bw_log_info(...) bw_log(BW_LOG_INFO, __VA_ARGS__)
#define bw_log_warn(...) bw_log(BW_LOG_WARN, __VA_ARGS__)
#define bw_log_error(...) bw_log(BW_LOG_ERROR, __VA_ARGS__)

#endif
