/* Looking for GPUs: files of a made-up system, cards of a made-up HIP library, and the choice among them. */
#include "../bw_test.h"
#include "../bw_test_child.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bw_probe.h"
#include "gpu_driver.h"

/* Stands in place of what the build embeds. */
static const unsigned char image[] = "code";
const bw_code_object bw_code_objects[] = {{"gfx90a", image, image + 4},
                                          {"gfx1100", image, image + 4},
                                          {"sm_80", image, image + 4},
                                          {"ptx_80", image, image + 4}};
const int bw_n_code_objects = 4;

static char root[] = "probe_test_XXXXXX";
static bw_probe probe; /* large */

static void put(const char *path, const char *text)
{
    char full[300];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full; (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_files(void **state)
{
    (void)state;
    put("/sys/module/amdgpu/version", "6.8.5\n");
    put("/dev/kfd", "");
    put("/dev/dri/card0", "");
    put("/dev/dri/renderD128", "");
    put("/dev/dri/renderD129", "");
    put("/sys/class/drm/renderD128/device/vendor", "0x1002\n");
    put("/sys/class/drm/renderD129/device/vendor", "0x8086\n"); /* Intel's */
    put("/sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n");
    put("/sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n");
    put("/sys/bus/pci/devices/0000:03:00.1/vendor", "0x1002\n");
    put("/sys/bus/pci/devices/0000:03:00.1/class", "0x040300\n"); /* its sound */
    put("/sys/bus/pci/devices/0000:83:00.0/vendor", "0x10de\n");
    put("/sys/bus/pci/devices/0000:83:00.0/class", "0x120000\n");
    put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC\n");
    put("/proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2\n");
    put("/run/.containerenv", "");
    char kfd[300];
    snprintf(kfd, sizeof kfd, "%s/dev/kfd", root);
    chmod(kfd, 0660);
    bw_probe_run(&probe, root, false);
    const bw_probe_backend *amd = &probe.backends[0], *nvidia = &probe.backends[1];
    assert_true(amd->has_kernel_driver);
    assert_string_equal(amd->kernel_driver, "6.8.5");
    assert_int_equal(amd->n_on_bus, 1);
    assert_int_equal(nvidia->n_on_bus, 1);
    assert_true(nvidia->has_kernel_driver);
    assert_string_equal(nvidia->kernel_driver, "535.183.01");
    assert_string_equal(amd->code_objects, "gfx90a gfx1100");
    assert_string_equal(nvidia->code_objects, "sm_80 ptx_80");
    assert_int_equal(probe.n_nodes, 4);
    assert_string_equal(probe.nodes[0].path, "/dev/kfd");
    assert_true(probe.nodes[0].exists && probe.nodes[0].may_open && probe.nodes[0].group_may);
    assert_int_equal(probe.nodes[0].group, getegid());
    assert_true(probe.nodes[0].is_member);
    assert_string_equal(probe.nodes[1].path, "/dev/dri/renderD128");
    assert_string_equal(probe.nodes[2].path, "/dev/nvidiactl");
    assert_false(probe.nodes[2].exists || probe.nodes[2].may_open);
    assert_true(probe.in_wsl && probe.in_container);
    char version[64], file[300];
    snprintf(file, sizeof file, "%s/sys/module/amdgpu/version", root);
    assert_int_equal(unlink(file), 0);
    bw_probe_kernel_driver(BW_DEVICE_ROCM, root, version);
    assert_string_equal(version, "in the kernel");
    bw_probe_kernel_driver(BW_DEVICE_CUDA, root, version);
    assert_string_equal(version, "535.183.01");
    bw_probe_kernel_driver(BW_DEVICE_ROCM, "/nowhere", version);
    assert_string_equal(version, "");
    bw_probe_kernel_driver(BW_DEVICE_CUDA, "/nowhere", version);
    assert_string_equal(version, "");
}

static void test_nothing(void **state)
{
    (void)state;
    bw_probe_run(&probe, "/nowhere", true);
    assert_false(probe.backends[0].has_kernel_driver || probe.backends[1].has_kernel_driver);
    assert_int_equal(probe.backends[0].n_on_bus, -1);
    assert_int_equal(probe.n_nodes, 1); /* /dev/kfd, which every AMD card needs */
    assert_false(probe.nodes[0].exists || probe.in_wsl || probe.in_container);
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++)
        assert_non_null(probe.libraries[i].name);
}

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "not so: %s\n", what);
    bw_test_exit(1);
}

