/* The worker's program, linked with the mock engine: command line, exit codes, signals; lines (a), (d) and (i) of the
 * worker contract's acceptance list. BW_MOCK_WORKER is the program's path. */
#include "../bw_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bw_clock.h"
#include "bw_mem.h"
#include "bw_model_path.h"
#include "bw_str.h"
#include "client.h"

static char folder[] = "/tmp/bw-worker-test-XXXXXX";
static char model[96], bad_model[96];

typedef struct child {
    pid_t pid;
    int out, err; /* read ends */
    uint16_t port;
} child;

/* Start the worker under a name (a link in our folder). argv[0] is filled in. */
static child spawn(const char *name, const char *const *argv, const char *const *env)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (symlink(BW_MOCK_WORKER, path) != 0)
        assert_int_equal(access(path, X_OK), 0); /* there from an earlier spawn */
    int out[2], err[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    child c = {.pid = fork()};
    if (c.pid == 0) {
        char *args[40] = {path};
        for (int i = 0; argv[i] && i < 38; i++)
            args[i + 1] = (char *)(uintptr_t)argv[i];
        unsetenv("LLORCH_API_TOKEN");
        for (int i = 0; env && env[i]; i += 2)
            setenv(env[i], env[i + 1], 1);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        execv(path, args);
        _exit(99);
    }
    close(out[1]);
    close(err[1]);
    c.out = out[0];
    c.err = err[0];
    return c;
}

static void read_all(int fd, bw_str *out)
{
    char text[4096];
    for (ssize_t n; (n = read(fd, text, sizeof text)) > 0;)
        bw_str_add_bytes(out, text, (size_t)n);
    if (!out->data)
        bw_str_add(out, "");
    close(fd);
}

/* Wait for its end; the exit code, or 1000 + a signal's number. */
static int finish(child *c, bw_str *out, bw_str *err)
{
    bw_str drop = {0};
    read_all(c->out, out ? out : &drop);
    read_all(c->err, err ? err : &drop);
    bw_str_deinit(&drop);
    int status = 0;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Runs to its end at once; stdout and stderr joined must hold a text. */
static void expect_exit(const char *name, const char *const *argv, const char *const *env, int code,
                        const char *on_stdout, const char *on_stderr)
{
    child c = spawn(name, argv, env);
    bw_str out = {0}, err = {0};
    int got = finish(&c, &out, &err);
    if (got != code || !strstr(out.data, on_stdout) || !strstr(err.data, on_stderr))
        fail_msg("%s %s: exit %d, stdout '%s', stderr '%s'", name, argv[0] ? argv[0] : "", got, out.data, err.data);
    bw_str_deinit(&out);
    bw_str_deinit(&err);
}

/* Read standard error up to the line that names the port. */
static void wait_for_port(child *c)
{
    bw_str text = {0};
    const char *at = NULL;
    while (!at || !strchr(at, '\n')) {
        char byte;
        if (read(c->err, &byte, 1) != 1)
            fail_msg("the worker ended early: %s", text.data);
        bw_str_add_char(&text, byte);
        at = strstr(text.data, "listening on http://");
    }
    c->port = (uint16_t)atoi(strrchr(at, ':') + 1);
    bw_str_deinit(&text);
    assert_true(c->port > 0);
}

static void expect_get(uint16_t port, const char *path, const char *text)
{
    answer a;
    client_ask(port, "GET", path, "", NULL, &a);
    if (a.status != 200 || !strstr(a.body.data, text))
        fail_msg("GET %s: %d %s", path, a.status, a.body.data);
    answer_deinit(&a);
}

/* The same of what comes to be true within five seconds, such as which device was found. */
static void expect_soon(uint16_t port, const char *path, const char *text)
{
    for (int i = 0;; i++) {
        answer a;
        client_ask(port, "GET", path, "", NULL, &a);
        bool found = a.status == 200 && strstr(a.body.data, text);
        if (!found && i == 250)
            fail_msg("GET %s: %d %s", path, a.status, a.body.data);
        answer_deinit(&a);
        if (found)
            return;
        bw_clock_sleep_ms(20);
    }
}

static void run_one_job(uint16_t port)
{
    answer a, s;
    client_ask(port, "POST", "/v1/inference", "", "{\"prompt\":\"hello\",\"max_tokens\":2}", &a);
    char *url = json_text(a.body.data, "sse_url");
    assert_non_null(url);
    client_ask(port, "GET", url, "", NULL, &s);
    assert_non_null(strstr(s.body.data, "data: [DONE]"));
    bw_free(url);
    answer_deinit(&a);
    answer_deinit(&s);
}

static void end_with(child *c, int signal_number, int code)
{
    int64_t start_ns = bw_clock_now_ns();
    kill(c->pid, signal_number);
    assert_int_equal(finish(c, NULL, NULL), code);
    assert_true(bw_clock_now_ns() - start_ns < 2000000000);
}

/* ---- (a) ---- */

static void test_hive_argv(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id", "worker-cpu-8080",    "--model", model, "--device", "0", "--port", "0",
                                "--queen-url", "http://127.0.0.1:1", NULL};
    child c = spawn("worker-cpu-8080", argv, NULL);
    wait_for_port(&c);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)c.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    bw_str expected = {0}, got = {0};
    for (int ch; (ch = fgetc(file)) != EOF;)
        bw_str_add_char(&got, (char)ch);
    fclose(file);
    bw_str_add_format(&expected, "%s/worker-cpu-8080", folder);
    bw_str_add_char(&expected, 0);
    for (int i = 0; argv[i]; i++)
        bw_str_add_bytes(&expected, argv[i], strlen(argv[i]) + 1);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, expected.len);
    bw_str_deinit(&expected);
    bw_str_deinit(&got);
    expect_get(c.port, "/", "healthy");
    run_one_job(c.port);
    end_with(&c, SIGTERM, 0);
}

