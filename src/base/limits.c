/* Control groups: proc(5) has /proc/self/cgroup and mountinfo, the kernel's Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/ the files. A process belongs to one group of the unified hierarchy (v2) and to one of each v1 hierarchy;
 * a limit of any group above holds as well. */
#include "bw_limits.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_mem.h"
#include "bw_str.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 2048, MOST_PROCESSORS = 1 << 16 };

/* ---- processors -------------------------------------------------------------------------------------------------- */

static int count_processors(void)
{
    for (size_t n = 1024; n <= MOST_PROCESSORS; n *= 2) { /* the kernel refuses a set smaller than its own */
        size_t bytes = CPU_ALLOC_SIZE(n);
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set)
            return 1;
        int failed = sched_getaffinity(0, bytes, set) != 0 ? errno : 0, count = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (failed != EINVAL)
            return count > 0 ? count : 1;
    }
    return 1;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Fills text with the beginning of a file; false when there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
    return n > 0;
}

/* A whole number at the beginning of a file, or behind `key` at the beginning of one of its lines; false when there is
 * none, such as "max". */
static bool read_number(const char *folder, const char *name, const char *key, int64_t *out)
{
    char path[PATH_BYTES], text[2 * LINE_BYTES], *end;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path || !read_text(path, text, sizeof text))
        return false;
    const char *at = text;
    size_t n = key ? strlen(key) : 0;
    while (key && at && !(strncmp(at, key, n) == 0 && at[n] == ' ')) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return false;
    errno = 0;
    long long value = strtoll(at + n, &end, 10);
    if (end == at + n || errno != 0)
        return false;
    *out = value;
    return true;
}

/* ---- where a group lies ------------------------------------------------------------------------------------------ */

/* Is `word` one of a list with commas? */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

/* This process's group in the hierarchy of a controller, NULL: in the unified one, as a path within the hierarchy. */
static bool find_group(const char *root, const char *controller, char path[PATH_BYTES])
{
    char file[PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    FILE *f = fopen(file, "re");
    while (f && !found && fgets(line, sizeof line, f)) { /* hierarchy:controllers:path */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || strlen(group + 1) >= PATH_BYTES)
            continue;
        *group = 0;
        found = controller ? lists(controllers + 1, controller) : strncmp(line, "0:", 2) == 0 && !controllers[1];
        if (found)
            snprintf(path, PATH_BYTES, "%s", group + 1);
    }
    if (f)
        fclose(f);
    return found;
}

/* Where that hierarchy is mounted, and which of its groups lies there. */
static bool find_mount(const char *root, const char *controller, char mount[PATH_BYTES], char top[PATH_BYTES])
{
    char file[PATH_BYTES], line[LINE_BYTES], type[32], options[LINE_BYTES];
    bool found = false;
    snprintf(file, sizeof file, "%s/proc/self/mountinfo", root);
    FILE *f = fopen(file, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *more = strstr(line, " - "); /* after optional fields: type, source, options */
        if (!more || sscanf(line, "%*s %*s %*s %1023s %1023s", top, mount) != 2)
            continue;
        if (sscanf(more + 3, "%31s %*s %2047s", type, options) != 2)
            continue;
        found = controller ? strcmp(type, "cgroup") == 0 && lists(options, controller) : strcmp(type, "cgroup2") == 0;
    }
    if (f)
        fclose(f);
    return found;
}

typedef void look_fn(const char *folder, void *user);

