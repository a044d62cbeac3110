/* bw_limits: cgroups v1 and v2 as made-up trees, nested, seen from a container, and broken. */
#include "../bw_test.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "bw_limits.h"
#include "bw_map.h"
#include "bw_team.h"

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/bw_limits_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
    char full[300];
    bw_err err = {0};
    snprintf(full, sizeof full, "%s%s", root, path);
    *strrchr(full, '/') = 0;
    assert_ok(bw_dir_make(full, &err), err);
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static bw_limits look(void)
{
    bw_limits limits;
    bw_limits_read(root, &limits);
    return limits;
}

static void assert_file(const char *got, const char *want)
{
    assert_true(strlen(got) >= strlen(root));
    assert_string_equal(got + strlen(root), want);
}

static const char v2_mount[] =
    "22 1 0:21 / /proc rw - proc proc rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

static void nothing_is_no_limit(void **state)
{
    (void)state;
    bw_limits l = look(), here;
    assert_true(l.n_processors >= 1);
    assert_true(l.cpu_quota == 0 && l.memory_bytes == -1 && l.memory_free_bytes == -1);
    assert_string_equal(l.cpu_file, "");
    assert_int_equal(bw_limits_threads(&l), l.n_processors);
    put("/proc/self/cgroup", "0::/a\n");
    put("/proc/self/mountinfo", v2_mount);
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    l = look();
    assert_true(l.cpu_quota == 0 && l.memory_bytes == -1 && l.memory_free_bytes == -1);
    bw_limits_read("", &here);
    assert_int_equal(bw_cpu_count(), bw_limits_threads(&here));
}

/* The least counts, wherever on the way up it stands. */
static void v2_nested(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/pods.slice/pod7/box\n");
    put("/proc/self/mountinfo", v2_mount);
    put("/sys/fs/cgroup/pods.slice/cpu.max", "600000 100000\n");
    put("/sys/fs/cgroup/pods.slice/pod7/cpu.max", "75000 50000\n");
    put("/sys/fs/cgroup/pods.slice/pod7/box/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/cpu.max", "100 100000\n"); /* no such file lies there really: the root is a group too */
    bw_limits l = look();
    assert_true(l.cpu_quota == 0.001);
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    l = look();
    assert_true(l.cpu_quota == 1.5);
    assert_file(l.cpu_file, "/sys/fs/cgroup/pods.slice/pod7/cpu.max");

    put("/sys/fs/cgroup/pods.slice/memory.max", "8000000\n");
    put("/sys/fs/cgroup/pods.slice/memory.current", "7000000\n");
    put("/sys/fs/cgroup/pods.slice/memory.stat", "anon 6000000\nfile 1000000\ninactive_file 600000\nactive_file 0\n");
    put("/sys/fs/cgroup/pods.slice/pod7/box/memory.max", "4000000\n");
    put("/sys/fs/cgroup/pods.slice/pod7/box/memory.current", "3000000\n");
    put("/sys/fs/cgroup/pods.slice/pod7/box/memory.stat", "active_file 900000\ninactive_file 100000\n");
    l = look();
    assert_int_equal(l.memory_bytes, 4000000);
    assert_file(l.memory_file, "/sys/fs/cgroup/pods.slice/pod7/box/memory.max");
    assert_int_equal(l.memory_free_bytes, 1600000); /* the slice's, which is fuller */
    put("/sys/fs/cgroup/pods.slice/pod7/box/memory.high", "2500000\n");
    l = look();
    assert_int_equal(l.memory_bytes, 2500000);
    assert_int_equal(l.memory_free_bytes, 500000);
}

static void v1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:name=systemd:/x\n5:memory:/docker/c0\n4:cpu,cpuacct:/docker/c0\n2:cpuset:/\n0::/\n");
    put("/proc/self/mountinfo", "33 31 0:30 / /sys/fs/cgroup/cpuacct2 rw - cgroup cgroup rw,cpuacct\n"
                                "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
                                "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/c0/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/c0/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/docker/c0/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/docker/c0/memory.usage_in_bytes", "500\n");
    bw_limits l = look();
    assert_true(l.cpu_quota == 0 && l.memory_bytes == -1);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/docker/c0/memory.limit_in_bytes", "1000\n");
    put("/sys/fs/cgroup/memory/docker/c0/memory.stat",
        "cache 90\ninactive_file 1\ntotal_inactive_file 60\ntotal_active_file 20\n");
    l = look();
    assert_true(l.cpu_quota == 3);
    assert_file(l.cpu_file, "/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us");
    assert_int_equal(l.memory_bytes, 1000);
    assert_int_equal(l.memory_free_bytes, 580);
}

/* A container without a cgroup namespace: its own group is mounted, under a path that says where it lies outside. */
static void container(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:cpu:/docker/c0/inner\n");
    put("/proc/self/mountinfo", "32 31 0:29 /docker/c0 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    put("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "800000\n");
    put("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_true(look().cpu_quota == 2);
    put("/proc/self/cgroup", "4:cpu:/docker/c00\n"); /* not below what is mounted */
    assert_true(look().cpu_quota == 2);
    put("/proc/self/cgroup", "4:cpu:/../../other\n");
    assert_true(look().cpu_quota == 2);
}

static void broken(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "\n:\n0::/a\nx");
    put("/proc/self/mountinfo", " - \n1 2 - cgroup2\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n");
    static const char *const texts[] = {
        "", "\n", "100000", "x 100000", "1 0", "-5", "1 -10", "0 100000", "99999999999999999999999 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("/sys/fs/cgroup/a/cpu.max", texts[i]);
        put("/sys/fs/cgroup/a/memory.max", i ? "-7" : "");
        bw_limits l = look();
        assert_true(bw_limits_threads(&l) >= 1 && bw_limits_threads(&l) <= l.n_processors);
        assert_int_equal(l.memory_bytes, -1);
    }
}

static void rounding(void **state)
{
    (void)state;
    static const struct {
        int processors;
        double quota;
        int threads;
    } rows[] = {{16, 0, 16},  {16, 1, 1},     {16, 1.4, 1}, {16, 1.5, 2},   {16, 2, 2},     {16, 7.6, 8}, {16, 16, 16},
                {16, 99, 16}, {16, 1e12, 16}, {16, 0.1, 1}, {16, 15.5, 16}, {16, 15.4, 15}, {1, 4, 1},    {0, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bw_limits l = {.n_processors = rows[i].processors, .cpu_quota = rows[i].quota};
        assert_int_equal(bw_limits_threads(&l), rows[i].threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_no_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(v2_nested, setup, teardown),
        cmocka_unit_test_setup_teardown(v1, setup, teardown),
        cmocka_unit_test_setup_teardown(container, setup, teardown),
        cmocka_unit_test_setup_teardown(broken, setup, teardown),
        cmocka_unit_test(rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
