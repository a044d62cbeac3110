/* One launch: its workgroups one after another, each thread of a workgroup a fibre, switched only where the kernel
 * waits. Owns the order of threads, barriers, the wave's collective operations and the rules about them; refuses, with
 * a sentence that names kernel, workgroup and threads:
 *  - a barrier that some threads wait in while others wait at another place, or return after an earlier barrier
 *    (a thread that returns before any barrier counts as arrived);
 *  - a wave's operation that some of its lanes do not take part in, or take part in at another place;
 *  - reading a lane that the workgroup does not have.
 *
 * A thread that never waits costs a call: a fibre runs one thread after another and is left only by one that waits.
 * BW_SIM_SEED (1) draws the order of threads and workgroups; 0 is the order of their numbers. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu.h"

#ifndef SIM_WAVE
#error "SIM_WAVE is 32 or 64"
#endif
enum { N_WAVES = SIM_MAX_THREADS / SIM_WAVE, STACK_BYTES = 256 << 10, PAGE = 4096 };

struct sim_place sim_now;
char sim_error[512];

typedef struct fibre {
    void *stack_pointer;
    unsigned char *stack; /* [STACK_BYTES], its lowest page protected */
    int thread;           /* to run or to go on with */
} fibre;

typedef enum thread_state { NEW, RUNS, IN_BARRIER, IN_WAVE, RETURNED } thread_state;

typedef struct wave {
    int n_lanes, n_in_wave, n_in_barrier, n_returned;
    int turn; /* which of the two slot sets is filled: the other may still be read */
    const char *file;
    int line;
} wave;

static struct {
    const sim_kernel *kernel;
    void **args;
    void *main_pointer;
    fibre fibres[SIM_MAX_THREADS];
    int n_fibres, free[SIM_MAX_THREADS], n_free, self; /* self: the fibre that runs */
    /* threads that can go on, in no order: one is drawn */
    int ready[SIM_MAX_THREADS], n_ready, first_ready;
    struct {
        thread_state state;
        int fibre, n_barriers;
    } threads[SIM_MAX_THREADS];
    wave waves[N_WAVES];
    int n_threads, n_returned, n_returned_late, n_in_barrier, n_barriers;
    const char *barrier_file;
    int barrier_line;
    bool has_failed;
    uint64_t seed, random;
    _Alignas(64) unsigned char slots[2][N_WAVES][SIM_WAVE * SIM_SLOT_BYTES];
    _Alignas(64) unsigned char dynamic_shared[SIM_MAX_SHARED];
} sim;

/* ---- switching --------------------------------------------------------------------------------------------------- */

/* Saves what a call keeps, and the stack pointer at *from; goes on where `to` was saved. */
void sim_switch(void **from, void *to);
__asm__(".text\n.p2align 4\n.hidden sim_switch\n.globl sim_switch\n.type sim_switch, @function\nsim_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n    ret\n"
        ".size sim_switch, . - sim_switch\n");

static void run_threads(void);

/* A stack on which run_threads begins. The tops lie in different cache sets. */
static void fibre_reset(int index)
{
    fibre *f = &sim.fibres[index];
    void **top = (void **)(void *)(f->stack + STACK_BYTES - 64 - (size_t)(index * 320 % PAGE));
    top = (void **)((uintptr_t)top & ~(uintptr_t)15);
    *--top = NULL; /* where run_threads would return to; keeps its frame aligned as after a call */
    void (*begin)(void) = run_threads;
    memcpy(--top, &begin, sizeof begin);
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->stack_pointer = top;
}

static bool fibre_add(void)
{
    fibre *f = &sim.fibres[sim.n_fibres];
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return false;
    if (mprotect(stack, PAGE, PROT_NONE) != 0) {
        munmap(stack, STACK_BYTES);
        return false;
    }
    f->stack = stack;
    fibre_reset(sim.n_fibres);
    sim.free[sim.n_free++] = sim.n_fibres++;
    return true;
}

static void all_fibres_free(void)
{
    sim.n_free = 0;
    for (int i = sim.n_fibres; i-- > 0;) {
        fibre_reset(i);
        sim.free[sim.n_free++] = i;
    }
}

static uint64_t draw(void)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return sim.random;
}

/* The next thread, or -1. */
static int take_ready(void)
{
    if (sim.n_ready == 0)
        return -1;
    sim.n_ready--;
    if (sim.seed == 0)
        return sim.ready[sim.first_ready++ % SIM_MAX_THREADS];
    int at = (int)((draw() >> 32) * (uint64_t)(sim.n_ready + 1) >> 32), thread = sim.ready[at];
    sim.ready[at] = sim.ready[sim.n_ready];
    return thread;
}