/* look at this process's group and every one above it that can be seen. */
static void climb(const char *root, const char *controller, look_fn *look, void *user)
{
    char group[PATH_BYTES], mount[PATH_BYTES], top[PATH_BYTES], folder[3 * PATH_BYTES];
    if (!find_group(root, controller, group) || !find_mount(root, controller, mount, top))
        return;
    size_t n_top = strcmp(top, "/") == 0 ? 0 : strlen(top);
    bool is_below = strncmp(group, top, n_top) == 0 && (group[n_top] == '/' || group[n_top] == 0);
    /* Not below what is mounted, or above it ("/.."): a container that sees only its own group. */
    const char *below = is_below && !strstr(group, "/..") ? group + n_top : "";
    size_t n_mount = (size_t)snprintf(folder, sizeof folder, "%s%s", root, mount);
    snprintf(folder + n_mount, sizeof folder - n_mount, "%s", below);
    for (;;) {
        look(folder, user);
        char *slash = strrchr(folder + n_mount, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void take_quota(bw_limits *limits, const char *folder, const char *name, int64_t quota, int64_t period)
{
    double processors = period > 0 ? (double)quota / (double)period : 0;
    if (quota <= 0 || processors <= 0 || (limits->cpu_quota > 0 && processors >= limits->cpu_quota))
        return;
    limits->cpu_quota = processors;
    snprintf(limits->cpu_file, sizeof limits->cpu_file, "%.200s/%s", folder, name);
}

static void look_at_cpu_v2(const char *folder, void *user)
{
    char path[PATH_BYTES], text[128];
    long long quota, period;
    snprintf(path, sizeof path, "%.1000s/cpu.max", folder);
    if (read_text(path, text, sizeof text) && sscanf(text, "%lld %lld", &quota, &period) == 2)
        take_quota(user, folder, "cpu.max", quota, period);
}

static void look_at_cpu_v1(const char *folder, void *user)
{
    int64_t quota, period;
    if (read_number(folder, "cpu.cfs_quota_us", NULL, &quota) &&
        read_number(folder, "cpu.cfs_period_us", NULL, &period))
        take_quota(user, folder, "cpu.cfs_quota_us", quota, period);
}

/* v1 says no limit with a number that no machine has. */
static void take_memory(bw_limits *limits, const char *folder, const char *name, int64_t limit, int64_t used,
                        int64_t file_pages)
{
    if (limit < 0 || limit >= INT64_MAX / 2)
        return;
    int64_t kept = used > file_pages ? used - file_pages : 0, left = limit > kept ? limit - kept : 0;
    if (limits->memory_free_bytes < 0 || left < limits->memory_free_bytes)
        limits->memory_free_bytes = left;
    if (limits->memory_bytes >= 0 && limit >= limits->memory_bytes)
        return;
    limits->memory_bytes = limit;
    snprintf(limits->memory_file, sizeof limits->memory_file, "%.200s/%s", folder, name);
}

/* Both lists: a model's mapped pages are among the active ones, and can go as well. */
static int64_t file_pages(const char *folder, const char *active, const char *inactive)
{
    int64_t a = 0, b = 0;
    read_number(folder, "memory.stat", active, &a);
    read_number(folder, "memory.stat", inactive, &b);
    return a + b;
}

static void look_at_memory_v2(const char *folder, void *user)
{
    static const char *const names[] = {"memory.max", "memory.high"}; /* above the second it is slowed to a crawl */
    int64_t limit, used = 0;
    read_number(folder, "memory.current", NULL, &used);
    for (int i = 0; i < 2; i++)
        if (read_number(folder, names[i], NULL, &limit))
            take_memory(user, folder, names[i], limit, used, file_pages(folder, "active_file", "inactive_file"));
}

static void look_at_memory_v1(const char *folder, void *user)
{
    int64_t limit, used = 0;
    read_number(folder, "memory.usage_in_bytes", NULL, &used);
    if (read_number(folder, "memory.limit_in_bytes", NULL, &limit))
        take_memory(user, folder, "memory.limit_in_bytes", limit, used,
                    file_pages(folder, "total_active_file", "total_inactive_file"));
}

void bw_limits_read(const char *root, bw_limits *limits)
{
    *limits = (bw_limits){.n_processors = count_processors(), .memory_bytes = -1, .memory_free_bytes = -1};
    climb(root, NULL, look_at_cpu_v2, limits);
    climb(root, "cpu", look_at_cpu_v1, limits);
    climb(root, NULL, look_at_memory_v2, limits);
    climb(root, "memory", look_at_memory_v1, limits);
}

int bw_limits_threads(const bw_limits *limits)
{
    int n = limits->n_processors > 0 ? limits->n_processors : 1;
    if (limits->cpu_quota <= 0 || limits->cpu_quota + 0.5 >= n + 1.0)
        return n;
    int worth = (int)(limits->cpu_quota + 0.5);
    return worth < 1 ? 1 : worth < n ? worth : n;
}
