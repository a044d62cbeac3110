/* Where ROCm's libraries are found, with stand-ins for them in made-up folders. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bw_probe.h"
#include "rocm_folders.h"

static char root[64];

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "rocm_folders_test: %s\n", what);
        bw_test_exit(1);
    }
}

static void make_folder(const char *name)
{
    char path[BW_ROCM_PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    must(mkdir(path, 0700) == 0, path);
}
/* A library with this name, which is the stand-in for HIP. */
static void put(const char *name)
{
    char path[BW_ROCM_PATH];
    snprintf(path, sizeof path, "%s/%s", root, name);
    must(symlink(getenv("BW_TEST_STAND_IN"), path) == 0, path);
}
static void is_at(const char *path, const char *name)
{
    must(strncmp(path, root, strlen(root)) == 0 && strcmp(path + strlen(root) + 1, name) == 0, path);
}

static void check_order(void)
{
    char folders[BW_ROCM_FOLDERS][BW_ROCM_PATH], wish[128];
    unsetenv("ROCM_PATH");
    must(bw_rocm_folders(root, folders) == 4 && !*folders[0], "the loader first");
    is_at(folders[1], "opt/rocm/lib");
    is_at(folders[2], "opt/rocm-6.10.1/lib64");
    is_at(folders[3], "opt/rocm-6.2.0/lib");
    snprintf(wish, sizeof wish, "%s/mine", root);
    setenv("ROCM_PATH", wish, 1);
    must(bw_rocm_folders(root, folders) == 5 && !*folders[1], "ROCM_PATH before the loader");
    is_at(folders[0], "mine/lib");
    setenv("ROCM_PATH", "/nowhere", 1);
    must(bw_rocm_folders(root, folders) == 4, "ROCM_PATH that is not there");
    setenv("ROCM_PATH", "", 1);
    must(bw_rocm_folders("/nowhere", folders) == 1, "no /opt");
}

static void check_open(void)
{
    char path[BW_ROCM_PATH], wish[128], file[BW_ROCM_PATH];
    unsetenv("ROCM_PATH");
    must(!bw_rocm_open(root, "libbw_nowhere.so.1", RTLD_NOW, path), "there is none");
    must(strstr(dlerror(), "libbw_nowhere.so.1") != NULL, "and why");
    must(bw_rocm_open(root, "libbw_in_opt.so.1", RTLD_NOW, path) != NULL, "in /opt");
    is_at(path, "opt/rocm-6.2.0/lib/libbw_in_opt.so.1");
    must(bw_rocm_open(root, "libbw_in_both.so.1", RTLD_NOW, path) != NULL, "in two");
    is_at(path, "opt/rocm-6.10.1/lib64/libbw_in_both.so.1");
    snprintf(wish, sizeof wish, "%s/mine", root);
    setenv("ROCM_PATH", wish, 1);
    must(bw_rocm_open(root, "libbw_in_both.so.1", RTLD_NOW, path) != NULL, "in ROCM_PATH");
    is_at(path, "mine/lib/libbw_in_both.so.1");
    must(bw_rocm_open(root, "libm.so.6", RTLD_NOW, path) && strcmp(path, "libm.so.6") == 0, "the loader's");
    snprintf(file, sizeof file, "%s/nowhere/libbw_in_both.so.1", root);
    must(!bw_rocm_open(root, file, RTLD_NOW, path) && strcmp(path, file) == 0, "a path is taken as it is");
}

/* The backend, and what doctor shows: all of ROCm's libraries come from ROCM_PATH. */
static void check_probe(void)
{
    static bw_probe probe;
    char wish[128];
    snprintf(wish, sizeof wish, "%s/mine", root);
    setenv("ROCM_PATH", wish, 1);
    unsetenv("BW_HIP_LIBRARY");
    bw_probe_run(&probe, "", true);
    must(probe.backends[0].is_loaded, probe.backends[0].why);
    is_at(probe.backends[0].library, "mine/lib/libamdhip64.so.7");
    int n = 0;
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++)
        if (probe.libraries[i].kind == BW_DEVICE_ROCM && strstr(probe.libraries[i].file, "/mine/lib/lib"))
            n++;
    must(n == 3, "hipBLASLt, rocBLAS and MIOpen");
}

static void check_sentence(void)
{
    char text[192];
    setenv("ROCM_PATH", "/a/place", 1);
    bw_rocm_places(text, sizeof text);
    must(strstr(text, "ROCM_PATH (/a/place), ") && strstr(text, "/opt/rocm-*"), text);
    unsetenv("ROCM_PATH");
    bw_rocm_places(text, sizeof text);
    must(strstr(text, "ROCM_PATH is not set") != NULL, text);
}

static void test_all(void **state)
{
    static const char *const folders[] = {"mine/lib", "opt/rocm/lib", "opt/rocm-6.2.0/lib", "opt/rocm-6.10.1/lib64",
                                          "opt/rocm-6.10.1/share"};
    static const char *const files[] = {"mine/lib/libamdhip64.so.7",
                                        "mine/lib/libhipblaslt.so.1",
                                        "mine/lib/librocblas.so.4",
                                        "mine/lib/libMIOpen.so.1",
                                        "mine/lib/libbw_in_both.so.1",
                                        "opt/rocm-6.2.0/lib/libbw_in_opt.so.1",
                                        "opt/rocm-6.2.0/lib/libbw_in_both.so.1",
                                        "opt/rocm-6.10.1/lib64/libbw_in_both.so.1"};
    char command[96];
    (void)state;
    snprintf(root, sizeof root, "/tmp/rocm_folders_test.XXXXXX");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put(files[i]);
    bw_test_in_child(check_order);
    bw_test_in_child(check_open);
    bw_test_in_child(check_probe);
    bw_test_in_child(check_sentence);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