static void make_ready(int thread)
{
    if (sim.seed == 0)
        sim.ready[(sim.first_ready + sim.n_ready++) % SIM_MAX_THREADS] = thread;
    else
        sim.ready[sim.n_ready++] = thread;
}

/* To another fibre, or to the launch when index is -1. Returns when this one is chosen again. */
static void go_to(int index)
{
    void **from = &sim.fibres[sim.self].stack_pointer;
    sim.self = index;
    sim_switch(from, index < 0 ? sim.main_pointer : sim.fibres[index].stack_pointer);
}

static int fibre_for(int thread)
{
    if (sim.threads[thread].state != NEW)
        return sim.threads[thread].fibre;
    if (sim.n_free == 0 && !fibre_add()) {
        sim_fail("there is no memory for the stacks of its threads");
        return -1;
    }
    int index = sim.free[--sim.n_free];
    sim.fibres[index].thread = thread;
    return index;
}

/* This thread waits: the next one goes on. */
static void wait_here(void)
{
    int self = sim.self, thread = sim.fibres[self].thread, next = sim.has_failed ? -1 : take_ready();
    if (next < 0 && !sim.has_failed)
        sim_fail("all threads wait, %d in a barrier (%s:%d)", sim.n_in_barrier, sim.barrier_file, sim.barrier_line);
    if (next != thread)
        go_to(sim.has_failed ? -1 : fibre_for(next));
    sim_now.thread = thread;
    sim.threads[thread].state = RUNS;
}

/* ---- what waits for whom ----------------------------------------------------------------------------------------- */

void sim_fail(const char *format, ...)
{
    if (sim.has_failed)
        return;
    sim.has_failed = true;
    int n = snprintf(sim_error, sizeof sim_error, "%s, workgroup %lld,%lld,%lld: ", sim.kernel->name,
                     (long long)sim_now.block[0], (long long)sim_now.block[1], (long long)sim_now.block[2]);
    va_list list;
    va_start(list, format);
    vsnprintf(sim_error + n, sizeof sim_error - (size_t)n, format, list);
    va_end(list);
}

/* A wave's lanes must not wait for each other where one of them cannot come. */
static void check_wave(const wave *w)
{
    if (w->n_in_wave == 0 || w->n_in_barrier + w->n_returned == 0)
        return;
    sim_fail("of wave %d %d lanes are in a wave's operation (%s:%d) while %d wait in a barrier and %d have returned",
             (int)(w - sim.waves), w->n_in_wave, w->file, w->line, w->n_in_barrier, w->n_returned);
}

static void check_barrier(void)
{
    if (sim.n_in_barrier == 0 || sim.n_in_barrier + sim.n_returned < sim.n_threads)
        return;
    if (sim.n_returned_late > 0) {
        sim_fail("%d threads are in a barrier (%s:%d) that %d others, which came to earlier barriers, never reach",
                 sim.n_in_barrier, sim.barrier_file, sim.barrier_line, sim.n_returned_late);
        return;
    }
    for (int i = 0; i < sim.n_threads; i++)
        if (sim.threads[i].state == IN_BARRIER)
            make_ready(i);
    for (int i = 0; i < N_WAVES; i++)
        sim.waves[i].n_in_barrier = 0;
    sim.n_in_barrier = 0;
    sim.n_barriers++;
}