static void chooses(const char *cards, const char *device)
{
    bw_err err = {0};
    char name[16] = "";
    setenv("FAKE_HIP_CARDS", cards, 1);
    must(bw_device_choose_gpu(NULL, name, &err) == BW_OK && strcmp(name, device) == 0, cards);
    bw_probe_run(&probe, "", false);
    must(strcmp(probe.default_device, device) == 0, cards);
}

static void check_choice(void)
{
    bw_probe_run(&probe, "", false);
    const bw_probe_backend *amd = &probe.backends[0];
    must(amd->is_loaded && amd->n_cards == 2 && strstr(amd->library, "fake_hip"), "the library is loaded");
    must(strcmp(amd->runtime, "6.0.32831") == 0 && strcmp(amd->driver, "6.0.32830") == 0, "versions");
    const bw_probe_card *c = &amd->cards[1];
    must(strcmp(c->device, "rocm:1") == 0 && strcmp(c->target, "gfx90a") == 0 &&
             strcmp(c->code_object, "gfx90a") == 0 && c->memory_bytes == INT64_C(64) << 30 && !c->integrated &&
             c->units == 104,
         "a card");
    chooses("16,0,gfx1100 24,0,gfx1100 20,0,gfx90a", "rocm:1");           /* most memory */
    chooses("96,1,gfx1100 8,0,gfx1100", "rocm:1");                        /* a discrete one */
    chooses("24,1,gfx1100", "rocm:0");                                    /* or what there is */
    chooses("48,0,gfx1030 16,0,gfx1100:sramecc- 16,0,gfx1100", "rocm:1"); /* one with kernels, the first */
}

/* The best of a kind, which is what a kind without a number opens. Nothing is built for gfx803, so opening says which
 * card it tried. */
static void chooses_of(const char *kind, const char *cards, const char *device)
{
    bw_err err = {0};
    char name[16] = "";
    bw_device *opened;
    setenv("FAKE_HIP_CARDS", cards, 1);
    must(bw_device_choose_gpu(kind, name, &err) == BW_OK && strcmp(name, device) == 0, cards);
    must(bw_device_open(kind, 0, &opened, &err) != BW_OK && strstr(err.text, device), err.text);
}

