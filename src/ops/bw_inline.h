/* How kernels become straight code. They are written as functions of constants (types, numbers of rows, sub-blocks)
 * and become fast by inlining and unrolling. Where speed is not wanted (sanitizers, coverage) they stay calls and
 * loops: instrumented and unrolled they would take minutes to compile. */
#ifndef BW_INLINE_H
#define BW_INLINE_H

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BW_INLINE_SMALL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define BW_INLINE_SMALL 1
#endif
#endif

#if defined(BW_INLINE_SMALL)
#define BW_INLINE static inline __attribute__((unused))
#define BW_UNROLL
#elif defined(__clang__)
#define BW_INLINE static inline __attribute__((always_inline, unused))
#define BW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BW_INLINE static inline __attribute__((always_inline, unused))
#define BW_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
