/* beeswax doctor: can a GPU be used here, and if not, what to type. Owns judging what bw_probe_run saw; ends with 0
 * when there is a card that this build has kernels for. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_limits.h"
#include "bw_mem.h"
#include "bw_probe.h"
#include "rocm_folders.h"
#include "library/bw_onednn.h"

typedef struct doctor_settings {
    cli_common common;
    bool json;
    const char *root;
} doctor_settings;

static const cli_option options[] = {
    {"json", 0, CLI_FLAG, offsetof(doctor_settings, json), NULL, "print one JSON object", 0, 0, NULL},
    {"root", 0, CLI_TEXT, offsetof(doctor_settings, root), "FOLDER",
     "look for /dev, /sys and /proc in FOLDER: another system's tree", 0, 0, NULL},
};
static const cli_group group = {"Options", options, sizeof options / sizeof *options};

/* ---- findings ---------------------------------------------------------------------------------------------------- */

typedef enum level { LEVEL_OK, LEVEL_NOTE, LEVEL_BAD } level;
static const char *const level_names[] = {"ok", "note", "bad"};

typedef struct finding {
    level level;
    const char *area; /* "AMD" */
    char subject[40], text[420], repair[420];
} finding;

enum { MAX_FINDINGS = 120 };
typedef struct report {
    const bw_probe *probe;
    const char *area;
    finding items[MAX_FINDINGS];
    int n;
} report;

static finding *find(report *r, level l, const char *subject, const char *format, ...) BW_PRINTF(4, 5);
static finding *find(report *r, level l, const char *subject, const char *format, ...)
{
    finding *f = &r->items[r->n < MAX_FINDINGS ? r->n++ : MAX_FINDINGS - 1];
    *f = (finding){.level = l, .area = r->area};
    snprintf(f->subject, sizeof f->subject, "%s", subject);
    va_list list;
    va_start(list, format);
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    return f;
}

