/* Looking for GPUs. Where a kernel driver keeps its files: Linux's Documentation/ABI (sysfs-module, sysfs-bus-pci), the
 * amdgpu and amdkfd drivers (/dev/kfd, /dev/dri/renderD*), NVIDIA's driver README (/dev/nvidia*, /proc/driver/nvidia).
 */
#include "bw_probe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu_driver.h"
#include "gpu_private.h"
#include "kernel_images.h"

enum { PATH_BYTES = 512 };

static const bw_gpu_driver *const drivers[BW_PROBE_BACKENDS] = {&bw_gpu_driver_hip, &bw_gpu_driver_cuda};

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A file's first line without its end, or "". */
static void read_line(const char *root, const char *path, char *out, size_t size)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *f = fopen(full, "re");
    out[0] = 0;
    if (f && !fgets(out, (int)size, f))
        out[0] = 0;
    if (f)
        fclose(f);
    out[strcspn(out, "\n")] = 0;
}

static bool exists(const char *root, const char *path)
{
    char full[PATH_BYTES];
    snprintf(full, sizeof full, "%s%s", root, path);
    return access(full, F_OK) == 0;
}

static bool in_group(gid_t group)
{
    gid_t groups[256];
    int n = getgroups(256, groups);
    if (getegid() == group)
        return true;
    for (int i = 0; i < n; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static void add_node(bw_probe *p, const char *root, bw_device_kind kind, const char *path)
{
    char full[PATH_BYTES], buffer[1024];
    struct stat s;
    if (p->n_nodes == BW_PROBE_NODES)
        return;
    bw_probe_node *n = &p->nodes[p->n_nodes++];
    *n = (bw_probe_node){.kind = kind};
    snprintf(n->path, sizeof n->path, "%s", path);
    snprintf(full, sizeof full, "%s%s", root, path);
    if (stat(full, &s) != 0)
        return;
    n->exists = true;
    n->may_open = access(full, R_OK | W_OK) == 0;
    n->group = (uint32_t)s.st_gid;
    n->group_may = (s.st_mode & (S_IRGRP | S_IWGRP)) == (S_IRGRP | S_IWGRP);
    n->is_member = in_group(s.st_gid);
    struct group entry, *found = NULL;
    if (getgrgid_r(s.st_gid, &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(n->group_name, sizeof n->group_name, "%.31s", found->gr_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    size_t m = strlen((*a)->d_name), n = strlen((*b)->d_name);
    return m != n ? (m < n ? -1 : 1) : strcmp((*a)->d_name, (*b)->d_name);
}

/* Every render node whose card is AMD's, or whose maker cannot be read. */
static void add_render_nodes(bw_probe *p, const char *root)
{
    char full[PATH_BYTES];
    struct dirent **list = NULL;
    snprintf(full, sizeof full, "%s/dev/dri", root);
    int n = scandir(full, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (strncmp(name, "renderD", 7) == 0 && strlen(name) < 24) {
            char path[96], vendor[16];
            snprintf(path, sizeof path, "/sys/class/drm/%.24s/device/vendor", name);
            read_line(root, path, vendor, sizeof vendor);
            snprintf(path, sizeof path, "/dev/dri/%.24s", name);
            if (!*vendor || strcmp(vendor, "0x1002") == 0)
                add_node(p, root, BW_DEVICE_ROCM, path);
        }
        free(list[i]);
    }
    free(list);
}

/* Cards of a maker: PCI classes 03 (display) and 12 (processing accelerator). */
static int count_on_bus(const char *root, const char *vendor)
{
    char full[PATH_BYTES];
    int n = 0;
    snprintf(full, sizeof full, "%s/sys/bus/pci/devices", root);
    DIR *dir = opendir(full);
    if (!dir)
        return -1;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[PATH_BYTES], text[32];
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%.100s/vendor", e->d_name);
        read_line(root, path, text, sizeof text);
        if (e->d_name[0] == '.' || strcmp(text, vendor) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%.100s/class", e->d_name);
        read_line(root, path, text, sizeof text);
        n += strncmp(text, "0x03", 4) == 0 || strncmp(text, "0x12", 4) == 0;
    }
    closedir(dir);
    return n;
}

/* ---- backends ---------------------------------------------------------------------------------------------------- */

static void list_code_objects(bw_probe_backend *b)
{
    size_t n = 0;
    for (int i = 0; i < bw_n_code_objects; i++) {
        const char *target = bw_code_objects[i].target;
        bool is_own = (strncmp(target, "gfx", 3) == 0) == (b->kind == BW_DEVICE_ROCM);
        if (is_own && n + strlen(target) + 2 < sizeof b->code_objects)
            n += (size_t)snprintf(b->code_objects + n, sizeof b->code_objects - n, "%s%s", n ? " " : "", target);
    }
}

static void look_at_cards(bw_probe_backend *b, const bw_gpu_driver *driver)
{
    bw_err err = {0};
    int n = 0;
    list_code_objects(b);
    b->is_loaded = driver->load(&err) == BW_OK;
    snprintf(b->library, sizeof b->library, "%s", driver->library());
    if (*b->library)
        driver->versions(b->runtime, b->driver);
    if (!b->is_loaded) {
        snprintf(b->why, sizeof b->why, "%.299s", err.text);
        return;
    }
    int error = driver->count(&n);
    if (error || n == 0)
        snprintf(b->why, sizeof b->why, "%s", error ? driver->error_text(error) : "it counts no cards");
    for (int i = 0; i < n && !error && i < BW_PROBE_CARDS; i++) {
        bw_probe_card *c = &b->cards[b->n_cards++];
        bw_gpu_info info = {0};
        snprintf(c->device, sizeof c->device, "%s:%d", driver->kind_name, i);
        if (driver->describe(i, &info) != 0)
            continue;
        snprintf(c->name, sizeof c->name, "%.79s", info.name);
        snprintf(c->target, sizeof c->target, "%.31s", info.target);
        bw_kernel_images_choose(info.target, c->code_object);
        c->integrated = info.integrated;
        c->units = info.units;
        c->memory_bytes = info.memory_bytes;
    }
}

void bw_probe_kernel_driver(bw_device_kind kind, const char *root, char version[64])
{
    char line[160];
    version[0] = 0;
    if (kind == BW_DEVICE_ROCM) {
        read_line(root, "/sys/module/amdgpu/version", version, 64);
        if (!*version && exists(root, "/sys/module/amdgpu")) /* only AMD's own package has a number */
            snprintf(version, 64, "in the kernel");
        return;
    }
    /* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  ..." to "535.183.01". */
    read_line(root, "/proc/driver/nvidia/version", line, sizeof line);
    const char *number = line;
    for (; *number; number++) { /* the first word that begins with a digit and has a dot */
        bool begins = number == line || number[-1] == ' ';
        if (begins && *number >= '0' && *number <= '9' && memchr(number, '.', strcspn(number, " ")))
            break;
    }
    snprintf(version, 64, "%.*s", (int)strcspn(number, " "), number);
}

static void look_at_amd(bw_probe *p, const char *root)
{
    bw_probe_backend *b = &p->backends[0];
    b->n_on_bus = count_on_bus(root, "0x1002");
    b->has_kernel_driver = exists(root, "/sys/module/amdgpu");
    bw_probe_kernel_driver(BW_DEVICE_ROCM, root, b->kernel_driver);
    add_node(p, root, BW_DEVICE_ROCM, "/dev/kfd");
    add_render_nodes(p, root);
}

static void look_at_nvidia(bw_probe *p, const char *root)
{
    bw_probe_backend *b = &p->backends[1];
    b->n_on_bus = count_on_bus(root, "0x10de");
    b->has_kernel_driver = exists(root, "/proc/driver/nvidia/version");
    bw_probe_kernel_driver(BW_DEVICE_CUDA, root, b->kernel_driver);
    snprintf(b->driver, sizeof b->driver, "%.31s", b->kernel_driver);
    if (!b->has_kernel_driver)
        return;
    add_node(p, root, BW_DEVICE_CUDA, "/dev/nvidiactl");
    add_node(p, root, BW_DEVICE_CUDA, "/dev/nvidia-uvm");
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */

/* Those that the backend would open, by its own lists. */
static void look_for_libraries(bw_probe *p)
{
    _Static_assert(BW_PROBE_LIBRARIES == BW_GPU_LIBRARIES + BW_GPU_DNNS, "one for each row");
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++) {
        const bw_gpu_library_row row =
            i < BW_GPU_LIBRARIES ? bw_gpu_library_row_of(i) : bw_gpu_dnn_row_of(i - BW_GPU_LIBRARIES);
        bw_probe_library *l = &p->libraries[i];
        *l = (bw_probe_library){.kind = row.kind, .name = row.name, .use = row.use, .is_left_out = !row.files[0]};
        /* it stays: what a C++ runtime made when it was loaded is lost with it */
        void *library = bw_gpu_open_library(&row, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, l->file);
        if (library)
            dlclose(library);
    }
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static bool is_better(const bw_probe_card *a, const bw_probe_card *b)
{
    if (!*a->code_object != !*b->code_object)
        return *a->code_object != 0;
    if (a->integrated != b->integrated)
        return b->integrated;
    return a->memory_bytes > b->memory_bytes;
}

/* Of one backend's cards the best, or NULL. */
static const bw_probe_card *best_of(const bw_probe_backend *b)
{
    const bw_probe_card *best = NULL;
    for (int i = 0; i < b->n_cards; i++)
        if (!best || is_better(&b->cards[i], best))
            best = &b->cards[i];
    return best;
}

/* ROCm's best, unless only CUDA's has kernels. */
static const bw_probe_card *choose(const bw_probe_backend backends[BW_PROBE_BACKENDS])
{
    const bw_probe_card *best = NULL;
    for (int i = 0; i < BW_PROBE_BACKENDS; i++) {
        const bw_probe_card *c = best_of(&backends[i]);
        if (c && (!best || (!*best->code_object && *c->code_object)))
            best = c;
    }
    return best;
}

static void begin_backends(bw_probe_backend backends[BW_PROBE_BACKENDS])
{
    for (int i = 0; i < BW_PROBE_BACKENDS; i++)
        backends[i] = (bw_probe_backend){.kind = drivers[i]->kind, .name = drivers[i]->kind_name, .n_on_bus = -1};
}

bw_status bw_device_choose_gpu(const char *kind, char name[16], bw_err *err)
{
    bw_probe_backend backends[BW_PROBE_BACKENDS];
    const char *why[BW_PROBE_BACKENDS] = {"", ""};
    int n_why = 0;
    begin_backends(backends);
    for (int i = 0; i < BW_PROBE_BACKENDS; i++) {
        if (kind && strcmp(kind, drivers[i]->kind_name) != 0)
            continue;
        look_at_cards(&backends[i], drivers[i]);
        why[n_why++] = backends[i].why;
    }
    const bw_probe_card *best = choose(backends);
    if (!best)
        return bw_fail(err, BW_E_DEVICE, "there is no GPU that can be used: %.220s%s%.220s", why[0],
                       n_why > 1 ? "; " : "", why[1]);
    snprintf(name, 16, "%s", best->device);
    return BW_OK;
}

void bw_probe_run(bw_probe *p, const char *root, bool with_libraries)
{
    *p = (bw_probe){0};
    begin_backends(p->backends);
    for (int i = 0; i < BW_PROBE_BACKENDS; i++)
        look_at_cards(&p->backends[i], drivers[i]);
    look_at_amd(p, root);
    look_at_nvidia(p, root);
    char version[200];
    read_line(root, "/proc/version", version, sizeof version);
    p->in_wsl = strstr(version, "icrosoft") != NULL || exists(root, "/dev/dxg");
    p->in_container = exists(root, "/.dockerenv") || exists(root, "/run/.containerenv");
    if (with_libraries)
        look_for_libraries(p);
    char buffer[1024];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        snprintf(p->user, sizeof p->user, "%.31s", found->pw_name);
    const bw_probe_card *best = choose(p->backends);
    snprintf(p->default_device, sizeof p->default_device, "%s", best ? best->device : "");
}
