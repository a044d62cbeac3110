/* What is measured of an engine at work: how long requests take, what memory it holds. */
#include "engine_private.h"

#include "bw_clock.h"
#include "bw_gpu_memory.h"

enum { LOOK_EVERY_MS = 2000 };

static const double bounds[BW_HISTOGRAM_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                    2.5,   5,      10,    20,   30,    60,   120, 300,  600, 1800};

const double *bw_histogram_bounds(void)
{
    return bounds;
}

void bw_measure_latency(bw_engine *e, bw_latency which, int64_t ns)
{
    bw_histogram *h = &e->latencies[which];
    double seconds = (double)ns / 1e9;
    int i = 0;
    while (i < BW_HISTOGRAM_BUCKETS && seconds > bounds[i])
        i++;
    h->counts[i]++;
    h->sum += seconds;
}

void bw_engine_get_latencies(const bw_engine *engine, bw_histogram latencies[BW_LATENCY_COUNT])
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&engine->lock; /* the lock is no part of its value */
    pthread_mutex_lock(lock);
    for (int i = 0; i < BW_LATENCY_COUNT; i++)
        latencies[i] = engine->latencies[i];
    pthread_mutex_unlock(lock);
}

void bw_measure_memory(bw_engine *e, bool now)
{
    int64_t now_ns = bw_clock_now_ns();
    if (!now && now_ns - e->looked_ns < (int64_t)LOOK_EVERY_MS * 1000000)
        return;
    e->looked_ns = now_ns;
    bw_engine_memory m = {.weights = e->info.weight_bytes, .kv = e->info.kv_bytes};
    if (e->device->kind != BW_DEVICE_CPU) {
        bw_err err = {0};
        m.vram = bw_gpu_held_bytes(e->device);
        /* where the CPU computes some layers, parts of the others lie there */
        m.scratch = m.vram > m.weights + m.kv ? m.vram - m.weights - m.kv : 0;
        if (e->device->vtable->memory_info(e->device, &m.vram_free, &m.vram_total, &err) != BW_OK)
            m.vram_free = m.vram_total = 0;
    }
    pthread_mutex_lock(&e->lock);
    e->memory = m;
    pthread_mutex_unlock(&e->lock);
}

void bw_engine_get_memory(const bw_engine *engine, bw_engine_memory *memory)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&engine->lock;
    pthread_mutex_lock(lock);
    *memory = engine->memory;
    pthread_mutex_unlock(lock);
}
