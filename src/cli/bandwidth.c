/* How fast this machine's memory can be read: the ceiling of generation, which reads every weight once per token. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_device.h"

/* Four independent sums of 32 bytes keep enough loads in flight for any of the cores there are. */
typedef uint64_t lanes __attribute__((vector_size(32)));

typedef struct reading {
    unsigned char *data;
    int64_t n_bytes;      /* a multiple of UNIT */
    _Atomic uint64_t sum; /* so that the reads cannot be left out */
    bool fill;
} reading;

enum { UNIT = 4096, PASSES = 6 };

static void read_part(void *arg, bw_member *member)
{
    reading *r = arg;
    int64_t begin, end;
    bw_team_split(member, r->n_bytes, UNIT, &begin, &end);
    if (r->fill) { /* each member touches its own part first: memory lies near its reader */
        memset(r->data + begin, member->rank + 1, (size_t)(end - begin));
        return;
    }
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    const lanes *p = (const lanes *)(const void *)(r->data + begin);
    for (int64_t n = (end - begin) / (int64_t)(4 * sizeof(lanes)); n > 0; n--, p += 4) {
        a += p[0];
        b += p[1];
        c += p[2];
        d += p[3];
    }
    a += b + c + d;
    atomic_fetch_add_explicit(&r->sum, a[0] + a[1] + a[2] + a[3], memory_order_relaxed);
}

/* Much larger than the last cache, but no more than a quarter of what is free. */
static int64_t buffer_bytes(int64_t l3_bytes)
{
    int64_t n = (int64_t)256 << 20, available = cli_proc_bytes("/proc/meminfo", "MemAvailable");
    if (l3_bytes > 0 && n < 4 * l3_bytes)
        n = 4 * l3_bytes;
    if (n > (int64_t)2 << 30)
        n = (int64_t)2 << 30;
    if (available > 0 && n > available / 4)
        n = available / 4;
    return n / UNIT * UNIT;
}

/* A GPU's: one half of a buffer copied over the other, every byte read and written once. */
static bw_status measure_gpu(bw_device *device, double *bytes_per_s, bw_err *err)
{
    enum { COPIES = 8 };
    const bw_device_vtable *v = device->vtable;
    int64_t free_bytes, total_bytes;
    bw_buffer buffer;
    BW_TRY(v->memory_info(device, &free_bytes, &total_bytes, err));
    size_t half = (size_t)(free_bytes / 4 < (int64_t)1 << 30 ? free_bytes / 4 : (int64_t)1 << 30) / UNIT * UNIT;
    BW_TRY(v->alloc(device, 2 * half, BW_MEMORY_DENSE, "the bandwidth measurement", &buffer, err));
    bw_status status = BW_OK;
    for (int pass = 0; pass < PASSES && status == BW_OK; pass++) {
        int64_t start = bw_clock_now_ns();
        for (int i = 0; i < COPIES && status == BW_OK; i++)
            status = v->copy(device, (char *)buffer.data + half, buffer.data, half, err);
        if (status == BW_OK)
            status = v->synchronise(device, err);
        int64_t ns = bw_clock_now_ns() - start;
        double rate = ns > 0 ? 2.0 * COPIES * (double)half * 1e9 / (double)ns : 0;
        if (pass > 0 && rate > *bytes_per_s)
            *bytes_per_s = rate;
    }
    v->release(device, &buffer);
    return status;
}

bw_status cli_measure_bandwidth(const char *name, int n_threads, double *bytes_per_s, bw_err *err)
{
    bw_device *device;
    bw_buffer buffer;
    char first[16];
    *bytes_per_s = 0;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, " "), name); /* without "(20 of 32 layers)" */
    BW_TRY(bw_device_open(first, n_threads, &device, err));
    if (device->kind != BW_DEVICE_CPU) {
        bw_status done = measure_gpu(device, bytes_per_s, err);
        bw_device_close(device);
        return done;
    }
    reading r = {.n_bytes = buffer_bytes(device->cpu->l3_bytes)};
    /* The kind of memory that weights lie in. */
    bw_status status = r.n_bytes > 0 ? device->vtable->alloc(device, (size_t)r.n_bytes, BW_MEMORY_DENSE,
                                                             "the bandwidth measurement", &buffer, err)
                                     : bw_fail(err, BW_E_MEMORY, "no memory is free to measure its bandwidth");
    if (status != BW_OK) {
        bw_device_close(device);
        return status;
    }
    r.data = buffer.data;
    r.fill = true;
    bw_team_run(device->team, read_part, &r);
    r.fill = false;
    for (int i = 0; i < PASSES; i++) {
        int64_t start = bw_clock_now_ns();
        bw_team_run(device->team, read_part, &r);
        int64_t ns = bw_clock_now_ns() - start;
        double rate = ns > 0 ? (double)r.n_bytes * 1e9 / (double)ns : 0;
        if (rate > *bytes_per_s)
            *bytes_per_s = rate;
    }
    device->vtable->release(device, &buffer);
    bw_device_close(device);
    return BW_OK;
}
