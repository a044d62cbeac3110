/* Which code objects a card gets, and from where: the choice of a target, archives as they are, compressed and damaged,
 * folders. */
#include "../bw_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if BW_HAS_ZSTD
#include <zstd.h>
#endif

#include "archive.h"
#include "kernel_images.h"

enum { ROOM = 4096, N_TARGETS = 14 };
static _Alignas(64) unsigned char rooms[N_TARGETS][ROOM];
#define ROW(i, target)                                                                                                 \
    {                                                                                                                  \
        target, rooms[i], rooms[i] + ROOM                                                                              \
    }
const bw_code_object bw_code_objects[N_TARGETS] = {
    ROW(0, "gfx90a"),        ROW(1, "gfx9-generic"),    ROW(2, "gfx10-1-generic"), ROW(3, "gfx10-3-generic"),
    ROW(4, "gfx11-generic"), ROW(5, "gfx1100"),         ROW(6, "gfx12-generic"),   ROW(7, "sm_80"),
    ROW(8, "sm_86"),         ROW(9, "sm_90"),           ROW(10, "ptx_80"),         ROW(11, "ptx_90"),
    ROW(12, "gfx_damaged"),  ROW(13, "gfx_compressed"),
};
const int bw_n_code_objects = N_TARGETS;

static const test_family two[] = {{"first", "code", "a b c "}, {"second", "more code", "d "}};

static int fill_rooms(void **state)
{
    (void)state;
    for (int i = 0; i < N_TARGETS; i++)
        make_archive(rooms[i], ROOM, 2, two);
    return 0;
}