static void repair(finding *f, const char *format, ...) BW_PRINTF(2, 3);
static void repair(finding *f, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(f->repair, sizeof f->repair, format, list);
    va_end(list);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static bool is_amd(const bw_probe_backend *b)
{
    return b->kind == BW_DEVICE_ROCM;
}

static bool any_node(const report *r, bw_device_kind kind)
{
    for (int i = 0; i < r->probe->n_nodes; i++)
        if (r->probe->nodes[i].kind == kind && r->probe->nodes[i].exists)
            return true;
    return false;
}

static void judge_kernel_driver(report *r, const bw_probe_backend *b)
{
    const char *module = is_amd(b) ? "amdgpu" : "nvidia";
    if (b->n_on_bus > 0)
        find(r, LEVEL_OK, "PCI bus", "%d card%s", b->n_on_bus, b->n_on_bus == 1 ? "" : "s");
    if (b->has_kernel_driver) {
        find(r, LEVEL_OK, "kernel driver", "%s %s", module, b->kernel_driver);
        return;
    }
    if (r->probe->in_wsl) {
        find(r, LEVEL_NOTE, "kernel driver", "this is WSL: Windows' driver serves the card through /dev/dxg");
        return;
    }
    finding *f = find(r, LEVEL_BAD, "kernel driver", "%s is not loaded", module);
    if (r->probe->in_container)
        repair(f, "load it on the host of this container: sudo modprobe %s", module);
    else if (is_amd(b))
        repair(f, "sudo modprobe amdgpu; where that fails: sudo apt install firmware-amd-graphics (Debian), or "
                  "linux-modules-extra-$(uname -r) (Ubuntu), and restart");
    else
        repair(f, "sudo modprobe nvidia; where that fails: sudo apt install nvidia-driver, and restart");
}

static void judge_node(report *r, const bw_probe_node *n)
{
    const bw_probe *p = r->probe;
    char owner[48], user[40];
    snprintf(owner, sizeof owner, "%s%s%u", n->group_name, *n->group_name ? ", " : "", n->group);
    snprintf(user, sizeof user, "%s", *p->user ? p->user : "$USER");
    if (!n->exists && p->in_wsl) {
        find(r, LEVEL_NOTE, n->path, "is not there, as it is in WSL");
    } else if (!n->exists) {
        finding *f = find(r, LEVEL_BAD, n->path, "is not there");
        if (n->kind == BW_DEVICE_CUDA)
            repair(f, p->in_container ? "start the container with --gpus all (NVIDIA's container toolkit)"
                                      : "sudo nvidia-modprobe -u -c=0");
        else if (p->in_container)
            repair(f, "start the container with --device /dev/kfd --device /dev/dri");
        else
            repair(f,
                   "the driver amdgpu makes it: see the kernel driver; sudo dmesg | grep -i -e amdgpu -e kfd says why "
                   "it did not");
    } else if (n->may_open) {
        find(r, LEVEL_OK, n->path, "may be opened; a container needs --device %s --group-add %u", n->path, n->group);
    } else {
        finding *f = find(r, LEVEL_BAD, n->path, "may not be opened by %s (it belongs to group %s)", user, owner);
        if (!n->group_may || n->is_member)
            repair(f, "its group may not open it either: sudo chmod g+rw %s, or what set its mode (udev)", n->path);
        else if (p->in_container)
            repair(f, "start the container with --group-add %u", n->group);
        else if (*n->group_name)
            repair(f, "sudo usermod -aG %s %s, then log in again", n->group_name, user);
        else
            repair(f, "sudo groupadd -g %u render && sudo usermod -aG render %s, then log in again", n->group, user);
    }
}

static void judge_nodes(report *r, const bw_probe_backend *b)
{
    bool any_render = false;
    for (int i = 0; i < r->probe->n_nodes; i++) {
        const bw_probe_node *n = &r->probe->nodes[i];
        if (n->kind != b->kind)
            continue;
        judge_node(r, n);
        any_render = any_render || strstr(n->path, "render") != NULL;
    }
    if (!is_amd(b) || any_render || r->probe->in_wsl)
        return;
    finding *f = find(r, LEVEL_BAD, "/dev/dri/renderD*", "there is none of an AMD card");
    repair(f, r->probe->in_container ? "start the container with --device /dev/kfd --device /dev/dri"
                                     : "the driver amdgpu makes it: see the kernel driver");
}

static void judge_runtime(report *r, const bw_probe_backend *b)
{
    const char *subject = is_amd(b) ? "HIP runtime" : "CUDA driver";
    if (b->is_loaded) {
        find(r, LEVEL_OK, subject, "%s%s%s%s%s", b->library, *b->runtime ? ", version " : "", b->runtime,
             *b->driver ? ", driver " : "", b->driver);
        return;
    }
    finding *f = find(r, LEVEL_BAD, subject, "%s", b->why);
    if (*b->library)
        repair(f, "what is marked bad above keeps it from starting");
    else if (is_amd(b))
        repair(f, "sudo apt install libamdhip64-5 (Debian 12, Ubuntu 24.04); a newer card needs AMD's hip-runtime-amd: "
                  "docs/rocm.md");
    else
        repair(f, r->probe->in_container ? "start the container with --gpus all (NVIDIA's container toolkit)"
                                         : "sudo apt install libcuda1 (Debian), or nvidia-driver's other parts");
}

static void judge_card(report *r, const bw_probe_backend *b, const bw_probe_card *c)
{
    char memory[16];
    if (!*c->name) {
        find(r, LEVEL_BAD, c->device, "is counted by the runtime, which then says nothing about it");
        return;
    }
    cli_format_bytes(memory, (double)c->memory_bytes);
    const char *kind = c->integrated ? ", integrated: it has the processor's memory" : "";
    if (*c->code_object) {
        find(r, LEVEL_OK, c->device, "%s, %s, %s, %d units%s; gets the kernels for %s", c->name, c->target, memory,
             c->units, kind, c->code_object);
        return;
    }
    const char *folder = getenv("BW_KERNEL_DIR");
    if (folder && *folder) {
        repair(find(r, LEVEL_BAD, c->device, "%s, %s, %s, %d units%s: BW_KERNEL_DIR (%.100s) holds no kernels for it",
                    c->name, c->target, memory, c->units, kind, folder),
               "unset BW_KERNEL_DIR");
        return;
    }
    finding *f =
        find(r, LEVEL_BAD, c->device, "%s, %s, %s, %d units%s: this build has no kernels for it (%s%s)", c->name,
             c->target, memory, c->units, kind, *b->code_objects ? "only for " : "none at all", b->code_objects);
    if (is_amd(b))
        repair(f, "cmake -S . -B build -DBW_GFX=%s && cmake --build build", c->target);
    else
        repair(f, "cmake -S . -B build -DBW_SM=%s && cmake --build build", c->target + strlen("sm_"));
}

static void judge_environment(report *r, const bw_probe_backend *b)
{
    static const char *const amd[] = {"HSA_OVERRIDE_GFX_VERSION",
                                      "HIP_VISIBLE_DEVICES",
                                      "ROCR_VISIBLE_DEVICES",
                                      "BW_HIP_LIBRARY",
                                      "BW_KERNEL_DIR",
                                      "BW_DNN_LIBRARY",
                                      NULL};
    static const char *const nvidia[] = {"CUDA_VISIBLE_DEVICES", "BW_CUDA_LIBRARY", "BW_KERNEL_DIR", "BW_DNN_LIBRARY",
                                         NULL};
    for (const char *const *name = is_amd(b) ? amd : nvidia; *name; name++) {
        const char *value = getenv(*name);
        if (value && *value)
            find(r, LEVEL_NOTE, *name, "is set to %.100s%s", value,
                 strcmp(*name, "HSA_OVERRIDE_GFX_VERSION") == 0
                     ? ": the runtime reports this target, not the card's own"
                     : "");
    }
}

static void judge_backend(report *r, const bw_probe_backend *b)
{
    r->area = is_amd(b) ? "AMD" : "NVIDIA";
    if (b->n_on_bus <= 0 && !b->has_kernel_driver && b->n_cards == 0 && !any_node(r, b->kind)) {
        find(r, LEVEL_NOTE, "cards", "there is no sign of one; %s", b->why);
        return;
    }
    judge_kernel_driver(r, b);
    judge_nodes(r, b);
    judge_environment(r, b);
    judge_runtime(r, b);
    if (b->is_loaded && b->n_cards == 0)
        find(r, LEVEL_BAD, "cards", "%s", b->why);
    for (int i = 0; i < b->n_cards; i++)
        judge_card(r, b, &b->cards[i]);
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++) {
        const bw_probe_library *l = &r->probe->libraries[i];
        char places[192] = "";
        if (is_amd(b) && !l->is_left_out && !*l->file)
            bw_rocm_places(places, sizeof places);
        if (l->kind == b->kind)
            find(r, LEVEL_NOTE, l->name, "%s%s%s (optional, %s)",
                 l->is_left_out ? "is left out: BW_GPU_LIBRARIES is 0"
                 : *l->file     ? l->file
                                : "cannot be loaded",
                 *places ? " from " : "", places, l->use);
    }
}

