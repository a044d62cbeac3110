/* What timed trials found: the table, its file, and everything else that may lie where the file should. A file never
 * makes anything fail: the worst is that a choice is not there. */
#include "../bw_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"
#include "bw_gpu_library.h"
#include "bw_log.h"
#include "bw_mem.h"
#include "gpu_choices.h"

/* Stands in place of what the build embeds; filled in main. */
static _Alignas(64) unsigned char archive[4096];
const bw_code_object bw_code_objects[] = {{"gfx90a", archive, archive + sizeof archive}};
const int bw_n_code_objects = 1;

static const char identity[] = "card Fake Instinct\nlibrary fakeLt 7\n";
static char home[] = "gpu_choices_test_XXXXXX", folder[64], path[128];

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void put_file(const char *text, size_t n_bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n_bytes, f), n_bytes);
    assert_int_equal(fclose(f), 0);
}

static size_t get_file(char *text, size_t size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
    return n;
}

static int count_entries(void)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static void remove_all(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static bw_gpu_choices *new_choices(void)
{
    bw_gpu_choices *c = bw_gpu_choices_new("rocm Fake Instinct/../x  fakeLt 7", identity);
    assert_non_null(c);
    return c;
}

static void save_one(uint64_t shape, int choice)
{
    bw_gpu_choices *c = new_choices();
    bw_gpu_choices_set(c, shape, choice, false);
    bw_gpu_choices_save(c);
    bw_gpu_choices_free(c);
}

/* What a new process finds. */
static int find_one(uint64_t shape)
{
    bw_gpu_choices *c = new_choices();
    int choice = bw_gpu_choices_get(c, shape);
    bw_gpu_choices_free(c);
    return choice;
}

/* Lines on standard error while `what` ran. */
static int count_lines(void what(void))
{
    char text[4096];
    int fd[2], saved = dup(2), n = 0;
    assert_int_equal(pipe2(fd, O_NONBLOCK), 0);
    fflush(stderr);
    dup2(fd[1], 2);
    what();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    close(fd[1]);
    ssize_t got = read(fd[0], text, sizeof text);
    for (ssize_t i = 0; i < got; i++)
        n += text[i] == '\n';
    close(fd[0]);
    return n;
}

static void look(void)
{
    assert_int_equal(find_one(1), 0);
}

/* A file that is not used, and is replaced by a good one after the next trial. */
static void is_ignored(void)
{
    assert_int_equal(count_lines(look), 1);
    save_one(1, 2);
    assert_int_equal(find_one(1), 2);
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    assert_true(S_ISREG(s.st_mode) && (s.st_mode & 0777) == 0600);
    assert_int_equal(count_entries(), 1);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_table(void **state)
{
    (void)state;
    enum { N = 20000 };
    setenv("BW_GPU_TRIALS", "0", 1);
    bw_gpu_choices *c = new_choices();
    assert_int_equal(bw_gpu_choices_get(c, 0), 0);
    for (uint64_t i = 0; i < N; i++)
        bw_gpu_choices_set(c, i * i << 36 | i << 8, 1 + (int)(i % 255), false);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(bw_gpu_choices_get(c, i * i << 36 | i << 8), 1 + (int)(i % 255));
    bw_gpu_choices_set(c, 0, 9, false);
    bw_gpu_choices_set(c, 1, 0, false);
    bw_gpu_choices_set(c, 1, 256, false);
    bw_gpu_choices_set(c, 1, -1, false);
    assert_int_equal(bw_gpu_choices_get(c, 0), 9);
    assert_int_equal(bw_gpu_choices_get(c, 1), 0);
    bw_gpu_choices_save(c);
    bw_gpu_choices_free(c);
    bw_gpu_choices_free(NULL);
    assert_int_equal(count_entries(), 0);
    unsetenv("BW_GPU_TRIALS");
}

static void test_file(void **state)
{
    (void)state;
    char text[400];
    assert_int_equal(count_lines(look), 0); /* no file yet: nothing to say */
    save_one(1, 2);
    save_one(UINT64_C(0xfedcba9876543210), 255);
    assert_int_equal(find_one(1), 2);
    assert_int_equal(find_one(UINT64_C(0xfedcba9876543210)), 255);
    assert_int_equal(find_one(2), 0);
    get_file(text, sizeof text);
    assert_non_null(strstr(text, "beeswax GPU trials 1\ncard Fake Instinct\nlibrary fakeLt 7\n\n"));
    assert_non_null(strstr(text, "\n0000000000000001 2\n"));
    assert_non_null(strstr(text, "\nfedcba9876543210 255\n"));
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    /* two at the same time: neither loses the other's rows */
    bw_gpu_choices *a = new_choices(), *b = new_choices();
    bw_gpu_choices_set(a, 10, 3, false);
    bw_gpu_choices_set(b, 11, 4, false);
    bw_gpu_choices_set(b, 1, 5, false);
    bw_gpu_choices_save(a);
    bw_gpu_choices_save(b);
    assert_int_equal(find_one(10), 3);
    assert_int_equal(find_one(11), 4);
    assert_int_equal(find_one(1), 5);
    /* what is found while memory is short stays here, and hides nothing in the file */
    bw_gpu_choices_set(a, 11, 9, true);
    bw_gpu_choices_set(a, 13, 9, true);
    assert_int_equal(bw_gpu_choices_get(a, 13), 9);
    bw_gpu_choices_set(a, 14, 6, false);
    bw_gpu_choices_save(a);
    assert_int_equal(find_one(11), 4);
    assert_int_equal(find_one(13), 0);
    assert_int_equal(find_one(14), 6);
    bw_gpu_choices_set(a, 13, 9, false);
    bw_gpu_choices_save(a);
    assert_int_equal(find_one(13), 9);
    /* without news nothing is written */
    unlink(path);
    bw_gpu_choices_save(b);
    bw_gpu_choices_set(b, 1, 5, false);
    bw_gpu_choices_save(b);
    assert_int_equal(count_entries(), 0);
    bw_gpu_choices_free(a);
    bw_gpu_choices_free(b);
    /* what other versions of beeswax or of the library found does not count */
    save_one(1, 2);
    a = bw_gpu_choices_new("rocm Fake Instinct/../x  fakeLt 7", "card Fake Instinct\nlibrary fakeLt 8\n");
    assert_int_equal(bw_gpu_choices_get(a, 1), 0);
    bw_gpu_choices_set(a, 2, 1, false);
    bw_gpu_choices_save(a);
    bw_gpu_choices_free(a);
    is_ignored();
    assert_int_equal(find_one(2), 0);
}

static void test_bounded(void **state)
{
    (void)state;
    bw_gpu_choices *c = new_choices();
    for (uint64_t i = 0; i < 2 * BW_GPU_CHOICES_MOST; i++)
        bw_gpu_choices_set(c, i, 200, false);
    bw_gpu_choices_save(c);
    bw_gpu_choices_free(c);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_in_range(s.st_size, 1, BW_GPU_CHOICES_BYTES);
    int n = 0;
    c = new_choices();
    for (uint64_t i = 0; i < 2 * BW_GPU_CHOICES_MOST; i++)
        n += bw_gpu_choices_get(c, i) != 0;
    bw_gpu_choices_free(c);
    assert_int_equal(n, BW_GPU_CHOICES_MOST);
}

static void test_damaged(void **state)
{
    (void)state;
    char good[400], text[400];
    save_one(1, 2);
    save_one(3, 4);
    size_t n = get_file(good, sizeof good);
    /* cut short anywhere but at the end of a row, or between rows of another length */
    for (size_t cut = 0; cut < n; cut++) {
        put_file(good, cut);
        bw_gpu_choices *c = new_choices();
        bool has_row = bw_gpu_choices_get(c, 1) || bw_gpu_choices_get(c, 3);
        assert_true(!has_row || good[cut - 1] == '\n');
        bw_gpu_choices_free(c);
    }
    for (size_t at = 0; at < n; at++) {
        memcpy(text, good, n);
        text[at] = (char)(text[at] ^ 0x80);
        put_file(text, n);
        assert_int_equal(find_one(1), 0);
        text[at] = 0;
        put_file(text, n);
        assert_int_equal(find_one(1), 0);
    }
    static const char *const rows[] = {"0000000000000001 0\n",
                                       "0000000000000001 256\n",
                                       "0000000000000001 -1\n",
                                       "0000000000000001 99999999999999\n",
                                       "0000000000000001\n",
                                       "000000000000001 2\n",
                                       "00000000000000001 2\n",
                                       "0000000000000001 2 \n",
                                       "000000000000000A 2\n",
                                       "0000000000000001 2\r\n",
                                       "\n",
                                       "0000000000000001 2"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int length = snprintf(text, sizeof text, "%s%s", good, rows[i]);
        put_file(text, (size_t)length);
        assert_int_equal(find_one(1), 0);
    }
    put_file("", 0);
    is_ignored();
    put_file(good, n - 3);
    is_ignored();
    memcpy(text, good, n);
    *strchr(text, '1') = '2'; /* the version of the form */
    put_file(text, n);
    is_ignored();
}

static void test_too_many_rows(void **state)
{
    (void)state;
    char good[400];
    save_one(5, 2);
    size_t n = get_file(good, sizeof good);
    FILE *f = fopen(path, "a");
    for (int i = 0; i < BW_GPU_CHOICES_MOST; i++)
        fputs("0000000000000001 2\n", f);
    fclose(f);
    is_ignored();
    /* 100 MB, most of it a hole */
    put_file(good, n);
    assert_int_equal(truncate(path, 100 << 20), 0);
    is_ignored();
}

static void test_binary(void **state)
{
    (void)state;
    static char noise[100000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        x = x * 1664525 + 1013904223;
        noise[i] = (char)(x >> 24);
    }
    mkdir(folder, 0700);
    put_file(noise, sizeof noise);
    is_ignored();
}

static void test_other_things(void **state)
{
    (void)state;
    char other[128], text[16] = "";
    snprintf(other, sizeof other, "%s/other", home);
    mkdir(folder, 0700);
    /* a link: neither read nor written through */
    save_one(1, 7);
    assert_int_equal(rename(path, other), 0);
    char target[200];
    assert_non_null(realpath(other, target));
    assert_int_equal(symlink(target, path), 0);
    is_ignored();
    FILE *f = fopen(other, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_memory_equal(text, "beeswax", 7);
    unlink(other);
    unlink(path);
    /* a link that leads nowhere, a pipe that nobody writes to */
    assert_int_equal(symlink("nowhere", path), 0);
    is_ignored();
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_ignored();
    unlink(path);
}

static void try_to_save(void)
{
    save_one(1, 2);
}

/* Each costs one line in the log, and nothing is left behind. */
static void test_no_way_to_write(void **state)
{
    (void)state;
    /* a folder in place of the file: one line when it is read, one for both when it cannot be replaced */
    mkdir(folder, 0700);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(count_lines(look), 1);
    assert_in_range(count_lines(try_to_save), 1, 3);
    assert_int_equal(count_entries(), 1);
    remove_all();
    /* a file in place of the folder */
    FILE *f = fopen(folder, "w");
    assert_non_null(f);
    fclose(f);
    assert_in_range(count_lines(try_to_save), 1, 2);
    assert_int_equal(find_one(1), 0);
    remove_all();
    /* a folder that may not be written to; root may */
    mkdir(folder, 0500);
    if (geteuid() != 0) {
        assert_int_equal(count_lines(try_to_save), 1);
        assert_int_equal(find_one(1), 0);
    }
    remove_all();
    /* where nobody can make anything */
    setenv("BW_CACHE_DIR", "/proc/nowhere", 1);
    assert_int_equal(count_lines(try_to_save), 1);
    unsetenv("BW_CACHE_DIR");
    /* no room: every write fails */
    struct rlimit saved, none;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
    none = saved;
    none.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    save_one(1, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
    assert_int_equal(count_entries(), 0);
    /* a failure is not tried again */
    bw_gpu_choices *c = new_choices();
    bw_gpu_choices_set(c, 1, 2, false);
    mkdir(path, 0700);
    bw_gpu_choices_save(c);
    rmdir(path);
    bw_gpu_choices_set(c, 2, 2, false);
    bw_gpu_choices_save(c);
    assert_int_equal(count_entries(), 0);
    assert_int_equal(bw_gpu_choices_get(c, 2), 2);
    bw_gpu_choices_free(c);
}

static void test_folders(void **state)
{
    (void)state;
    char cache[64], file[200];
    const char *name = strrchr(path, '/') + 1;
    snprintf(cache, sizeof cache, "%s/own", home);
    setenv("BW_CACHE_DIR", cache, 1); /* before the others */
    save_one(1, 2);
    snprintf(file, sizeof file, "%s/trials/%s", cache, name);
    assert_int_equal(access(file, F_OK), 0);
    unsetenv("BW_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
    save_one(1, 2);
    snprintf(file, sizeof file, "%s/.cache/beeswax/trials/%s", home, name);
    assert_int_equal(access(file, F_OK), 0);
    unsetenv("HOME");
    bw_gpu_choices *c = new_choices();
    bw_gpu_choices_set(c, 1, 3, false);
    bw_gpu_choices_save(c);
    assert_int_equal(bw_gpu_choices_get(c, 1), 3);
    bw_gpu_choices_free(c);
    assert_int_equal(find_one(1), 0);
}

/* Without memory there are no choices, but nothing fails or is lost. */
static void test_memory(void **state)
{
    (void)state;
    save_one(1, 2);
    int64_t live = bw_mem_live();
    bool failed = true;
    for (int64_t n = 1; failed; n++) {
        int64_t before = bw_mem_count();
        bw_mem_fail_at(n);
        bw_gpu_choices *c = bw_gpu_choices_new("rocm Fake Instinct/../x  fakeLt 7", identity);
        if (c) {
            bw_gpu_choices_set(c, 3, 4, false);
            bw_gpu_choices_save(c);
        }
        bw_gpu_choices_free(c);
        failed = bw_mem_count() - before >= n;
        bw_mem_fail_at(0);
        assert_int_equal(bw_mem_live(), live);
    }
    assert_int_equal(find_one(1), 2);
    assert_int_equal(find_one(3), 4);
}

/* Of a device: kept when it rests or is closed, and there for the next one. */
static void test_device(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_device *device;
    for (int round = 0; round < 4; round++) {
        assert_ok(bw_device_open("rocm:0", 0, &device, &err), err);
        device->vtable->rest(device); /* nothing was asked yet */
        for (int i = 0; i < 4; i++)
            assert_int_equal(bw_gpu_choice(device, 100 + (uint64_t)i), i < round ? 7 + i : 0);
        bw_gpu_choose(device, 100 + (uint64_t)round, 7 + round, false);
        bw_gpu_choose(device, 200 + (uint64_t)round, 1, true);
        assert_int_equal(bw_gpu_choice(device, 200 + (uint64_t)round), 1);
        assert_int_equal(bw_gpu_choice(device, 199 + (uint64_t)round), 0);
        if (round % 2) {
            device->vtable->rest(device);
            assert_int_equal(count_entries(), 1);
        }
        bw_device_close(device);
        assert_int_equal(count_entries(), 1);
    }
    /* another card's are its own, and so are those of other kernels */
    setenv("FAKE_HIP_CARDS", "16,0,gfx90a", 1);
    assert_ok(bw_device_open("rocm:0", 0, &device, &err), err);
    assert_int_equal(bw_gpu_choice(device, 100), 0);
    bw_device_close(device);
    unsetenv("FAKE_HIP_CARDS");
    make_archive(archive, sizeof archive, 1, &(test_family){"first", "code of another kind", "known "});
    assert_ok(bw_device_open("rocm:0", 0, &device, &err), err);
    assert_int_equal(bw_gpu_choice(device, 100), 0);
    bw_device_close(device);
    assert_ok(bw_device_open("cpu:0", 1, &device, &err), err);
    device->vtable->rest(device);
    bw_device_close(device);
}

static int set_up(void **state)
{
    (void)state;
    remove_all();
    setenv("XDG_CACHE_HOME", home, 1);
    unsetenv("BW_CACHE_DIR");
    return 0;
}

int main(void)
{
    if (!mkdtemp(home))
        return 1;
    snprintf(folder, sizeof folder, "%s/beeswax/trials", home);
    snprintf(path, sizeof path, "%s/rocm_Fake_Instinct_.._x_fakeLt_7.txt", folder);
    unsetenv("BW_GPU_TRIALS");
    bw_log_configure(BW_LOG_DEBUG, false);
    make_archive(archive, sizeof archive, 1, &(test_family){"first", "code", "known "});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_table, set_up),         cmocka_unit_test_setup(test_file, set_up),
        cmocka_unit_test_setup(test_bounded, set_up),       cmocka_unit_test_setup(test_damaged, set_up),
        cmocka_unit_test_setup(test_too_many_rows, set_up), cmocka_unit_test_setup(test_binary, set_up),
        cmocka_unit_test_setup(test_other_things, set_up),  cmocka_unit_test_setup(test_no_way_to_write, set_up),
        cmocka_unit_test_setup(test_folders, set_up),       cmocka_unit_test_setup(test_memory, set_up),
        cmocka_unit_test_setup(test_device, set_up)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", home);
    return system(command) || failed;
}