static bool is_place(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

void sim_barrier(const char *file, int line)
{
    int thread = sim_now.thread;
    wave *w = &sim.waves[thread / SIM_WAVE];
    if (sim.n_in_barrier == 0) {
        sim.barrier_file = file;
        sim.barrier_line = line;
    } else if (!is_place(file, line, sim.barrier_file, sim.barrier_line)) {
        sim_fail("thread %d is in the barrier at %s:%d while others wait in that at %s:%d", thread, file, line,
                 sim.barrier_file, sim.barrier_line);
    }
    sim.threads[thread].state = IN_BARRIER;
    sim.threads[thread].n_barriers++;
    w->n_in_barrier++;
    sim.n_in_barrier++;
    check_wave(w);
    if (!sim.has_failed)
        check_barrier();
    wait_here();
}

const unsigned char *sim_wave_share(const void *mine, size_t n_bytes, const char *file, int line)
{
    int thread = sim_now.thread, index = thread / SIM_WAVE;
    wave *w = &sim.waves[index];
    int turn = w->turn;
    memcpy(sim.slots[turn][index] + (size_t)(thread % SIM_WAVE) * n_bytes, mine, n_bytes);
    if (w->n_in_wave == 0) {
        w->file = file;
        w->line = line;
    } else if (!is_place(file, line, w->file, w->line)) {
        sim_fail("lane %d of wave %d is in the operation at %s:%d while others are in that at %s:%d", thread % SIM_WAVE,
                 index, file, line, w->file, w->line);
    }
    sim.threads[thread].state = IN_WAVE;
    w->n_in_wave++;
    check_wave(w);
    if (w->n_in_wave == w->n_lanes && !sim.has_failed) {
        for (int lane = 0; lane < w->n_lanes; lane++)
            make_ready(index * SIM_WAVE + lane);
        w->n_in_wave = 0;
        w->turn = !turn;
    }
    wait_here();
    return sim.slots[turn][index];
}

int sim_lane(int lane, const char *file, int line)
{
    const wave *w = &sim.waves[sim_now.thread / SIM_WAVE];
    if (lane >= 0 && lane < w->n_lanes)
        return lane;
    sim_fail("thread %d reads lane %d of its wave, which has %d (%s:%d)", sim_now.thread, lane, w->n_lanes, file, line);
    go_to(-1);
    return 0;
}

static void thread_returned(int thread)
{
    wave *w = &sim.waves[thread / SIM_WAVE];
    sim.threads[thread].state = RETURNED;
    sim.n_returned++;
    sim.n_returned_late += sim.threads[thread].n_barriers > 0;
    w->n_returned++;
    check_wave(w);
    if (!sim.has_failed)
        check_barrier();
}

/* A fibre's life: run its thread, then as many new ones as come, then make room for one that waits. */
static void run_threads(void)
{
    for (;;) {
        fibre *f = &sim.fibres[sim.self];
        sim.threads[f->thread].fibre = sim.self;
        sim.threads[f->thread].state = RUNS;
        sim_now.thread = f->thread;
        sim.kernel->call(sim.args);
        thread_returned(f->thread);
        int next = sim.has_failed ? -1 : take_ready();
        if (next >= 0 && sim.threads[next].state == NEW) {
            f->thread = next;
            continue;
        }
        sim.free[sim.n_free++] = sim.self;
        if (next < 0 && !sim.has_failed && sim.n_returned < sim.n_threads)
            sim_fail("%d threads wait for each other, %d of them in a barrier (%s:%d)", sim.n_threads - sim.n_returned,
                     sim.n_in_barrier, sim.barrier_file, sim.barrier_line);
        go_to(next < 0 ? -1 : sim.threads[next].fibre);
    }
}

/* ---- a launch ---------------------------------------------------------------------------------------------------- */

static void run_block(unsigned shared_bytes)
{
    int n = sim.n_threads;
    memset(sim.threads, 0, (size_t)n * sizeof *sim.threads);
    memset(sim.waves, 0, sizeof sim.waves);
    sim.n_ready = sim.first_ready = sim.n_returned = sim.n_returned_late = sim.n_in_barrier = sim.n_barriers = 0;
    for (int i = 0; i < n; i++) {
        sim.waves[i / SIM_WAVE].n_lanes++;
        make_ready(i);
    }
    sim_shared_block();
    if (shared_bytes)
        sim_poison(sim.dynamic_shared, shared_bytes);
    int first = fibre_for(take_ready());
    if (first >= 0) {
        sim.self = first;
        sim_switch(&sim.main_pointer, sim.fibres[first].stack_pointer);
    }
    if (sim.has_failed)
        all_fibres_free();
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

int sim_launch(const sim_kernel *kernel, const unsigned grid[3], unsigned threads, unsigned shared_bytes, void **args)
{
    enum { LAUNCH_FAILED = 719 };
    const char *seed = getenv("BW_SIM_SEED");
    sim.kernel = kernel;
    sim.args = args;
    sim.n_threads = (int)threads;
    sim.has_failed = false;
    sim.seed = seed ? strtoull(seed, NULL, 10) : 1;
    sim.random = sim.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    sim_now.block_threads = (int)threads;
    sim_now.dynamic_shared = sim.dynamic_shared;
    uint64_t n = 1, at = 0, step = 1;
    for (int i = 0; i < 3; i++)
        n *= (uint64_t)(sim_now.blocks[i] = grid[i]);
    if (sim.seed && n > 2) { /* workgroups in strides that visit each once */
        at = draw() % n;
        for (step = draw() % n | 1; common_divisor(step, n) != 1; step++)
            ;
    }
    sim_shared_begin(kernel);
    for (uint64_t i = 0; i < n && !sim.has_failed; i++, at = (at + step) % n) {
        sim_now.block[0] = (int64_t)(at % grid[0]);
        sim_now.block[1] = (int64_t)(at / grid[0] % grid[1]);
        sim_now.block[2] = (int64_t)(at / grid[0] / grid[1]);
        run_block(shared_bytes);
    }
    sim_shared_end();
    return sim.has_failed ? LAUNCH_FAILED : 0;
}
