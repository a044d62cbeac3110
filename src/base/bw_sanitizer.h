/* Whether this is built with the thread sanitizer: 1 or 0. */
#ifndef BW_SANITIZER_H
#define BW_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define BW_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BW_HAS_TSAN 1
#endif
#endif
#if !defined(BW_HAS_TSAN)
#define BW_HAS_TSAN 0
#endif

#endif