static void test_founding_argv(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id",
                                "w",
                                "--model",
                                model,
                                "--model-ref",
                                "hf:m.gguf",
                                "--port=0",
                                "--hive-url=http://127.0.0.1:1",
                                "--rocm-device",
                                "0",
                                "--backend",
                                "cpu",
                                NULL};
    const char *const gpu[] = {"--worker-id", "w", "--model", model, "--port=0", "--rocm-device", "0", NULL};
    expect_exit("llm-worker-rbee", gpu, NULL, 1, "", "/nowhere/hip.so cannot be loaded"); /* here is no card */
    child c = spawn("llm-worker-rbee", argv, NULL);
    wait_for_port(&c);
    run_one_job(c.port);
    expect_get(c.port, "/info", "\"model_id\":\"hf:m.gguf\",\"device\":\"cpu:0\"");
    expect_get(c.port, "/info", "\"implementation\":\"llm-worker-rbee-cpu\"");
    end_with(&c, SIGINT, 0);
}

/* Clients are told a name and never a path; the hive is told what it said itself (life_test.c). */
static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *model, *want;
    } rows[] = {
        {"/a/b/Tiny-Q4_K_M.gguf", "Tiny-Q4_K_M"},
        {"/a/b/Tiny.safetensors", "Tiny"},
        {"/a/b/Tiny-00001-of-00003.gguf", "Tiny"},
        {"/a/b/folder/", "folder"},
        {"./Tiny.GGUF", "Tiny"},
        {"Tiny.Q4_1.gguf", "Tiny.Q4_1"},
        {"/c/rbee/models/org-repo/model.gguf", "org-repo"},
        {"/hub/models--org--repo--x/snapshots/0123abc", "org/repo--x"},
        {"/blobs/sha256-0123", "sha256-0123"},
        {"org/repo:file.gguf", "org/repo:file.gguf"},
        {"hf:org/repo", "hf:org/repo"},
        {"/", "model"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *name = bw_model_name(rows[i].model);
        assert_string_equal(name, rows[i].want);
        bw_free(name);
    }
    const char *const plain[] = {"--worker-id", "w", "--model", model, "--port=0", "--backend", "cpu", NULL};
    child c = spawn("llm-worker-rbee", plain, NULL);
    wait_for_port(&c);
    char *name = bw_model_name(model), words[120];
    snprintf(words, sizeof words, "\"id\":\"%s\"", name);
    assert_null(strchr(name, '/'));
    expect_get(c.port, "/v1/models", words);
    snprintf(words, sizeof words, "\"model_id\":\"%s\"", name);
    expect_get(c.port, "/info", words);
    snprintf(words, sizeof words, "model=\"%s\"", name);
    expect_get(c.port, "/metrics", words);
    bw_free(name);
    end_with(&c, SIGTERM, 0);
    const char *const named[] = {"--worker-id", "w",       "--model", model,       "--port=0", "--model-ref",
                                 model,         "--alias", "bee",     "--backend", "cpu",      NULL};
    c = spawn("llm-worker-rbee", named, NULL);
    wait_for_port(&c);
    expect_get(c.port, "/v1/models", "\"id\":\"bee\"");
    expect_get(c.port, "/info", "\"model_id\":\"bee\"");
    end_with(&c, SIGTERM, 0);
}