/* Without NVIDIA's driver. */
static void hide_cuda(void)
{
    setenv("BW_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
}

static void check_amd_alone(void)
{
    bw_err err = {0};
    char name[16];
    hide_cuda();
    check_choice();
    chooses("8,0,gfx906 16,0,gfx1030", "rocm:1"); /* opening it says what is missing */
    chooses_of("rocm", "2,1,gfx803 24,0,gfx803", "rocm:1");
    chooses_of("rocm", "24,0,gfx803 2,1,gfx803", "rocm:0");
    must(bw_device_choose_gpu("cuda", name, &err) == BW_E_DEVICE && strstr(err.text, "/nowhere/libcuda.so.1") &&
             !strstr(err.text, "; "),
         "no card of NVIDIA's, and only why that");
    bw_probe_run(&probe, "", false);
    must(*probe.backends[0].cards[1].code_object == 0, "no kernels");
    must(!probe.backends[1].is_loaded && probe.backends[1].n_cards == 0 &&
             strstr(probe.backends[1].why, "/nowhere/libcuda.so.1 cannot be loaded"),
         "no NVIDIA driver, and why");
    setenv("FAKE_HIP_CARDS", "", 1);
    bw_probe_run(&probe, "", false);
    must(probe.backends[0].is_loaded && probe.backends[0].n_cards == 0 && *probe.backends[0].why, "no cards, and why");
    must(*probe.default_device == 0, "no default");
    must(bw_device_choose_gpu(NULL, name, &err) == BW_E_DEVICE && strstr(err.text, "no GPU that can be used"),
         "no choice");
}

/* With whatever this machine has of NVIDIA's: a card that has kernels comes before one that has none, and is all there
 * is where there is no AMD card. */
static void check_amd_beside_this_machine(void)
{
    bw_err err = {0};
    char name[16] = "";
    setenv("FAKE_HIP_CARDS", "8,0,gfx906 16,0,gfx1030", 1);
    bw_probe_run(&probe, "", false);
    const bw_probe_backend *nvidia = &probe.backends[1];
    bool has_kernels = false;
    for (int i = 0; i < nvidia->n_cards; i++)
        has_kernels = has_kernels || *nvidia->cards[i].code_object;
    must(nvidia->n_cards == 0 ? *nvidia->why != 0 : *nvidia->library != 0 && *nvidia->runtime != 0, "why, or what");
    must(strncmp(probe.default_device, has_kernels ? "cuda:" : "rocm:1", has_kernels ? 5 : 7) == 0, "the default");
    must(bw_device_choose_gpu(NULL, name, &err) == BW_OK && strcmp(name, probe.default_device) == 0, "the same choice");
    setenv("FAKE_HIP_CARDS", "", 1);
    bw_status status = bw_device_choose_gpu(NULL, name, &err);
    must(nvidia->n_cards > 0 ? status == BW_OK && strncmp(name, "cuda:", 5) == 0 : status == BW_E_DEVICE,
         "the choice without an AMD card");
}

/* Beside two pretended NVIDIA cards. */
static void check_both(void)
{
    bw_err err = {0};
    char name[16];
    setenv("BW_CUDA_LIBRARY", getenv("BW_TEST_FAKE_CUDA"), 1);
    chooses("16,0,gfx1100", "rocm:0");
    chooses("16,0,gfx1030", "cuda:0");
    chooses("", "cuda:0");
    must(bw_device_choose_gpu("rocm", name, &err) == BW_E_DEVICE, "of the kind that was named only");
    bw_probe_run(&probe, "", false);
    const bw_probe_backend *nvidia = &probe.backends[1];
    must(nvidia->n_cards == 2 && strcmp(nvidia->cards[0].code_object, "ptx_80") == 0 && nvidia->cards[1].units == 132 &&
             strcmp(nvidia->runtime, "13.2") == 0 && strcmp(nvidia->library, getenv("BW_CUDA_LIBRARY")) == 0,
         "NVIDIA's cards");
    setenv("FAKE_HIP_FAIL", "cuDeviceGetName", 1);
    bw_probe_run(&probe, "", false);
    must(nvidia->n_cards == 2 && *nvidia->cards[0].name == 0, "cards that say nothing");
    setenv("FAKE_HIP_FAIL", "hipGetDeviceCount", 1);
    bw_probe_run(&probe, "", false);
    must(nvidia->n_cards == 0 && strstr(nvidia->why, "invalid value"), "cards that cannot be counted");
    must(bw_device_choose_gpu(NULL, name, &err) == BW_E_DEVICE, "no choice");
}

/* BW_KERNEL_DIR's files in place of what the build embeds, in what a card gets and in the choice. */
static void check_kernel_folder(void)
{
    char folder[300];
    hide_cuda();
    put("/kernels/affine.gfx1030.hsaco", "");
    snprintf(folder, sizeof folder, "%s/kernels", root);
    setenv("BW_KERNEL_DIR", folder, 1);
    chooses("8,0,gfx1030 16,0,gfx1100", "rocm:0");
    const bw_probe_card *c = probe.backends[0].cards;
    must(strcmp(c[0].code_object, "gfx1030") == 0 && *c[1].code_object == 0, "the folder's kernels, and no others");
    setenv("BW_KERNEL_DIR", "/nowhere", 1);
    chooses("8,0,gfx1030 16,0,gfx1100", "rocm:1");
    must(*c[0].code_object == 0 && *c[1].code_object == 0, "no folder, no kernels");
    setenv("BW_KERNEL_DIR", "", 1);
    chooses("8,0,gfx1100 16,0,gfx1030", "rocm:0");
}

static const bw_probe_library *library(const char *name)
{
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++)
        if (strcmp(probe.libraries[i].name, name) == 0)
            return &probe.libraries[i];
    must(false, name);
    return NULL;
}

