/* base: errors, memory, arena, strings, UTF-8, random numbers, files, the thread team. */
#include "../bw_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bw_arena.h"
#include "bw_clock.h"
#include "bw_err.h"
#include "bw_json.h"
#include "bw_log.h"
#include "bw_map.h"
#include "bw_mem.h"
#include "bw_rng.h"
#include "bw_str.h"
#include "bw_team.h"

static void errors(void **state)
{
    (void)state;
    bw_err err = {0};
    assert_int_equal(bw_fail(&err, BW_E_FORMAT, "tensor %s", "a"), BW_E_FORMAT);
    assert_string_equal(err.text, "tensor a");
    assert_int_equal(bw_err_prefix(&err, "file %d", 3), BW_E_FORMAT);
    assert_string_equal(err.text, "file 3: tensor a");
    assert_int_equal(bw_fail(NULL, BW_E_ARG, "x"), BW_E_ARG);
    assert_int_equal(bw_fail_errno(&err, ENOENT, "f"), BW_E_IO);
    assert_non_null(strstr(err.text, "No such file"));
    assert_string_equal(bw_status_name(BW_E_TIMEOUT), "BW_E_TIMEOUT");
    assert_string_equal(bw_status_name(77), "BW_E_UNKNOWN");
    char longer[900];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    bw_fail(&err, BW_E_ARG, "%s", longer);
    bw_err_prefix(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void memory(void **state)
{
    (void)state;
    int64_t live = bw_mem_live();
    void *p = bw_alloc(10), *q = bw_alloc_aligned(100);
    assert_non_null(p);
    assert_int_equal((uintptr_t)q % BW_ALIGN, 0);
    assert_int_equal(bw_mem_live(), live + 2);
    assert_null(bw_alloc_array(SIZE_MAX / 2, 3));
    assert_null(bw_alloc((size_t)PTRDIFF_MAX + 1));
    bw_mem_fail_at(2);
    void *r = bw_alloc(1);
    assert_non_null(r);
    assert_null(bw_alloc(1));
    void *s = bw_alloc(1);
    assert_non_null(s);
    bw_mem_fail_at(0);
    bw_free(p);
    bw_free(q);
    bw_free(r);
    bw_free(s);
    bw_free(NULL);
    assert_int_equal(bw_mem_live(), live);
}

static void arena(void **state)
{
    (void)state;
    bw_arena a;
    bw_arena_init(&a, 100000);
    int64_t live = bw_mem_live();
    for (int i = 1; i < 200; i++) {
        unsigned char *p = bw_arena_alloc_zero(&a, (size_t)i, 2);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_int_equal(p[i], 0);
        memset(p, 255, (size_t)i * 2);
    }
    assert_null(bw_arena_alloc(&a, 100000));
    assert_null(bw_arena_alloc(&a, SIZE_MAX));
    assert_string_equal(bw_arena_strndup(&a, "hello", 3), "hel");
    bw_arena_deinit(&a);
    assert_int_equal(bw_mem_live(), live);
}

static void strings(void **state)
{
    (void)state;
    bw_str s = {0};
    bw_str_add_json(&s, "a\"\\\n\x01\xC3\xA9\xFF", 8);
    assert_string_equal(s.data, "\"a\\\"\\\\\\n\\u0001\xC3\xA9\xEF\xBF\xBD\"");
    bw_str_clear(&s);
    bw_str_add_format(&s, "%d-%s", 5, "x");
    assert_string_equal(s.data, "5-x");
    bw_mem_fail_at(1);
    for (int i = 0; i < 1000; i++)
        bw_str_add(&s, "0123456789");
    bw_mem_fail_at(0);
    assert_true(s.failed);
    assert_null(bw_str_take(&s, NULL));
    size_t n;
    char *empty = bw_str_take(&s, &n);
    assert_string_equal(empty, "");
    assert_int_equal(n, 0);
    bw_free(empty);
    uint64_t u;
    int64_t i;
    double d;
    assert_true(bw_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    assert_false(bw_parse_u64("18446744073709551616", &u));
    assert_false(bw_parse_u64("-1", &u));
    assert_false(bw_parse_u64(" 1", &u));
    assert_true(bw_parse_i64("-7", &i) && i == -7);
    assert_false(bw_parse_i64("7x", &i));
    assert_true(bw_parse_f64("0.25", &d) && d == 0.25);
    assert_true(bw_parse_f64("-1e-3", &d) && d == -1e-3);
    static const char *const no_numbers[] = {"nan", "inf", "", " 1", "\t1", "1 ", "0x10", "1e999", "1.2.3", "--1"};
    for (size_t k = 0; k < sizeof no_numbers / sizeof *no_numbers; k++)
        assert_false(bw_parse_f64(no_numbers[k], &d));
    assert_true(bw_str_ends("a.gguf", ".gguf") && !bw_str_ends("f", ".gguf") && bw_str_starts("hf:x", "hf:"));
}

static void utf8(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        char b[4];
        int n = bw_utf8_encode(cp, b);
        if (cp >= 0xD800 && cp <= 0xDFFF) {
            assert_int_equal(n, 0);
            continue;
        }
        uint32_t back = 0;
        assert_int_equal(bw_utf8_decode(b, 4, &back), n);
        assert_int_equal(back, cp);
        for (int k = 1; k < n; k++) {
            assert_int_equal(bw_utf8_decode(b, (size_t)k, &back), 0);
            assert_true(bw_utf8_is_incomplete(b, (size_t)k));
        }
    }
    static const char *const bad[] = {"\x80",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",
                                      "\xED\xA0\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                                      "\xFF"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        uint32_t cp;
        assert_int_equal(bw_utf8_decode(bad[k], strlen(bad[k]), &cp), 0);
    }
    assert_false(bw_utf8_is_incomplete("\xE0\x80", 2));
    assert_int_equal(bw_utf8_valid_prefix("ab\xC3", 3), 2);
}

static void random_numbers(void **state)
{
    (void)state;
    /* known answers of the Random123 distribution (kat_vectors) */
    uint32_t zero[4] = {0}, key[2] = {0}, out[4];
    bw_philox4x32(zero, key, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u}, okey[2] = {~0u, ~0u};
    bw_philox4x32(ones, okey, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
    assert_int_equal(out[2], 0xa20bc7c6);
    assert_int_equal(out[3], 0x6d5451fd);
    bw_rng rng;
    bw_rng_init(&rng, 42);
    double sum = 0, square = 0;
    for (int i = 0; i < 20000; i++) {
        double u = bw_rng_f64(&rng);
        assert_true(u >= 0 && u < 1);
        double z = bw_rng_normal(&rng);
        sum += z;
        square += z * z;
        assert_true(bw_rng_below(&rng, 7) < 7);
    }
    assert_true(sum / 20000 < 0.05 && sum / 20000 > -0.05);
    assert_true(square / 20000 < 1.05 && square / 20000 > 0.95);
    unsigned char bytes[32] = {0};
    bw_rng_entropy(bytes, sizeof bytes);
    int nonzero = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        nonzero += bytes[i] != 0;
    assert_true(nonzero > 8);
}

static void files(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_map map;
    assert_int_equal(bw_map_open("/nonexistent/file", &map, &err), BW_E_IO);
    assert_int_equal(bw_map_open("/tmp", &map, &err), BW_E_ARG);
    assert_int_equal(bw_map_open("/dev/zero", &map, &err), BW_E_ARG);
    char dir[] = "/tmp/bw_base_XXXXXX";
    assert_non_null(mkdtemp(dir));
    char path[64], deep[64];
    snprintf(path, sizeof path, "%s/f", dir);
    FILE *f = fopen(path, "w");
    fputs("hello", f);
    fclose(f);
    assert_ok(bw_map_open(path, &map, &err), err);
    assert_int_equal(map.n_bytes, 5);
    assert_memory_equal(map.data, "hello", 5);
    bw_map_will_need(&map, 0, 100);
    bw_map_drop(&map, 0, 5);
    bw_map_close(&map);
    char *data;
    assert_int_equal(bw_file_read(path, 4, &data, NULL, &err), BW_E_RANGE);
    assert_ok(bw_file_read(path, 5, &data, NULL, &err), err);
    assert_string_equal(data, "hello");
    bw_free(data);
    assert_true(bw_file_exists(path) && !bw_file_exists(dir) && bw_dir_exists(dir));
    snprintf(deep, sizeof deep, "%s/a/b/c", dir);
    assert_ok(bw_dir_make(deep, &err), err);
    assert_true(bw_dir_exists(deep));
    snprintf(deep, sizeof deep, "%s/f/x", dir);
    assert_int_equal(bw_dir_make(deep, &err), BW_E_IO);
    assert_int_equal(bw_dir_make(path, &err), BW_E_IO); /* a file has that name */
    assert_int_equal(bw_dir_make("", &err), BW_E_ARG);
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

struct sums {
    _Atomic int64_t next, total;
    int64_t parts[64];
};

static void add_up(void *arg, bw_member *m)
{
    struct sums *s = arg;
    int64_t b, e;
    while (bw_team_take(&s->next, 1000, 7, &b, &e))
        for (int64_t i = b; i < e; i++)
            s->parts[m->rank] += i;
    bw_team_barrier(m);
    if (m->rank == 0)
        for (int i = 0; i < m->size; i++)
            s->total += s->parts[i];
    bw_team_barrier(m);
    assert_true(s->total == 499500);
    int64_t total = 0;
    for (int r = 0; r < m->size; r++) {
        bw_member other = {.rank = r, .size = m->size};
        bw_team_split(&other, 1001, 16, &b, &e);
        total += e - b;
    }
    assert_true(total == 1001);
}

static void team(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_team *t;
    assert_int_equal(bw_team_new(1000, &t, &err), BW_E_RANGE);
    for (int size = 1; size <= 5; size++) {
        assert_ok(bw_team_new(size, &t, &err), err);
        assert_int_equal(bw_team_size(t), size);
        for (int run = 0; run < 300; run++) {
            struct sums s = {0};
            bw_team_run(t, add_up, &s);
            assert_true(s.total == 499500);
            if (run % 100 == 0)
                bw_clock_sleep_ms(2); /* let the members fall asleep */
        }
        bw_team_free(t);
    }
    for (int n = 1; n < 8; n++) { /* every allocation of a start fails once */
        int64_t live = bw_mem_live();
        bw_mem_fail_at(n);
        bw_status status = bw_team_new(3, &t, &err);
        bw_mem_fail_at(0);
        if (status == BW_OK)
            bw_team_free(t);
        else
            assert_int_equal(status, BW_E_MEMORY);
        assert_int_equal(bw_mem_live(), live);
    }
}

static void idle_team_uses_no_cpu(void **state)
{
    (void)state;
    bw_err err = {0};
    bw_team *t;
    assert_ok(bw_team_new(4, &t, &err), err);
    struct sums s = {0};
    bw_team_run(t, add_up, &s);
    bw_clock_sleep_ms(50);
    clock_t before = clock();
    bw_clock_sleep_ms(200);
    clock_t used = clock() - before;
    bw_team_free(t);
    assert_true(used < CLOCKS_PER_SEC / 50);
}

/* A mapped file that another program cuts short: reading goes on, and is known to be wrong. */
static void file_that_shrinks(void **state)
{
    (void)state;
    char path[] = "/tmp/bw-shrink-XXXXXX";
    int fd = mkstemp(path);
    long page = sysconf(_SC_PAGESIZE);
    bw_err err = {0};
    bw_map map, other;
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        char *text = bw_alloc((size_t)page * 4);
        assert_non_null(text);
        memset(text, 'x', (size_t)page * 4);
        assert_int_equal(pwrite(fd, text, (size_t)page * 4, 0), page * 4);
        bw_free(text);
        assert_ok(bw_map_open(path, &map, &err), err);
        assert_ok(bw_map_open("/proc/self/exe", &other, &err), err);
        assert_ok(bw_map_check(true, &err), err);
        assert_int_equal(ftruncate(fd, page + 5), 0);
        if (turn == 0) { /* read, and so noticed */
            const volatile unsigned char *data = map.data;
            assert_int_equal(data[0], 'x');
            assert_ok(bw_map_check(false, &err), err);
            assert_int_equal(data[2 * page + 7], 0);
            assert_int_equal(data[3 * page], 0);
            assert_int_equal(bw_map_check(false, &err), BW_E_LOST);
            assert_non_null(strstr(err.text, path));
            assert_non_null(strstr(err.text, "was changed from"));
        }
        assert_int_equal(bw_map_check(true, &err), BW_E_LOST);
        bw_map_close(&other);
        assert_int_equal(bw_map_check(true, &err), BW_E_LOST);
        bw_map_close(&map);
        assert_ok(bw_map_check(true, &err), err);
    }
    /* what is not ours ends the program as ever */
    void *alien = mmap(NULL, (size_t)page * 4, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(alien != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGBUS, SIG_DFL); /* cmocka's */
        if (bw_map_open("/proc/self/exe", &map, NULL) != BW_OK)
            _exit(0);
        _exit(((const volatile char *)alien)[3 * page]);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    munmap(alien, (size_t)page * 4);
    /* a file that takes the name of the mapped one leaves ours as it is */
    assert_int_equal(ftruncate(fd, 4 * page), 0);
    assert_ok(bw_map_open(path, &map, &err), err);
    assert_int_equal(unlink(path), 0);
    assert_ok(bw_map_check(true, &err), err);
    bw_map_close(&map);
    close(fd);
}

static void log_lines(void **state)
{
    (void)state;
    int saved = dup(2), fds[2];
    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], 2);
    bw_log_configure(BW_LOG_INFO, true);
    bw_log_debug("hidden");
    bw_log_fields(BW_LOG_WARN, "\"n\":3", "a \"b\"");
    bw_log_configure(BW_LOG_INFO, false);
    dup2(saved, 2);
    close(saved);
    close(fds[1]);
    char line[300] = "";
    assert_true(read(fds[0], line, sizeof line - 1) > 0);
    close(fds[0]);
    assert_non_null(strstr(line, "\"level\":\"WARN\",\"fields\":{\"message\":\"a \\\"b\\\"\",\"n\":3}}\n"));
    assert_null(strstr(line, "hidden"));
}

/* Reading JSON while the n-th allocation fails, for every n and tokens of many lengths: a whole value or none. */
static void json_without_memory(void **state)
{
    (void)state;
    bw_json_init();
    for (size_t length = 1; length < 5000; length = length * 3 / 2 + 1) {
        bw_str text = {0};
        bw_str_add(&text, "{\"a\":[1,2.5,true,null],\"");
        for (size_t i = 0; i < length; i++)
            bw_str_add_char(&text, (char)('k' + i % 10));
        bw_str_add(&text, "\":\"\\u00e9\\\"");
        for (size_t i = 0; i < 2 * length; i++)
            bw_str_add_char(&text, 'x');
        bw_str_add(&text, "\",\"b\":{\"c\":[[[{\"d\":\"e\"}]]]}}");
        json_t *whole = NULL;
        for (int64_t n = 1; !whole; n++) {
            int64_t live = bw_mem_live();
            json_error_t why;
            bool no_memory;
            bw_mem_fail_at(n);
            whole = bw_json_load(text.data, text.len, 0, &why, &no_memory);
            bw_mem_fail_at(0);
            assert_true(whole ? !no_memory : no_memory);
            if (!whole)
                assert_int_equal(bw_mem_live(), live);
        }
        assert_int_equal(json_object_size(whole), 3);
        json_decref(whole);
        bw_str_deinit(&text);
    }
    bw_mem_fail_at(1); /* outside of reading a failure is one, and the next allocation is none */
    assert_null(json_string("x"));
    bw_mem_fail_at(0);
    json_t *next = json_string("x");
    assert_non_null(next);
    json_decref(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),
        cmocka_unit_test(memory),
        cmocka_unit_test(arena),
        cmocka_unit_test(strings),
        cmocka_unit_test(utf8),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(files),
        cmocka_unit_test(file_that_shrinks),
        cmocka_unit_test(team),
        cmocka_unit_test(idle_team_uses_no_cpu),
        cmocka_unit_test(json_without_memory),
        cmocka_unit_test(log_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
