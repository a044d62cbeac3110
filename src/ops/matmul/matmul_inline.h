/* Private to ops/matmul: how kernels become straight code. They are functions of constants (rows, sub-blocks) that are
 * inlined and unrolled. Under sanitizers and without optimisation they stay calls and loops: instrumented and unrolled
 * they would take minutes to compile. */
#ifndef BW_MATMUL_INLINE_H
#define BW_MATMUL_INLINE_H

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BW_MATMUL_SMALL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define BW_MATMUL_SMALL 1
#endif
#endif

#if defined(BW_MATMUL_SMALL)
#define BW_INLINE static inline __attribute__((unused))
#define BW_UNROLL
#elif defined(__clang__)
#define BW_INLINE static inline __attribute__((always_inline, unused))
#define BW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BW_INLINE static inline __attribute__((always_inline, unused))
#define BW_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