/* The chosen card has kernels. */
static bool is_usable(const bw_probe *p)
{
    for (int b = 0; b < BW_PROBE_BACKENDS; b++)
        for (int i = 0; i < p->backends[b].n_cards; i++)
            if (strcmp(p->backends[b].cards[i].device, p->default_device) == 0)
                return *p->backends[b].cards[i].code_object != 0;
    return false;
}

/* What holds this process back on the processor; all that `threads` defaults to. */
static void judge_limits(report *r, const bw_limits *l)
{
    char limit[16], left[16], quota[360] = "";
    int n = bw_limits_threads(l);
    if (l->cpu_quota > 0)
        snprintf(quota, sizeof quota, ", and %.256s allows the time of %.3g", l->cpu_file, l->cpu_quota);
    find(r, LEVEL_NOTE, "threads", "%d compute%s by default: it may run on %d processor%s%s", n, n == 1 ? "s" : "",
         l->n_processors, l->n_processors == 1 ? "" : "s", quota);
    if (l->memory_bytes >= 0)
        find(r, LEVEL_NOTE, "memory", "%s allows %s, of which %s are left", l->memory_file,
             cli_format_bytes(limit, (double)l->memory_bytes), cli_format_bytes(left, (double)l->memory_free_bytes));
}

static void judge(report *r, const char *root)
{
    const bw_probe *p = r->probe;
    r->area = "system";
    if (p->in_container)
        find(r, LEVEL_NOTE, "container", "this runs in one");
    if (p->in_wsl)
        find(r, LEVEL_NOTE, "WSL", "this runs in it: docs/troubleshooting.md");
    for (int i = 0; i < BW_PROBE_BACKENDS; i++)
        judge_backend(r, &p->backends[i]);
    r->area = "CPU";
    bw_limits limits;
    bw_limits_read(root, &limits);
    judge_limits(r, &limits);
    const char *wish = getenv("BW_CPU_LIBRARIES"), *file = bw_onednn_file();
    bool is_left_out = wish && strcmp(wish, "0") == 0;
    find(r, LEVEL_NOTE, "oneDNN", "%s (optional)",
         is_left_out ? "is left out: BW_CPU_LIBRARIES is 0"
         : file      ? file
                     : "is not taken: it is not installed, or this processor or build cannot use it");
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

static void add_text(const report *r, bool usable, bw_str *out)
{
    const char *area = "";
    for (int i = 0; i < r->n; i++) {
        const finding *f = &r->items[i];
        if (strcmp(area, f->area) != 0)
            bw_str_add_format(out, "%s%s\n", i ? "\n" : "", f->area);
        area = f->area;
        bw_str_add_format(out, "  %-5s %-22s %s\n", level_names[f->level], f->subject, f->text);
        if (*f->repair)
            bw_str_add_format(out, "        -> %s\n", f->repair);
    }
    if (usable)
        bw_str_add_format(out, "\n%s can be used.\n", r->probe->default_device);
    else
        bw_str_add(out, "\nNo GPU can be used; the processor (cpu:0) can.\n");
}

static void add_json_field(bw_str *out, const char *name, const char *text)
{
    bw_str_add_format(out, ",\"%s\":", name);
    bw_str_add_json(out, text, strlen(text));
}

static void add_json(const report *r, bool usable, bw_str *out)
{
    bw_str_add_format(out, "{\"usable\":%s,\"default_device\":", usable ? "true" : "false");
    const char *device = usable ? r->probe->default_device : "cpu:0";
    bw_str_add_json(out, device, strlen(device));
    bw_str_add(out, ",\"findings\":[");
    for (int i = 0; i < r->n; i++) {
        const finding *f = &r->items[i];
        bw_str_add_format(out, "%s{\"level\":\"%s\"", i ? "," : "", level_names[f->level]);
        add_json_field(out, "area", f->area);
        add_json_field(out, "subject", f->subject);
        add_json_field(out, "text", f->text);
        if (*f->repair)
            add_json_field(out, "repair", f->repair);
        bw_str_add_char(out, '}');
    }
    bw_str_add_format(out, "],\"version\":\"%s\"}\n", bw_version());
}

static int run(const cli_command *command, void *settings, char **words, int n_words)
{
    const doctor_settings *s = settings;
    if (n_words > 0)
        return cli_usage(command, "\"%.60s\" is one word too many", words[0]);
    bw_probe *probe = bw_alloc(sizeof *probe);
    report *r = bw_alloc_zero(1, sizeof *r);
    if (!probe || !r) {
        bw_free(probe);
        bw_free(r);
        return cli_fail("there is no memory");
    }
    const char *root = s->root ? s->root : "";
    bw_probe_run(probe, root, true);
    r->probe = probe;
    judge(r, root);
    bool usable = is_usable(probe);
    bw_str out = {0};
    if (s->json)
        add_json(r, usable, &out);
    else
        add_text(r, usable, &out);
    bw_free(r);
    bw_free(probe);
    int code = cli_out_str(&out);
    return code == CLI_OK && !usable ? CLI_FAILED : code;
}

const cli_command cli_cmd_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "say whether a GPU can be used, and how to repair what is wrong",
    .details = "Looks at kernel drivers, device files and the right to open them, runtimes, cards and the kernels of\n"
               "this build. Ends with 0 when a GPU can be used, else with 1.\n",
    .groups = {&group, &cli_common_group},
    .settings_bytes = sizeof(doctor_settings),
    .run = run,
};
