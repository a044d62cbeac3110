/* How fast this machine's memory can be read: the ceiling of generation, which reads a token's weights for each.
 * What a machine gives changes within a minute, so it is measured again and again beside what it is compared with. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "bw_clock.h"
#include "bw_device.h"
#include "bw_mem.h"

/* Four independent sums of 32 bytes keep enough loads in flight for any of the cores there are. */
typedef uint64_t lanes __attribute__((vector_size(32)));

typedef struct reading {
    unsigned char *data;
    int64_t n_bytes;      /* a multiple of UNIT */
    _Atomic uint64_t sum; /* so that the reads cannot be left out */
    bool fill;
} reading;

enum { UNIT = 4096, PASSES = 4, COPIES = 8 };

struct cli_bandwidth {
    bw_device *device;
    bw_buffer buffer; /* on a GPU of 2 * n_bytes */
    int64_t n_bytes;
};

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
static bw_status pass_gpu(cli_bandwidth *b, bw_err *err)
{
    const bw_device_vtable *v = b->device->vtable;
    for (int i = 0; i < COPIES; i++)
        BW_TRY(v->copy(b->device, (char *)b->buffer.data + b->n_bytes, b->buffer.data, (size_t)b->n_bytes, err));
    return v->synchronise(b->device, err);
}

static bw_status pass_cpu(cli_bandwidth *b, bool fill)
{
    reading r = {.data = b->buffer.data, .n_bytes = b->n_bytes, .fill = fill};
    bw_team_run(b->device->team, read_part, &r);
    return BW_OK;
}

bw_status cli_bandwidth_measure(cli_bandwidth *b, double *bytes_per_s, bw_err *err)
{
    bool is_cpu = b->device->kind == BW_DEVICE_CPU;
    double n_bytes = is_cpu ? (double)b->n_bytes : 2.0 * COPIES * (double)b->n_bytes;
    *bytes_per_s = 0;
    for (int i = 0; i < PASSES; i++) {
        int64_t start = bw_clock_now_ns();
        BW_TRY(is_cpu ? pass_cpu(b, false) : pass_gpu(b, err));
        int64_t ns = bw_clock_now_ns() - start;
        double rate = ns > 0 ? n_bytes * 1e9 / (double)ns : 0;
        if (i > 0 && rate > *bytes_per_s) /* the first wakes the threads, or the card */
            *bytes_per_s = rate;
    }
    return BW_OK;
}

static bw_status make(cli_bandwidth *b, const char *name, int n_threads, bw_err *err)
{
    char first[16];
    int64_t unused;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, " "), name); /* without "(20 of 32 layers)" */
    BW_TRY(bw_device_open(first, n_threads, &b->device, err));
    bool is_cpu = b->device->kind == BW_DEVICE_CPU;
    if (is_cpu) {
        b->n_bytes = buffer_bytes(b->device->cpu->l3_bytes);
    } else {
        BW_TRY(b->device->vtable->memory_info(b->device, &b->n_bytes, &unused, err));
        b->n_bytes = (b->n_bytes / 4 < (int64_t)1 << 30 ? b->n_bytes / 4 : (int64_t)1 << 30) / UNIT * UNIT;
    }
    if (b->n_bytes == 0)
        return bw_fail(err, BW_E_MEMORY, "no memory is free to measure its bandwidth");
    /* The kind of memory that weights lie in. */
    BW_TRY(b->device->vtable->alloc(b->device, (size_t)(is_cpu ? 1 : 2) * (size_t)b->n_bytes, BW_MEMORY_DENSE,
                                    "the bandwidth measurement", &b->buffer, err));
    return is_cpu ? pass_cpu(b, true) : BW_OK;
}

bw_status cli_bandwidth_open(const char *device, int n_threads, cli_bandwidth **out, bw_err *err)
{
    *out = NULL;
    cli_bandwidth *b = bw_alloc_zero(1, sizeof *b);
    if (!b)
        return bw_fail_memory(err, sizeof *b, "the bandwidth measurement");
    bw_status status = make(b, device, n_threads, err);
    if (status == BW_OK)
        *out = b;
    else
        cli_bandwidth_close(b);
    return status;
}

int64_t cli_bandwidth_host_bytes(const cli_bandwidth *b)
{
    return b && b->device->kind == BW_DEVICE_CPU ? b->n_bytes : 0;
}

void cli_bandwidth_close(cli_bandwidth *b)
{
    if (!b)
        return;
    if (b->buffer.data)
        b->device->vtable->release(b->device, &b->buffer);
    if (b->device)
        bw_device_close(b->device);
    bw_free(b);
}