/* What is shown is what the backend opens: files that it never asks for do not count, and the environment's wishes do.
 * BW_TEST_LIBRARIES is where the loader looks first (LD_LIBRARY_PATH). */
static void check_libraries(void)
{
    static const char *const files[] = {"librocblas.so.3", "librocblas.so.0", "libcublasLt.so.11", "libMIOpen.so.1"};
    const char *folder = getenv("BW_TEST_LIBRARIES"), *fake = getenv("BW_HIP_LIBRARY");
    char path[1024];
    hide_cuda();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
        must(symlink(fake, path) == 0, path);
    }
    bw_probe_run(&probe, "", true);
    must(!strstr(library("rocBLAS")->file, ".so.3") && !strstr(library("rocBLAS")->file, ".so.0"), "rocBLAS");
    must(!strstr(library("cuBLASLt")->file, ".so.11"), "cuBLASLt");
    must(strcmp(library("MIOpen")->file, "libMIOpen.so.1") == 0 && !library("MIOpen")->is_left_out, "MIOpen");
    must(library("cuDNN")->kind == BW_DEVICE_CUDA && library("hipBLASLt")->kind == BW_DEVICE_ROCM, "kinds");
    setenv("BW_DNN_LIBRARY", "", 1); /* as if it were not set */
    bw_probe_run(&probe, "", true);
    must(strcmp(library("MIOpen")->file, "libMIOpen.so.1") == 0, "BW_DNN_LIBRARY that is empty");
    setenv("BW_DNN_LIBRARY", fake, 1);
    bw_probe_run(&probe, "", true);
    must(strcmp(library("MIOpen")->file, fake) == 0 && strcmp(library("cuDNN")->file, fake) == 0, "BW_DNN_LIBRARY");
    setenv("BW_DNN_LIBRARY", "/nowhere", 1);
    bw_probe_run(&probe, "", true);
    must(*library("MIOpen")->file == 0 && *library("cuDNN")->file == 0, "BW_DNN_LIBRARY that is not there");
    setenv("BW_GPU_LIBRARIES", "0", 1);
    bw_probe_run(&probe, "", true);
    for (int i = 0; i < BW_PROBE_LIBRARIES; i++)
        must(probe.libraries[i].is_left_out && *probe.libraries[i].file == 0, "BW_GPU_LIBRARIES=0");
}

static void check_no_library(void)
{
    setenv("BW_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    bw_probe_run(&probe, "", false);
    must(!probe.backends[0].is_loaded && *probe.backends[0].library == 0, "no library");
    must(strstr(probe.backends[0].why, "cannot be loaded") != NULL, "and why");
}

static void check_broken_card(void)
{
    setenv("FAKE_HIP_FAIL", "hipGetDeviceProperties", 1);
    bw_probe_run(&probe, "", false);
    must(probe.backends[0].n_cards == 2 && *probe.backends[0].cards[0].name == 0, "cards that say nothing");
}

static void test_cards(void **state)
{
    (void)state;
    bw_test_in_child(check_choice);
    bw_test_in_child(check_amd_alone);
    bw_test_in_child(check_amd_beside_this_machine);
    bw_test_in_child(check_both);
    bw_test_in_child(check_kernel_folder);
    bw_test_in_child(check_libraries);
    bw_test_in_child(check_no_library);
    bw_test_in_child(check_broken_card);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

int main(void)
{
    /* test_cards first: its processes must begin without the library */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cards), cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