/* ---- (d) and the other texts ---- */

static void test_texts(void **state)
{
    (void)state;
    const char *const info[] = {"--nonsense", "--build-info", NULL};
    expect_exit("llm-worker-rbee-rocm", info, NULL, 0, BW_EXPECTED_BUILD "\n", "");
    expect_exit("worker-cuda-8080", info, NULL, 0, BW_EXPECTED_BUILD "\n", "");
    const char *const help[] = {"--help", NULL}, *const version[] = {"--version", NULL};
    expect_exit("llm-worker-rbee", help, NULL, 0, "Usage: llm-worker-rbee --worker-id", "");
    expect_exit("llm-worker-rbee", version, NULL, 0, "llm-worker-rbee 0.1.0\n", "");
}

static void test_usage_errors(void **state)
{
    (void)state;
    static const char *const lines[][10] = {
        {NULL},
        {"--worker-id", "w", "--model", "m", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "65536", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "-1", NULL},
        {"--worker-id", "w", "--model", "m", "--port", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--what", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--what=1", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "positional", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--device", "x", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--device", "tpu:1", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--device", "cuda:", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--rocm-device=-1", NULL},
        {"--worker-id", "w", "--model", "m", "--port", "1", "--local-mode=1", NULL},
        {"--worker-id", "w", "--worker-id", "v", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_exit("llm-worker-rbee-cpu", lines[i], NULL, 2, "", "Usage: llm-worker-rbee-cpu");
}

/* Variables stand in for flags that a hive does not pass; what is wrong names the variable. */
static void test_variables(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id", "w", "--model", model, "--port", "0", NULL};
    static const struct {
        const char *name, *value, *sentence;
        int code;
    } bad[] = {
        {"BW_CTX", "many", "invalid value 'many' for 'BW_CTX': auto or a whole number from 0 to 16777216", 2},
        {"BW_CTX", "-1", "invalid value '-1' for 'BW_CTX'", 2},
        {"BW_PARALLEL", "65", "invalid value '65' for 'BW_PARALLEL': auto or a whole number from 0 to 64", 2},
        {"BW_THREADS", "1x", "invalid value '1x' for 'BW_THREADS'", 2},
        {"BW_BATCH", "1.5", "invalid value '1.5' for 'BW_BATCH'", 2},
        {"BW_KV", "q4_0", "invalid value 'q4_0' for 'BW_KV': f16, bf16 or q8_0 is expected", 2},
        {"BW_KV_TOKENS", "99999999999999999999", "for 'BW_KV_TOKENS'", 2},
        {"BW_GPU_LAYERS", "0", "for 'BW_GPU_LAYERS': auto or a whole number from 1", 2},
        {"BW_REQUIRE_GPU", "maybe", "invalid value 'maybe' for 'BW_REQUIRE_GPU': 1 or 0 is expected", 2},
        {"BW_REQUIRE_GPU", "1", "--require-gpu and the processor", 1},
        {"BW_BACKEND", "tpu", "unknown backend 'tpu' (--backend or BW_BACKEND)", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *const env[] = {bad[i].name, bad[i].value, NULL};
        expect_exit("llm-worker-rbee-cpu", argv, env, bad[i].code, "", bad[i].sentence);
    }
    const char *const good[] = {"BW_CTX", "1234",     "BW_PARALLEL", "7",          "BW_LOCAL_MODE",
                                "yes",    "BW_ALIAS", "bee",         "BW_BACKEND", "cpu",
                                "BW_KV",  "",         NULL};
    child c = spawn("llm-worker-rbee-rocm", argv, good);
    wait_for_port(&c);
    expect_soon(c.port, "/info", "\"n_ctx\":1234,");
    expect_get(c.port, "/info", "\"n_parallel\":7,");
    expect_get(c.port, "/info", "\"device\":\"cpu:0\"");
    expect_get(c.port, "/v1/models", "\"bee\"");
    end_with(&c, SIGTERM, 0);
    const char *const both[] = {"--worker-id", "w", "--model", model, "--port", "0", "--ctx=99", NULL};
    c = spawn("llm-worker-rbee-cpu", both, good);
    wait_for_port(&c);
    expect_soon(c.port, "/info", "\"n_ctx\":99,"); /* a flag comes first */
    end_with(&c, SIGTERM, 0);
}

static void test_backends(void **state)
{
    (void)state;
    const char *const plain[] = {"--worker-id", "w", "--model", model, "--port", "0", NULL};
    const char *const metal[] = {"--worker-id", "w", "--model", model, "--port", "0", "--metal-device", "0", NULL};
    const char *const cuda[] = {"--worker-id", "w", "--model", model, "--port", "0", "--cuda-device", "0", NULL};
    const char *const rocm[] = {"--worker-id", "w", "--model", model, "--port", "0", "--backend", "rocm", NULL};
    const char *const gpu[] = {"--worker-id", "w", "--model", model, "--port", "0", "--require-gpu", NULL};
    const char *const number[] = {"--worker-id", "w", "--model", model, "--port", "0", "--device", "0", NULL};
    const char *const odd[] = {"--worker-id", "w", "--model", model, "--port", "0", "--backend", "tpu", NULL};
    expect_exit("llm-worker-rbee-rocm", plain, NULL, 1, "", "/nowhere/hip.so cannot be loaded");
    expect_exit("llm-worker-rbee-cuda", plain, NULL, 1, "", "/nowhere/cuda.so cannot be loaded");
    expect_exit("llm-worker-rbee-cpu", metal, NULL, 1, "", "no Metal backend");
    expect_exit("worker-8080", cuda, NULL, 1, "", "/nowhere/cuda.so cannot be loaded");
    expect_exit("llm-worker-rbee-cpu", cuda, NULL, 1, "", "/nowhere/cuda.so cannot be loaded");
    expect_exit("worker-8080", rocm, NULL, 1, "", "/nowhere/hip.so cannot be loaded");
    expect_exit("worker-8080", gpu, NULL, 1, "", "/nowhere/hip.so cannot be loaded");
    expect_exit("llm-worker-rbee-cpu", gpu, NULL, 1, "", "--require-gpu and the processor");
    expect_exit("llm-worker-rbee", odd, NULL, 1, "", "unknown backend 'tpu'");
    child c = spawn("worker-cuda-8080", plain, NULL); /* a hive's name: the first GPU, and without one the CPU */
    wait_for_port(&c);
    expect_soon(c.port, "/v1/ready", "\"notice\":\"no GPU can be used, computing on the CPU: ");
    end_with(&c, SIGTERM, 0);
    c = spawn("llm-worker-rbee-cpu", number, NULL); /* a hive passes a number in any case */
    wait_for_port(&c);
    run_one_job(c.port);
    end_with(&c, SIGTERM, 0);
    const char *const cpu[] = {"--worker-id", "w", "--model", model, "--port", "0", "--backend", "cpu", NULL};
    c = spawn("llm-worker-rbee-rocm", cpu, NULL);
    wait_for_port(&c);
    end_with(&c, SIGTERM, 0);
}

/* A line of the hive's with `more` behind it, which ends at once with 1 and a sentence. Two AMD cards that no build has
 * kernels for, the first within the processor: opening one says which it was. */
static void refuses(const char *name, const char *more, const char *sentence)
{
    static const char *const cards[] = {"BW_HIP_LIBRARY", BW_FAKE_HIP, "FAKE_HIP_CARDS", "2,1,gfx803 24,0,gfx803",
                                        NULL};
    const char *argv[16] = {"--worker-id", "w", "--model", model, "--port", "0"};
    char words[200];
    int n = 6;
    snprintf(words, sizeof words, "%s", more);
    for (char *save, *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    expect_exit(name, argv, cards, 1, "", sentence);
}

static void test_which_card(void **state)
{
    (void)state;
    static const char hive[] = "worker-cuda-8080", rocm[] = "llm-worker-rbee-rocm";
    refuses(hive, "--device 1", "Error: rocm:1 ");
    refuses(hive, "--device 0", "Error: rocm:0 ");
    refuses(hive, "--device 5", "Error: device rocm:5 does not exist; there are 2");
    refuses(hive, "--device cuda:1", "/nowhere/cuda.so cannot be loaded");
    refuses(hive, "--device rocm:0", "Error: rocm:0 ");
    refuses(hive, "--device GPU-1", "Error: rocm:1 ");
    refuses(hive, "--device gpu --require-gpu", "Error: rocm:1 ");
    refuses(hive, "--device cpu:1", "device cpu:1 does not exist");
    refuses(hive, "--device metal:0", "no Metal backend");
    refuses(hive, "--require-gpu", "Error: rocm:1 "); /* the discrete one */
    refuses(hive, "--backend rocm", "Error: rocm:1 ");
    refuses(hive, "--backend rocm --device 0", "Error: rocm:0 ");
    refuses(hive, "--backend rocm --device cuda:0", "--backend rocm and --device cuda:0 exclude each other");
    refuses(hive, "--backend cuda --rocm-device 0", "--backend cuda and --rocm-device 0 exclude each other");
    refuses(hive, "--backend rocm --device cpu:0", "--backend rocm and --device cpu:0 exclude each other");
    refuses(hive, "--rocm-device 0 --device 1", "--rocm-device 0 and --device 1 exclude each other");
    refuses(hive, "--rocm-device 0 --device cuda:0", "--rocm-device 0 and --device cuda:0 exclude each other");
    refuses(hive, "--rocm-device cuda:0", "--rocm-device cuda:0 names a device of another kind");
    refuses(hive, "--rocm-device 1 --device 1", "Error: rocm:1 ");
    refuses(rocm, "", "Error: rocm:1 ");
    refuses(rocm, "--device 0", "Error: rocm:0 ");
    refuses(rocm, "--device 2", "Error: device rocm:2 does not exist; there are 2");
    refuses(rocm, "--device cuda:0", "/nowhere/cuda.so cannot be loaded");
    refuses("llm-worker-rbee-cpu", "--device rocm:1", "Error: rocm:1 ");
    refuses("llm-worker-rbee-cuda", "--device 0", "/nowhere/cuda.so cannot be loaded");
    const char *const cpu[] = {"--worker-id", "w", "--model", model, "--port", "0", "--device", "cpu:0", NULL};
    child c = spawn(rocm, cpu, NULL);
    wait_for_port(&c);
    expect_get(c.port, "/info", "\"device\":\"cpu:0\"");
    end_with(&c, SIGTERM, 0);
    const char *const number[] = {"--worker-id", "w", "--model", model, "--port", "0", "--device", "0", NULL};
    c = spawn(hive, number, NULL); /* no GPU at all: a hive passes a number in any case */
    wait_for_port(&c);
    expect_soon(c.port, "/v1/ready", "\"notice\":\"no GPU can be used, computing on the CPU: ");
    end_with(&c, SIGTERM, 0);
}

static void test_failures(void **state)
{
    (void)state;
    const char *const missing[] = {"--worker-id", "w", "--model", "org/none:x.gguf", "--port", "0", NULL};
    const char *const broken[] = {"--worker-id", "w", "--model", bad_model, "--port", "0", NULL};
    const char *const local[] = {"--worker-id", "w", "--model", model, "--port", "0", "--local-mode", NULL};
    const char *const token[] = {"LLORCH_API_TOKEN", "secret", NULL};
    const char *const empty[] = {"LLORCH_API_TOKEN", "", NULL};
    expect_exit("llm-worker-rbee", missing, NULL, 1, "", "Error: model 'org/none:x.gguf' is no file");
    expect_exit("llm-worker-rbee", broken, NULL, 1, "", "Error: cannot load the model: ");
    expect_exit("llm-worker-rbee", local, token, 1, "", "--local-mode and LLORCH_API_TOKEN");
    child c = spawn("llm-worker-rbee", local, empty);
    wait_for_port(&c);
    char port[16];
    snprintf(port, sizeof port, "%u", c.port);
    const char *const taken[] = {"--worker-id", "w", "--model", model, "--port", port, NULL};
    expect_exit("llm-worker-rbee", taken, NULL, 1, "", "cannot bind 0.0.0.0 port");
    expect_get(c.port, "/v1/ready", "ready"); /* no token needed */
    end_with(&c, SIGTERM, 0);
}

static void test_token_from_environment(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id", "w", "--model", model, "--port", "0", NULL};
    const char *const token[] = {"LLORCH_API_TOKEN", "secret", "LLORCH_LOG_FORMAT", "json", NULL};
    child c = spawn("llm-worker-rbee", argv, token);
    wait_for_port(&c);
    answer a;
    client_ask(c.port, "GET", "/v1/models", "", NULL, &a);
    assert_int_equal(a.status, 401);
    answer_deinit(&a);
    client_ask(c.port, "GET", "/v1/models", "Authorization: Bearer secret\r\n", NULL, &a);
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    kill(c.pid, SIGTERM);
    bw_str out = {0}, err = {0};
    assert_int_equal(finish(&c, &out, &err), 0);
    /* sha256("secret") = 2bb80d...; the token itself must not be there */
    assert_non_null(strstr(err.data, "\"path\":\"/v1/models\",\"status\":200"));
    assert_non_null(strstr(err.data, "\"identity\":\"token:2bb80d\""));
    assert_null(strstr(err.data, "secret"));
    assert_null(strstr(err.data, "NO TOKEN"));
    bw_str_deinit(&out);
    bw_str_deinit(&err);
}

/* ---- (i) ---- */

/* A hive's programs take any host and any page unless the environment says otherwise. */
static void test_hosts_and_pages(void **state)
{
    (void)state;
    const char *argv[] = {"--worker-id", "w", "--model", model, "--port", "0", "--local-mode", NULL};
    const char *const strict[] = {"BW_ALLOW_HOST", "localhost", "BW_CORS", "http://ui.example", NULL};
    for (int i = 0; i < 2; i++) {
        child c = spawn("llm-worker-rbee-cpu", argv, i ? strict : NULL);
        wait_for_port(&c);
        answer a;
        client_ask(c.port, "GET", "/health", "Origin: http://evil.example\r\n", NULL, &a);
        char *origin = answer_header(&a, "access-control-allow-origin");
        assert_int_equal(a.status, 200);
        assert_true(i ? !origin : strcmp(origin, "*") == 0);
        bw_free(origin);
        answer_deinit(&a);
        int fd = client_connect(c.port);
        static const char named[] = "GET /health HTTP/1.1\r\nHost: gpubox.lan\r\nConnection: close\r\n\r\n";
        client_send(fd, named, sizeof named - 1);
        client_read(fd, &a, NULL);
        close(fd);
        assert_int_equal(a.status, i ? 403 : 200);
        answer_deinit(&a);
        kill(c.pid, SIGTERM);
        assert_int_equal(finish(&c, NULL, NULL), 0);
    }
}

static void test_signals(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id", "w", "--model", model, "--port", "0", NULL};
    const char *const slow[] = {"MOCK_TOKEN_US", "20000", NULL}, *const loading[] = {"MOCK_LOAD_MS", "20000", NULL};
    child c = spawn("llm-worker-rbee", argv, slow); /* while it generates, with a stream open */
    wait_for_port(&c);
    bw_clock_sleep_ms(100);
    int fd = client_connect(c.port);
    static const char request[] =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 48\r\n\r\n{\"prompt\":\"a b\",\"max_tokens\":3000,\"stream\":true}";
    assert_true(client_send(fd, request, sizeof request - 1));
    answer a;
    client_read(fd, &a, "\" b\"");
    assert_int_equal(a.status, 200);
    end_with(&c, SIGTERM, 0);
    answer_deinit(&a);
    close(fd);
    c = spawn("llm-worker-rbee", argv,
              NULL); /* in the middle of a step of 10 s, as a long prompt is on a slow machine */
    wait_for_port(&c);
    bw_clock_sleep_ms(100);
    client_ask(c.port, "POST", "/v1/jobs", "", "{\"prompt\":\"a @slow=10000\"}", &a);
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    bw_clock_sleep_ms(100);
    end_with(&c, SIGTERM, 0);
    for (int i = 0; i < 2; i++) { /* while it loads, with a request held */
        c = spawn("llm-worker-rbee", argv, loading);
        wait_for_port(&c);
        expect_get(c.port, "/", "healthy");
        expect_get(c.port, "/v1/ready", "\"state\":\"loading\"");
        fd = client_connect(c.port);
        assert_true(client_send(fd, request, sizeof request - 1));
        bw_clock_sleep_ms(100);
        end_with(&c, i ? SIGTERM : SIGINT, 0);
        client_read(fd, &a, NULL);
        assert_int_equal(a.status, 503);
        answer_deinit(&a);
        close(fd);
    }
}

/* ---- the port opens before the GPU does ---- */

/* A hive's copy on one AMD card, whose driver takes so long to open. */
static child spawn_on_card(const char *hang_ms)
{
    static char kernels[128];
    snprintf(kernels, sizeof kernels, "%s/kernels", folder);
    const char *const argv[] = {"--worker-id", "w", "--model", model, "--port", "0", "--device", "0", NULL};
    const char *const env[] = {"BW_HIP_LIBRARY", BW_FAKE_HIP,        "FAKE_HIP_CARDS", "24,0,gfx90a", "BW_KERNEL_DIR",
                               kernels,          "FAKE_HIP_HANG_MS", hang_ms,          NULL};
    child c = spawn("worker-cuda-8080", argv, env);
    wait_for_port(&c);
    return c;
}

static void test_slow_driver(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) { /* it hangs: the probes are answered, and the worker can be ended */
        child c = spawn_on_card("60000");
        expect_get(c.port, "/", "\"implementation\":\"llm-worker-rbee\"");
        expect_get(c.port, "/health", "healthy");
        expect_get(c.port, "/v1/ready", "\"state\":\"loading\"");
        expect_get(c.port, "/info", "\"device\":\"unknown\"");
        end_with(&c, numbers[i], 0);
    }
    child c = spawn_on_card("300"); /* it takes its time: a job that came meanwhile is run, and all is told */
    expect_get(c.port, "/v1/ready", "\"state\":\"loading\"");
    run_one_job(c.port);
    expect_get(c.port, "/info", "\"device\":\"rocm:0\"");
    expect_get(c.port, "/info", "\"implementation\":\"llm-worker-rbee-rocm\"");
    expect_get(c.port, "/", "\"implementation\":\"llm-worker-rbee-rocm\"");
    expect_get(c.port, "/metrics", "device=\"rocm:0\"");
    end_with(&c, SIGTERM, 0);
}

/* Under nohup a terminal's end is not the worker's. */
static void test_nohup(void **state)
{
    (void)state;
    const char *const argv[] = {"--worker-id", "w", "--model", model, "--port", "0", NULL};
    signal(SIGHUP, SIG_IGN);
    child c = spawn("llm-worker-rbee-cpu", argv, NULL);
    signal(SIGHUP, SIG_DFL);
    wait_for_port(&c);
    kill(c.pid, SIGHUP);
    bw_clock_sleep_ms(100);
    run_one_job(c.port);
    end_with(&c, SIGTERM, 0);
}

/* ---- where models are looked for ---- */

static void make_file(const char *path)
{
    char dir[256];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *slash = dir + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        mkdir(dir, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("ok", file);
    fclose(file);
}

static void expect_path(const char *id, const char *tail)
{
    char *path = NULL;
    bw_err err = {0};
    bw_status status = bw_model_path_find(id, &path, &err);
    if (!tail) {
        assert_int_equal(status, BW_E_NOT_FOUND);
        assert_non_null(strstr(err.text, id));
        return;
    }
    if (status != BW_OK || !bw_str_ends(path, tail))
        fail_msg("%s: %s %s", id, path ? path : "", err.text);
    bw_free(path);
}

static void test_model_path(void **state)
{
    (void)state;
    static const char *const files[] = {
        "rbee/models/org-repo/model.gguf",
        "rbee/models/org-repo-file.gguf/model.gguf",
        "rbee/models/org-tensors/model.safetensors",
        "beeswax/models/mine-small/model.gguf",
        "huggingface/hub/models--hub--many/snapshots/abc/many-F16.gguf",
        "huggingface/hub/models--hub--many/snapshots/abc/many-Q4_0.gguf",
        "huggingface/hub/models--hub--tensors/snapshots/old/model.safetensors",
        "huggingface/hub/models--hub--tensors/snapshots/new/model.safetensors",
    };
    char path[256];
    setenv("XDG_CACHE_HOME", folder, 1);
    unsetenv("HF_HOME");
    unsetenv("HF_HUB_CACHE");
    expect_path("org/repo", NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        make_file(path);
    }
    snprintf(path, sizeof path, "%s/huggingface/hub/models--hub--tensors/refs/main", folder);
    make_file(path);
    FILE *file = fopen(path, "w");
    fputs("new\n", file);
    fclose(file);
    expect_path(model, "/model.gguf");
    snprintf(path, sizeof path, "hf:%s", model);
    expect_path(path, "/model.gguf");
    expect_path(folder, folder);
    expect_path("org/repo", "/rbee/models/org-repo/model.gguf");
    expect_path("hf:org/repo:file.gguf", "/rbee/models/org-repo-file.gguf/model.gguf");
    expect_path("org/tensors", "/rbee/models/org-tensors");
    expect_path("mine/small", "/beeswax/models/mine-small/model.gguf");
    expect_path("hub/many", "/abc/many-Q4_0.gguf");
    expect_path("hub/many:many-F16.gguf", "/abc/many-F16.gguf");
    expect_path("hub/tensors", "/snapshots/new");
    expect_path("hub/many:none.gguf", NULL);
    expect_path("hub/many:../../../../../worker-test", NULL);
    expect_path("../../etc/passwd", NULL);
    char *none = NULL;
    assert_int_equal(bw_model_path_find("", &none, NULL), BW_E_ARG);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.gguf", folder);
    snprintf(bad_model, sizeof bad_model, "%s/bad.gguf", folder);
    make_file(model);
    FILE *file = fopen(bad_model, "w");
    fputs("bad", file);
    fclose(file);
    char kernels[96];
    snprintf(kernels, sizeof kernels, "%s/kernels/any.gfx90a.hsaco", folder);
    make_file(kernels);
    assert_non_null(file = fopen(kernels, "w"));
    fputs("code", file);
    fclose(file);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    /* no GPU, whatever this machine has */
    setenv("BW_HIP_LIBRARY", "/nowhere/hip.so", 1);
    setenv("BW_CUDA_LIBRARY", "/nowhere/cuda.so", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hive_argv),
        cmocka_unit_test(test_founding_argv),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_usage_errors),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_backends),
        cmocka_unit_test(test_which_card),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_token_from_environment),
        cmocka_unit_test(test_hosts_and_pages),
        cmocka_unit_test(test_slow_driver),
        cmocka_unit_test(test_nohup),
        cmocka_unit_test(test_model_path),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