static void test_choice(void **state)
{
    (void)state;
    static const struct {
        const char *card, *target;
    } cases[] = {
        {"gfx90a", "gfx90a"},
        {"gfx906", "gfx9-generic"},
        {"gfx90c", "gfx9-generic"},
        {"gfx908", NULL},
        {"gfx942", NULL},
        {"gfx90", NULL},
        {"gfx1010", "gfx10-1-generic"},
        {"gfx1032", "gfx10-3-generic"},
        {"gfx1100", "gfx1100"},
        {"gfx1103", "gfx11-generic"},
        {"gfx1151", "gfx11-generic"},
        {"gfx1200", "gfx12-generic"},
        {"gfx1250", NULL},
        {"gfx110", NULL},
        {"sm_75", NULL},
        {"sm_80", "sm_80"},
        {"sm_86", "sm_86"},
        {"sm_87", "sm_86"},
        {"sm_89", "sm_86"},
        {"sm_90", "sm_90"},
        {"sm_100", "ptx_90"},
        {"sm_120", "ptx_90"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bw_err err = {0};
        bw_kernel_images images;
        bw_status status = bw_kernel_images_open("card", cases[i].card, &images, &err);
        if (cases[i].target && status != BW_OK)
            fail_msg("%s: %s", cases[i].card, err.text);
        if (!cases[i].target) {
            assert_int_equal(status, BW_E_DEVICE);
            assert_non_null(strstr(err.text, "card: this build holds no kernels for "));
            assert_int_equal(images.n_images, 0);
            continue;
        }
        assert_string_equal(images.target, cases[i].target);
        bw_kernel_images_close(&images);
    }
}

static void expect_two(const char *card)
{
    bw_err err = {0};
    bw_kernel_images images;
    if (bw_kernel_images_open("card", card, &images, &err) != BW_OK)
        fail_msg("%s", err.text);
    assert_int_equal(images.n_images, 2);
    assert_string_equal(images.images[0].family, "first");
    assert_int_equal(images.images[0].n_bytes, 4);
    assert_string_equal(images.images[0].data, "code");
    assert_int_equal(images.images[0].n_names, 3);
    assert_memory_equal(images.images[0].names, "a\0b\0c", 6);
    assert_string_equal(images.images[1].data, "more code");
    assert_int_equal(images.images[1].n_names, 1);
    bw_kernel_images_close(&images);
    bw_kernel_images_close(&images); /* empty: nothing happens */
}

static void test_archive(void **state)
{
    (void)state;
    expect_two("gfx90a");
#if BW_HAS_ZSTD
    unsigned char plain[ROOM];
    size_t n = make_archive(plain, sizeof plain, 2, two);
    memset(rooms[13], 0x5a, ROOM); /* what follows the frame does not matter */
    assert_false(ZSTD_isError(ZSTD_compress(rooms[13], ROOM, plain, n, 19)));
    expect_two("gfx_compressed");
    /* a frame that breaks off, then none */
    bw_err err = {0};
    bw_kernel_images images;
    memset(rooms[13] + 30, 0xff, ROOM - 30);
    assert_int_equal(bw_kernel_images_open("card", "gfx_compressed", &images, &err), BW_E_FORMAT);
    memset(rooms[13], 0xff, ROOM);
    assert_int_equal(bw_kernel_images_open("card", "gfx_compressed", &images, &err), BW_E_FORMAT);
#endif
}

static void expect_damaged(void)
{
    bw_err err = {0};
    bw_kernel_images images;
    assert_int_equal(bw_kernel_images_open("card", "gfx_damaged", &images, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "the kernels for gfx_damaged in this program are damaged"));
    assert_int_equal(images.n_images, 0);
    make_archive(rooms[12], ROOM, 2, two);
}

static void test_damaged(void **state)
{
    (void)state;
    bw_kernel_archive *head = (void *)rooms[12];
    bw_kernel_family *families = (void *)(rooms[12] + sizeof *head);
    head->n_bytes = ROOM + 1;
    expect_damaged();
    head->n_families = UINT64_MAX;
    expect_damaged();
    families[1].at = head->n_bytes;
    expect_damaged();
    families[1].n_bytes = UINT64_MAX;
    expect_damaged();
    families[0].names_at = UINT64_MAX;
    expect_damaged();
    families[1].n_names = 1000;
    expect_damaged();
    memset(families[1].name, 'x', sizeof families[1].name);
    expect_damaged();
    expect_two("gfx_damaged");
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_folder(void **state)
{
    (void)state;
    char folder[] = "kernel_images_test_XXXXXX", path[256];
    bw_err err = {0};
    bw_kernel_images images;
    static const char *const names[] = {
        "sums.gfx1030.hsaco", "sums.gfx10-3-generic.hsaco", "sums.sm_80.cubin", "gfx1030.hsaco", "sums.gfx1030.usage",
        "more.gfx1030.hsaco", "a.b.gfx1030.hsaco",          ".gfx1030.hsaco",   "sums..hsaco"};
    assert_non_null(mkdtemp(folder));
    setenv("BW_KERNEL_DIR", folder, 1);
    assert_int_equal(bw_kernel_images_open("card", "gfx1030", &images, &err), BW_E_DEVICE);
    assert_non_null(strstr(err.text, "holds no kernels for gfx1030"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_file(folder, names[i], names[i]);
    assert_int_equal(bw_kernel_images_open("card", "gfx1030", &images, &err), BW_OK);
    assert_int_equal(images.n_images, 2);
    for (int i = 0; i < 2; i++) {
        bool is_sums = strcmp(images.images[i].family, "sums") == 0;
        assert_string_equal(images.images[i].data, is_sums ? "sums.gfx1030.hsaco" : "more.gfx1030.hsaco");
        assert_null(images.images[i].names);
    }
    bw_kernel_images_close(&images);
    assert_int_equal(bw_kernel_images_open("card", "gfx1031", &images, &err), BW_OK);
    assert_int_equal(images.n_images, 1);
    assert_string_equal(images.target, "gfx10-3-generic");
    bw_kernel_images_close(&images);
    write_file(folder, "sums.gfx1030.hsaco",
               "\x7f"
               "ELF, and then no more"); /* a driver would read on */
    assert_int_equal(bw_kernel_images_open("card", "gfx1030", &images, &err), BW_E_FORMAT);
    assert_non_null(strstr(err.text, "sums.gfx1030.hsaco: the code object is cut short"));
    assert_int_equal(images.n_images, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    assert_int_equal(bw_kernel_images_open("card", "gfx1030", &images, &err), BW_E_IO);
    assert_non_null(strstr(err.text, "which cannot be read"));
    unsetenv("BW_KERNEL_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_archive),
                                       cmocka_unit_test(test_damaged), cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, fill_rooms, NULL);
}
