/* beeswax devices: what this machine can compute with. */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bw_limits.h"
#include "bw_probe.h"

typedef struct devices_settings {
    cli_common common;
    bool json, bandwidth;
} devices_settings;

static const cli_option options[] = {
    {"json", 0, CLI_FLAG, offsetof(devices_settings, json), NULL, "print one JSON object", 0, 0, NULL},
    {"bandwidth", 0, CLI_FLAG, offsetof(devices_settings, bandwidth), NULL,
     "also measure how fast memory can be read (about a second)", 0, 0, NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

typedef struct machine {
    const bw_cpu_features *cpu;
    int n_threads, n_online;
    int64_t memory_bytes, free_bytes; /* available: to this process, as far as a cgroup lets it */
    bw_limits limits;
    char huge_pages[16]; /* always, madvise, never, or unknown */
    double bandwidth;    /* 0 = not measured */
    bw_probe gpus;
} machine;

/* The word in brackets: "always [madvise] never". */
static void read_huge_pages(char out[16])
{
    char line[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (f && !fgets(line, sizeof line, f))
        line[0] = 0;
    if (f)
        fclose(f);
    const char *begin = strchr(line, '['), *end = begin ? strchr(begin, ']') : NULL;
    if (end)
        snprintf(out, 16, "%.*s", (int)(end - begin - 1 < 15 ? end - begin - 1 : 15), begin + 1);
    else
        snprintf(out, 16, "unknown");
}

static void add_features(bw_str *out, const bw_cpu_features *c, const char *before, const char *after)
{
    const struct {
        bool has;
        const char *name;
    } list[] = {{c->avx2, "avx2"},
                {c->avx_vnni, "avx_vnni"},
                {c->avx512, "avx512"},
                {c->avx512_vnni, "avx512_vnni"},
                {c->avx512_bf16, "avx512_bf16"},
                {c->amx_int8, "amx_int8"},
                {c->amx_bf16, "amx_bf16"}};
    const char *between = "";
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].has) {
            bw_str_add_format(out, "%s%s%s%s", between, before, list[i].name, after);
            between = *after ? "," : " ";
        }
}

static void add_gpus_json(bw_str *out, const bw_probe *p)
{
    for (int b = 0; b < BW_PROBE_BACKENDS; b++)
        for (int i = 0; i < p->backends[b].n_cards; i++) {
            const bw_probe_card *c = &p->backends[b].cards[i];
            bw_str_add_format(out, ",{\"device\":\"%s\",\"name\":", c->device);
            bw_str_add_json(out, c->name, strlen(c->name));
            bw_str_add(out, ",\"target\":");
            bw_str_add_json(out, c->target, strlen(c->target));
            bw_str_add(out, ",\"kernels\":");
            if (*c->code_object)
                bw_str_add_json(out, c->code_object, strlen(c->code_object));
            else
                bw_str_add(out, "null");
            bw_str_add_format(out, ",\"units\":%d,\"memory_bytes\":%lld,\"integrated\":%s}", c->units,
                              (long long)c->memory_bytes, c->integrated ? "true" : "false");
        }
}

static int print_json(const machine *m)
{
    bw_str out = {0};
    bw_str_add(&out, "{\"devices\":[{\"device\":\"cpu:0\",\"name\":");
    bw_str_add_json(&out, m->cpu->name, strlen(m->cpu->name));
    bw_str_add(&out, ",\"features\":[");
    add_features(&out, m->cpu, "\"", "\"");
    bw_str_add_format(&out,
                      "],\"threads\":%d,\"threads_online\":%d,\"l1d_bytes\":%lld,\"l2_bytes\":%lld,\"l3_bytes\":%lld,"
                      "\"memory_bytes\":%lld,\"memory_available_bytes\":%lld,\"huge_pages\":\"%s\"",
                      m->n_threads, m->n_online, (long long)m->cpu->l1d_bytes, (long long)m->cpu->l2_bytes,
                      (long long)m->cpu->l3_bytes, (long long)m->memory_bytes, (long long)m->free_bytes, m->huge_pages);
    if (m->bandwidth > 0)
        bw_str_add_format(&out, ",\"read_bytes_per_s\":%.0f", m->bandwidth);
    bw_str_add(&out, "}");
    add_gpus_json(&out, &m->gpus);
    bw_str_add_format(&out, "],\"default_device\":\"%s\",\"version\":\"%s\"}\n",
                      *m->gpus.default_device ? m->gpus.default_device : "cpu:0", bw_version());
    return cli_out_str(&out);
}

static void add_gpus_text(bw_str *out, const bw_probe *p)
{
    char memory[16];
    int n = 0;
    for (int b = 0; b < BW_PROBE_BACKENDS; b++)
        for (int i = 0; i < p->backends[b].n_cards; i++, n++) {
            const bw_probe_card *c = &p->backends[b].cards[i];
            bw_str_add_format(out, "\n%s%s\n  card         %s, %s, %d units%s\n  memory       %s\n  kernels      %s\n",
                              c->device, strcmp(c->device, p->default_device) == 0 ? " (the first choice)" : "",
                              *c->name ? c->name : "unknown", c->target, c->units, c->integrated ? ", integrated" : "",
                              cli_format_bytes(memory, (double)c->memory_bytes),
                              *c->code_object ? c->code_object : "none for it in this build");
        }
    if (n == 0)
        bw_str_add(out, "\nNo GPU is found; `beeswax doctor` says why.\n");
}

static int print_text(const machine *m)
{
    char a[16], b[16], c[16];
    bw_str out = {0};
    bw_str_add_format(&out, "cpu:0\n  processor    %s\n  features     ", m->cpu->name);
    size_t before = out.len;
    add_features(&out, m->cpu, "", "");
    if (out.len == before)
        bw_str_add(&out, "baseline only");
    bw_str_add_format(&out, "\n  threads      %d", m->n_threads);
    if (m->n_online != m->n_threads)
        bw_str_add_format(&out, " of %d that are online", m->n_online);
    if (m->limits.cpu_quota > 0)
        bw_str_add_format(&out, ", a cgroup allows the time of %.3g", m->limits.cpu_quota);
    bw_str_add_format(&out, "\n  caches       L1 %s and L2 %s per core, L3 %s\n",
                      m->cpu->l1d_bytes ? cli_format_bytes(a, (double)m->cpu->l1d_bytes) : "unknown",
                      m->cpu->l2_bytes ? cli_format_bytes(b, (double)m->cpu->l2_bytes) : "unknown",
                      m->cpu->l3_bytes ? cli_format_bytes(c, (double)m->cpu->l3_bytes) : "unknown");
    bw_str_add_format(&out, "  memory       %s, %s available\n", cli_format_bytes(a, (double)m->memory_bytes),
                      cli_format_bytes(b, (double)m->free_bytes));
    bw_str_add_format(&out, "  huge pages   %s%s\n", m->huge_pages,
                      strcmp(m->huge_pages, "never") == 0 ? " (weights are read faster with madvise)" : "");
    if (m->bandwidth > 0)
        bw_str_add_format(&out, "  bandwidth    %.1f GB/s read with %d thread%s\n", m->bandwidth / 1e9, m->n_threads,
                          m->n_threads == 1 ? "" : "s");
    add_gpus_text(&out, &m->gpus);
    if (!*m->gpus.default_device)
        bw_str_add(&out,
                   "\nNo GPU can be used here, models are computed on the processor; `beeswax doctor` says why.\n");
    return cli_out_str(&out);
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    const devices_settings *s = settings;
    bw_err err = {0};
    if (n_words > 0)
        return cli_usage(command, "\"%.60s\" is one word too many", words[0]);
    machine m = {.cpu = bw_cpu_get_features(), .n_threads = bw_cpu_count()};
    bw_limits_read("", &m.limits);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    m.n_online = online > 0 ? (int)online : m.n_threads;
    m.memory_bytes = cli_proc_bytes("/proc/meminfo", "MemTotal");
    m.free_bytes = cli_proc_bytes("/proc/meminfo", "MemAvailable");
    if (m.limits.memory_free_bytes >= 0 && m.limits.memory_free_bytes < m.free_bytes)
        m.free_bytes = m.limits.memory_free_bytes;
    read_huge_pages(m.huge_pages);
    bw_probe_run(&m.gpus, "", false);
    cli_bandwidth *memory = NULL;
    bw_status status = s->bandwidth ? cli_bandwidth_open("cpu:0", 0, &memory, &err) : BW_OK;
    if (status == BW_OK && memory)
        status = cli_bandwidth_measure(memory, &m.bandwidth, &err);
    cli_bandwidth_close(memory);
    if (status != BW_OK)
        return cli_fail_err(&err);
    return s->json ? print_json(&m) : print_text(&m);
}

const cli_command cli_cmd_devices = {
    .name = "devices",
    .usage = "[options]",
    .summary = "show what this machine can compute with",
    .details = "The processor's instruction sets decide which kernels run; the environment variable BW_CPU_LEVEL\n"
               "(baseline, avx2, avx512, amx) lowers the choice, never raises it.\n",
    .groups = {&group, &cli_common_group},
    .settings_bytes = sizeof(devices_settings),
    .run = run,
};
