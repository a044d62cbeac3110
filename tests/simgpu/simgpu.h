/* What simulated kernels (C++) and the simulator (C) share: the running thread, the collective operations, and the rows
 * of kernels. A workgroup runs on one OS thread; each of its threads is a fibre. */
#ifndef BW_SIMGPU_H
#define BW_SIMGPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SIM_MAX_THREADS = 1024, SIM_MAX_SHARED = 65536, SIM_SLOT_BYTES = 512 };

/* The thread that runs now, and its place. Written by the simulator at every switch. */
struct sim_place {
    int thread, block_threads;
    int64_t block[3], blocks[3];
    unsigned char *dynamic_shared; /* [shared_bytes of the launch] */
};
extern struct sim_place sim_now;

/* All threads of the workgroup. file, line: where the kernel says it; all must say it at the same place. */
void sim_barrier(const char *file, int line);
/* All lanes of the wave, at the same place. Each hands over n_bytes (at most SIM_SLOT_BYTES; 0 is a wave's barrier).
 * Returns what all handed over, n_bytes apart, lane 0 first; good until this lane's next call. */
const unsigned char *sim_wave_share(const void *mine, size_t n_bytes, const char *file, int line);
/* A lane's number that was asked for, if it may be read; else the launch ends with an error. */
int sim_lane(int lane, const char *file, int line);
/* Ends the launch with an error; does not return to the kernel. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One kernel. call: run `function` once for the current thread with the arguments a launch got. */
typedef struct sim_kernel {
    const char *name;
    int max_threads; /* what BW_KERNEL says */
    void (*call)(void **args);
} sim_kernel;
/* A family: what one code object holds. */
typedef struct sim_family {
    const char *name;
    const sim_kernel *kernels;
    int n_kernels;
} sim_family;
extern const sim_family *const sim_families[]; /* [sim_n_families], made by the build */
extern const int sim_n_families;

/* ---- between the simulator's files ---------------------------------------------------------------------------- */

/* Static shared memory of all kernels, from the library's own table of symbols: the function-local statics of C++. */
const char *sim_shared_init(void);               /* NULL, or what is wrong */
void sim_shared_begin(const sim_kernel *kernel); /* before a launch: all of it poisoned */
void sim_shared_block(void);                     /* between two workgroups: what this kernel is known to write */
void sim_shared_end(void);                       /* after a launch: learns what this kernel wrote */
void sim_poison(void *memory, size_t n_bytes);

/* 0, or HIP's number for a launch that failed, with a sentence at sim_error. */
int sim_launch(const sim_kernel *kernel, const unsigned grid[3], unsigned threads, unsigned shared_bytes, void **args);
extern char sim_error[512];

#ifdef __cplusplus
}
#endif

#endif
