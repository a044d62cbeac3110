/* beeswax: language models on CPUs and GPUs, from C.
 *
 * The only installed header. It owns the vocabulary that every other file shares (status codes, errors, element types),
 * the engine and session interface, and arrays: tensors and the operations on them (docs/api.md). It knows nothing of
 * HTTP, of files' insides or of any GPU vendor.
 *
 * Threads: one engine owns one device and one thread of its own. Every function here may be called from any thread,
 * except that one session must not be used from two threads at once (bw_session_cancel excepted).
 * Strings are UTF-8. Nothing here exits, aborts or prints.
 */
#ifndef BEESWAX_H
#define BEESWAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BW_API __attribute__((visibility("default")))
#define BW_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define BW_API
#define BW_PRINTF(f, a)
#endif

#define BW_VERSION "0.1.0"

/* ---- status -------------------------------------------------------------------------------------------------- */

/* 0 or negative. The rows are those of src/base/errors.def; a static assertion keeps the two lists equal. */
typedef int32_t bw_status;
enum {
    BW_OK = 0,
    BW_E_ARG = -1,         /* the caller passed something that can never be right */
    BW_E_MEMORY = -2,      /* no memory */
    BW_E_IO = -3,          /* the operating system refused a file or socket operation */
    BW_E_FORMAT = -4,      /* a file or text does not follow its format */
    BW_E_UNSUPPORTED = -5, /* well-formed, but not something this build can do */
    BW_E_RANGE = -6,       /* a number is outside what is allowed */
    BW_E_FULL = -7,        /* a bounded queue or pool is full; try again later */
    BW_E_CANCELLED = -8,   /* the caller asked for it to stop */
    BW_E_DEVICE = -9,      /* a device failed or is absent */
    BW_E_NOT_FOUND = -10,  /* the named thing does not exist */
    BW_E_CLOSED = -11,     /* the engine is shutting down */
    BW_E_TIMEOUT = -12,    /* nothing happened in the time given */
    BW_E_INTERNAL = -13,   /* our own bug */
    BW_E_LOST = -14        /* the device is lost: nothing works on it until the program is started again */
};

/* A status and one sentence: which file, tensor or field, which numbers, what to do. Zero-initialise before use. */
typedef struct bw_err {
    bw_status status;
    char text[500];
} bw_err;

/* The status' short name, such as "BW_E_FORMAT"; "BW_E_UNKNOWN" for a number that is not in the list. Static storage.
 */
BW_API const char *bw_status_name(bw_status status);
/* The library's version, such as "0.1.0". Static storage. */
BW_API const char *bw_version(void);

/* ---- devices and element types ------------------------------------------------------------------------------- */

/* Where arrays lie and who computes. One device computes one call at a time: use it from one thread at a time. */
typedef struct bw_device bw_device;
/* device: "cpu:0", "rocm:0", "cuda:1", "cpu" (NULL = cpu:0); "rocm" or "cuda" alone is the best of that kind: a
 * discrete one with kernels in this build, with most memory. n_threads: CPU only, 0 = all. An unknown or absent device
 * is BW_E_DEVICE or BW_E_NOT_FOUND with a sentence that names what there is. Where no other code of the process uses an
 * NVIDIA card yet, its stack limit becomes 0 (no kernel of ours has a stack, and 264 MiB are saved): kernels of your
 * own that recurse need cudaDeviceSetLimit(cudaLimitStackSize, ...) afterwards. */
BW_API bw_status bw_device_open(const char *device, int n_threads, bw_device **out, bw_err *err);
/* After every array on it was freed. NULL is allowed. */
BW_API void bw_device_close(bw_device *device);
/* "cpu:0"; lives as long as the device. */
BW_API const char *bw_device_name(const bw_device *device);

/* Element types, in the order of src/tensor/dtypes.def. The first eleven are plain; the others come in blocks of 32 to
 * 256 along the last dimension, laid out as in GGUF. */
typedef enum bw_dtype {
    BW_F32,
    BW_F16,
    BW_BF16,
    BW_F64,
    BW_I8,
    BW_I16,
    BW_I32,
    BW_I64,
    BW_U8,
    BW_U32,
    BW_F8_E4M3, /* largest value 448, no infinity */
    BW_Q4_0,
    BW_Q4_1,
    BW_Q5_0,
    BW_Q5_1,
    BW_Q8_0,
    BW_Q8_1,
    BW_Q2_K,
    BW_Q3_K,
    BW_Q4_K,
    BW_Q5_K,
    BW_Q6_K,
    BW_Q8_K,
    BW_IQ2_XXS,
    BW_IQ2_XS,
    BW_IQ3_XXS,
    BW_IQ1_S,
    BW_IQ4_NL,
    BW_IQ3_S,
    BW_IQ2_S,
    BW_IQ4_XS,
    BW_IQ1_M,
    BW_TQ1_0,
    BW_TQ2_0,
    BW_MXFP4,
    BW_NVFP4,
    BW_Q1_0,
    BW_Q2_0,
    BW_DTYPE_COUNT
} bw_dtype;
/* "f32", "q4_k", ...; "?" outside the list. Static storage. */
BW_API const char *bw_dtype_name(bw_dtype dtype);
/* By name, any case; BW_DTYPE_COUNT when there is none. */
BW_API bw_dtype bw_dtype_from_name(const char *name);

/* ---- engine -------------------------------------------------------------------------------------------------- */

typedef struct bw_engine bw_engine;   /* a model on a device, with its thread, KV cache and queue */
typedef struct bw_session bw_session; /* one request: its prompt, its sampler and the events it produces */

enum { BW_KV_F16 = 0, BW_KV_BF16 = 1, BW_KV_Q8_0 = 2 };

/* Loading progress; called on the thread that called bw_engine_new. */
typedef struct bw_progress {
    const char *stage;    /* "open", "loading", "repack", "warmup", "ready" */
    int32_t layers_done;  /* of layers_total */
    int32_t layers_total; /* 0 while unknown */
    uint64_t bytes_done;  /* weights placed so far */
    uint64_t bytes_total;
} bw_progress;

/* For bw_engine_options.n_ctx: the model's own context, as far as memory has room for n_parallel of them; in any case
 * as much as 32768 characters of text and an answer may need, where the model and memory have that for one sequence. */
enum { BW_CTX_MODEL = -1 };

typedef struct bw_engine_options {
    size_t struct_size; /* sizeof(bw_engine_options) */
    const char *model;  /* a GGUF or safetensors file (known by its bytes), or a directory with config.json; required */
    const char *device; /* "cpu:0", "rocm:0", "cuda:0"; NULL = the first GPU that can be used, else the CPU */
    int32_t n_threads;  /* 0 = one per processor that this process may use, no more than a quota is worth */
    int32_t n_ctx;      /* most tokens of one sequence; 0 = the smaller of the model's own and 4096; or BW_CTX_MODEL */
    int32_t n_parallel; /* most sequences in one step, 1..64; 0 = 4 */
    int32_t n_queue;    /* most sessions that wait for a place, 0 = 512; submit fails with BW_E_FULL beyond it */
    int32_t n_batch;    /* most tokens in one step (prompts are cut into chunks of this), 0 = 512 */
    int32_t kv_dtype;   /* BW_KV_* */
    int64_t kv_tokens;  /* tokens the KV cache holds over all sequences; 0 = n_ctx * n_parallel */
    bool no_warmup;     /* skip the one-token step that touches every weight, and on a GPU some larger ones */
    void (*progress)(void *user, const bw_progress *progress); /* may be NULL */
    void *progress_user;
    /* Called once, on the engine's thread, when the device is lost: requests fail with BW_E_LOST from then on, and only
     * a new process can use the device again. May be NULL. */
    void (*lost)(void *user, const bw_err *err);
    void *lost_user;
    int32_t
        n_gpu_layers; /* on a GPU: the last so many layers lie there, the CPU computes the others; 0 = as many as fit */
    bool require_gpu; /* refuse with BW_E_DEVICE or BW_E_MEMORY rather than let the CPU compute anything */
    bw_device *opened; /* NULL, or a device that is open already and takes the place of `device`: from the call of
                        * bw_engine_new on it is the engine's, which closes it, also on failure */
} bw_engine_options;

/* Defaults, struct_size set. */
BW_API void bw_engine_options_init(bw_engine_options *options);
/* Load a model and start its thread. On failure *engine is NULL and err says what is wrong with which file. */
BW_API bw_status bw_engine_new(const bw_engine_options *options, bw_engine **engine, bw_err *err);
/* Cancels what runs, joins the thread, frees everything. Sessions still held by the caller stay valid: they report
 * BW_E_CLOSED and must still be freed. NULL is allowed. */
BW_API void bw_engine_free(bw_engine *engine);

/* What there is to know of a loaded model. Strings live as long as the engine. */
typedef struct bw_model_info {
    const char *architecture; /* "llama", "qwen2", ... */
    const char *name;         /* from the file, or its base name */
    const char *quantisation; /* the commonest weight type, such as "Q4_K" */
    const char *device;       /* "cpu:0", "rocm:0", "rocm:0 (20 of 32 layers), cpu:0" */
    int64_t n_params;         /* parameters */
    int64_t weight_bytes;     /* as stored on the device */
    int64_t token_bytes;      /* of these what generating one token reads: of an embedding of its own one row */
    int64_t kv_bytes;         /* the whole KV cache */
    int32_t n_vocab, n_layers, n_embd;
    int32_t n_ctx;       /* per sequence, as configured */
    int32_t n_ctx_train; /* as trained */
    int32_t n_threads, n_parallel, n_queue;
    bool has_chat_template;
    const char *notice; /* a sentence where the CPU computes in a GPU's place, all or some layers; else NULL */
} bw_model_info;
BW_API void bw_engine_info(const bw_engine *engine, bw_model_info *info);

/* Counters since the engine began; each call fills one consistent snapshot. */
typedef struct bw_engine_stats {
    int64_t n_requests, n_completed, n_cancelled, n_failed, n_rejected;
    int64_t n_prompt_tokens; /* computed, not those found in the prefix cache */
    int64_t n_cached_tokens; /* found in the prefix cache */
    int64_t n_generated_tokens;
    int64_t n_steps;
    int32_t n_running, n_waiting;
    int32_t kv_pages_used, kv_pages_total;
    double step_seconds; /* time spent in steps */
} bw_engine_stats;
BW_API void bw_engine_get_stats(const bw_engine *engine, bw_engine_stats *stats);

/* What the engine holds, in bytes, as of its last look (every second or so while it works). */
typedef struct bw_engine_memory {
    int64_t weights, kv, scratch;  /* scratch: what lies on the GPU besides, for a step and kept for reuse */
    int64_t vram;                  /* what this process took of the GPU's memory; 0 on the CPU */
    int64_t vram_free, vram_total; /* the GPU's, whoever uses it, as its driver says; 0 on the CPU */
} bw_engine_memory;
BW_API void bw_engine_get_memory(const bw_engine *engine, bw_engine_memory *memory);

/* How long requests took, in seconds. */
typedef enum bw_latency {
    BW_LATENCY_QUEUE,          /* from submit to the first place */
    BW_LATENCY_FIRST_TOKEN,    /* from submit to the first token */
    BW_LATENCY_BETWEEN_TOKENS, /* from token to token */
    BW_LATENCY_END_TO_END,     /* from submit to the end, of those that went well */
    BW_LATENCY_COUNT
} bw_latency;
enum { BW_HISTOGRAM_BUCKETS = 20 };
typedef struct bw_histogram {
    uint64_t
        counts[BW_HISTOGRAM_BUCKETS + 1]; /* those within each bound and beyond the one before; at last all beyond */
    double sum;
} bw_histogram;
/* The bounds [BW_HISTOGRAM_BUCKETS], ascending, in seconds. */
BW_API const double *bw_histogram_bounds(void);
BW_API void bw_engine_get_latencies(const bw_engine *engine, bw_histogram latencies[BW_LATENCY_COUNT]);

/* ---- text ---------------------------------------------------------------------------------------------------- */

/* Bytes start to end (not included) of a text. */
typedef struct bw_text_span {
    size_t start, end;
} bw_text_span;

/* Text to tokens. parse_special: control tokens written in the text become those tokens; add_special: BOS/EOS as the
 * model wants. *tokens is freed with bw_free. */
BW_API bw_status bw_engine_tokenize(const bw_engine *engine, const char *text, size_t text_bytes, bool add_special,
                                    bool parse_special, int32_t **tokens, size_t *n_tokens, bw_err *err);
/* Tokens to text, NUL-terminated; control tokens are left out unless `special`. *text is freed with bw_free. */
BW_API bw_status bw_engine_detokenize(const bw_engine *engine, const int32_t *tokens, size_t n_tokens, bool special,
                                      char **text, size_t *text_bytes, bw_err *err);
/* A conversation as the model's chat template writes it (ChatML where the file has none). */
typedef struct bw_chat_text {
    char *text; /* NUL-terminated; freed with bw_free */
    size_t text_bytes;
    /* [n_literal], in order: the stretches of text that came from the messages or variables, not from the template.
     * Given to bw_request, no control token is read in them. Freed with bw_free. */
    bw_text_span *literal;
    size_t n_literal;
} bw_chat_text;
/* Renders the model's chat template. messages_json: an array of objects with role and content; extra_json: an object
 * with further template variables (tools, ...) or NULL. Messages may be as OpenAI's clients write them (content null or
 * absent, arguments of tool calls as text, role developer): they are changed to what the template wants. Tools that the
 * template would not show are BW_E_UNSUPPORTED. Submit the text with add_special and parse_special true: BOS is put in
 * front where the model asks for it and the template did not write it. On failure *chat is zeroed. */
BW_API bw_status bw_engine_render_chat(const bw_engine *engine, const char *messages_json, const char *extra_json,
                                       bool add_generation_prompt, bw_chat_text *chat, bw_err *err);
/* Frees what is in it and zeroes it. */
BW_API void bw_chat_text_free(bw_chat_text *chat);
/* Frees what the library handed out. NULL is allowed. */
BW_API void bw_free(void *memory);

/* ---- sessions ------------------------------------------------------------------------------------------------ */

typedef struct bw_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY bans the token */
} bw_logit_bias;

typedef struct bw_sampling {
    float temperature;        /* 0 = greedy */
    float top_p;              /* 1 = off, 0 = the likeliest token only */
    float min_p;              /* 0 = off */
    int32_t top_k;            /* 0 = off */
    float repetition_penalty; /* 1 = off; divides positive, multiplies negative logits (CTRL, arXiv:1909.05858) */
    float frequency_penalty;  /* 0 = off; as OpenAI defines it */
    float presence_penalty;   /* 0 = off */
    int32_t repeat_last_n;    /* the penalties' window in tokens; 0 = the whole context */
    uint64_t seed;
    bool has_seed; /* false = pick one at random */
    const bw_logit_bias *logit_bias;
    size_t n_logit_bias;
} bw_sampling;

typedef struct bw_request {
    size_t struct_size;    /* sizeof(bw_request) */
    const char *prompt;    /* text, or NULL when tokens are given */
    size_t prompt_bytes;   /* SIZE_MAX = NUL-terminated */
    const int32_t *tokens; /* [n_tokens], used when prompt is NULL */
    size_t n_tokens;
    bool add_special;   /* for text: BOS as the model wants, once: not where the text begins with it. Never EOS */
    bool parse_special; /* for text: read control tokens */
    int32_t max_tokens; /* most tokens to generate, >= 0; 0 evaluates the prompt only */
    bool ignore_eos;    /* go on to max_tokens */
    bw_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end the text; not part of it */
    size_t n_stop;
    int32_t n_logprobs; /* -1 = none, else this many of the likeliest beside the chosen one, 0..20 */
    bool echo_logprobs; /* also report each prompt token (BW_EVENT_PROMPT), with logprobs where n_logprobs >= 0 */
    /* Called from the engine's thread whenever bw_session_next would return at once; must not block. May be NULL. */
    void (*notify)(void *user);
    void *notify_user;
    int32_t min_tokens;         /* no end token, EOS or of stop_tokens, before so many are generated; 0 = off */
    const int32_t *stop_tokens; /* [n_stop_tokens] end the text as EOS does, also where ignore_eos is set */
    size_t n_stop_tokens;
    const char *const *bad_words; /* [n_bad_words] texts whose tokens, with or without a space before, never follow one
                                   * another in what is generated; another spelling in tokens may still come */
    size_t n_bad_words;
    uint64_t client; /* whose request it is, any number: clients share the queue and the engine's time evenly */
    /* For text: [n_literal], in order and apart, where no control token is read, not even one that lies there in part.
     * All else is tokenised as without them. */
    const bw_text_span *literal;
    size_t n_literal;
} bw_request;

/* Defaults: greedy off (temperature 1), all filters off, max_tokens 100, add_special true, struct_size set. */
BW_API void bw_request_init(bw_request *request);

typedef enum bw_event_type {
    BW_EVENT_PROMPT, /* one prompt token, when echo_logprobs */
    BW_EVENT_TEXT,   /* one or more generated tokens whose text is complete UTF-8 */
    BW_EVENT_END,    /* the last event of a session that went well */
    BW_EVENT_ERROR   /* the last event of one that did not; err says why */
} bw_event_type;

typedef enum bw_finish {
    BW_FINISH_NONE,
    BW_FINISH_EOS,
    BW_FINISH_LENGTH, /* max_tokens or the context is used up */
    BW_FINISH_STOP,   /* a stop string or a stop token */
    BW_FINISH_CANCELLED,
    BW_FINISH_ERROR
} bw_finish;

typedef struct bw_token_logprob {
    int32_t token;
    float logprob;    /* natural logarithm, of the model's distribution before temperature and filters */
    const char *text; /* the token's own bytes, not necessarily whole UTF-8 */
    size_t text_bytes;
} bw_token_logprob;

typedef struct bw_event {
    bw_event_type type;
    const char *text; /* TEXT and PROMPT: valid UTF-8, text_bytes long, NUL-terminated; until the next call */
    size_t text_bytes;
    /* the tokens behind this text, [n_tokens], in order; logprob is NAN unless asked for */
    const bw_token_logprob *tokens;
    size_t n_tokens;
    /* for each of these tokens n_top entries, likeliest first: top[i * n_top + j]; NULL when not asked for */
    const bw_token_logprob *top;
    size_t n_top;
    bw_finish finish;         /* END and ERROR */
    const char *stop_matched; /* END with BW_FINISH_STOP: the string, NULL for a token */
    int32_t n_prompt_tokens, n_cached_tokens, n_generated_tokens; /* END and ERROR: totals */
    double prompt_ms, generate_ms;                                /* END and ERROR */
} bw_event;

/* Queue a request. Everything in it is copied. BW_E_FULL when the queue is full, BW_E_RANGE when it can never fit. */
BW_API bw_status bw_engine_submit(bw_engine *engine, const bw_request *request, bw_session **session, bw_err *err);
/* Whether a request of this client would find a place in the queue now: BW_OK, or what bw_engine_submit would say. For
 * callers who have work to do before they can submit, or who try again; only submissions are counted as refused. */
BW_API bw_status bw_engine_check_room(bw_engine *engine, uint64_t client, bw_err *err);
/* The next event. timeout_ms: -1 waits, 0 polls; BW_E_TIMEOUT when there is none yet. After END or ERROR every further
 * call returns BW_E_CLOSED. The event's pointers are valid until the next call with this session or its end. */
BW_API bw_status bw_session_next(bw_session *session, int timeout_ms, bw_event *event, bw_err *err);
/* Ask for an early end; takes effect between two steps. The session still delivers END with BW_FINISH_CANCELLED. */
BW_API void bw_session_cancel(bw_session *session);
/* Cancels if still running and frees. notify is not called after this returns. NULL is allowed. */
BW_API void bw_session_free(bw_session *session);

/* ---- arrays -------------------------------------------------------------------------------------------------- */

/* A tensor on a device: a type, 0 to 6 dimensions (outermost first) and a buffer that several arrays may share. An
 * array is a value: views and shares cost nothing, and writing to one array never changes another, because a write to
 * a shared buffer copies it first. Operations run at once and give a new array.
 *
 * Every function that makes an array sets *out, which is freed with bw_array_free, or fails, sets *out to NULL and
 * says in err which operation, shapes and types it was. A dimension number may be negative: -1 is the last one.
 * Different arrays may be used from different threads where their devices are not the same.
 * BW_LEAK_CHECK=1 in the environment (0: never; the default where NDEBUG is not defined) logs at the program's end
 * which arrays were not freed. */
typedef struct bw_array bw_array;
enum { BW_MAX_DIMS = 6 };

/* Frees this array; the buffer goes with the last array that shares it. NULL is allowed. */
BW_API void bw_array_free(bw_array *x);
/* Arrays that are not freed yet, in the whole program. */
BW_API int64_t bw_array_live(void);
/* Another array of the same values, without a copy. */
BW_API bw_status bw_array_share(const bw_array *x, bw_array **out, bw_err *err);
BW_API bw_dtype bw_array_dtype(const bw_array *x);
BW_API int bw_array_n_dims(const bw_array *x);
BW_API const int64_t *bw_array_dims(const bw_array *x);    /* [n_dims], outermost first */
BW_API const int64_t *bw_array_strides(const bw_array *x); /* [n_dims], in elements; 0 where broadcast */
BW_API int64_t bw_array_elements(const bw_array *x);
/* Of its elements, as bw_array_read writes them: of a broadcast array more than its buffer has, but never more than
 * int64_t counts, as no shape is accepted whose bytes are (an empty array's dimensions other than 0 included). */
BW_API int64_t bw_array_bytes(const bw_array *x);
BW_API bw_device *bw_array_device(const bw_array *x);
BW_API bool bw_array_is_contiguous(const bw_array *x);
/* "f32 [2, 3]" into text (n_text bytes, always NUL-terminated); returns text. */
BW_API char *bw_array_describe(const bw_array *x, char *text, size_t n_text);
/* The elements of a contiguous array in the host's memory, to read; NULL for any other array. Until the array is
 * written to or freed. */
BW_API const void *bw_array_data(const bw_array *x);

/* Creation. data: the elements in order, bytes of them (checked against the shape), copied. */
BW_API bw_status bw_array_from_data(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims,
                                    const void *data, size_t n_bytes, bw_array **out, bw_err *err);
BW_API bw_status bw_array_zeros(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_array **out,
                                bw_err *err);
/* value is rounded to the type (integers: truncated, saturating). */
BW_API bw_status bw_array_full(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, double value,
                               bw_array **out, bw_err *err);
/* start, start + step, ... below end (above it when step < 0): [ceil((end - start) / step)]. */
BW_API bw_status bw_array_arange(bw_device *device, bw_dtype dtype, double start, double end, double step,
                                 bw_array **out, bw_err *err);

/* A random generator; each draw moves offset on. What the modes are, exactly: src/ops/random/bw_random.h. TORCH_CPU has
 * no way to jump: each draw seeds anew and steps over `offset` words, so that many draws from one generator take time
 * that grows with the square of their number, some nanoseconds a word. */
typedef enum bw_random_mode {
    BW_RANDOM_PHILOX,     /* Philox 4x32-10: the same numbers on every device */
    BW_RANDOM_TORCH_CUDA, /* those of torch.rand and torch.randn on a CUDA card; offset a multiple of 4 */
    BW_RANDOM_TORCH_CPU   /* those of torch.rand and torch.randn on a CPU (MT19937) */
} bw_random_mode;
typedef struct bw_random {
    uint64_t seed, offset; /* offset: 0 at first */
    bw_random_mode mode;
    int64_t cuda_threads; /* TORCH_CUDA: threads the card holds at once; 0 = more than there are elements */
} bw_random;
/* Uniform in [lo, up): f32 f64 f16 bf16. */
BW_API bw_status bw_array_rand(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                               double lo, double up, bw_array **out, bw_err *err);
/* Normal of this mean and standard deviation: f32 f64 f16 bf16. */
BW_API bw_status bw_array_randn(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims, bw_random *random,
                                double mean, double std, bw_array **out, bw_err *err);
/* The generator's own words: u32 or i64. */
BW_API bw_status bw_array_rand_bits(bw_device *device, bw_dtype dtype, int n_dims, const int64_t *dims,
                                    bw_random *random, bw_array **out, bw_err *err);

/* Views: no copy, except in reshape where the strides leave no other way. Block types: only what keeps their last
 * dimension whole. */
/* One dimension may be -1: what is left. */
BW_API bw_status bw_array_reshape(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err);
/* As reshape, but fails rather than copy. */
BW_API bw_status bw_array_view(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err);
BW_API bw_status bw_array_narrow(const bw_array *x, int dim, int64_t start, int64_t length, bw_array **out,
                                 bw_err *err);
BW_API bw_status bw_array_transpose(const bw_array *x, int dim_a, int dim_b, bw_array **out, bw_err *err);
/* order [n_dims]: dimension i of the result is dimension order[i] of x. */
BW_API bw_status bw_array_permute(const bw_array *x, const int *order, bw_array **out, bw_err *err);
/* Without dimension `dim`, whose size is 1. */
BW_API bw_status bw_array_squeeze(const bw_array *x, int dim, bw_array **out, bw_err *err);
/* With a dimension of size 1 before dimension `dim`; -1: at the end. */
BW_API bw_status bw_array_unsqueeze(const bw_array *x, int dim, bw_array **out, bw_err *err);
/* Dimensions of size 1, and missing ones in front, are repeated. */
BW_API bw_status bw_array_broadcast_to(const bw_array *x, int n_dims, const int64_t *dims, bw_array **out, bw_err *err);

/* Copies. */
/* Joined along a dimension that they have; n >= 1. */
BW_API bw_status bw_array_concat(const bw_array *const *arrays, size_t n, int dim, bw_array **out, bw_err *err);
/* Joined along a new dimension before dimension `dim`; -1: at the end. */
BW_API bw_status bw_array_stack(const bw_array *const *arrays, size_t n, int dim, bw_array **out, bw_err *err);
/* A contiguous array of its own. */
BW_API bw_status bw_array_copy(const bw_array *x, bw_array **out, bw_err *err);
/* x itself (shared) where it is contiguous, else a copy. */
BW_API bw_status bw_array_contiguous(const bw_array *x, bw_array **out, bw_err *err);
/* To another type: floats to integers truncate and saturate. */
BW_API bw_status bw_array_cast(const bw_array *x, bw_dtype dtype, bw_array **out, bw_err *err);
BW_API bw_status bw_array_to_device(const bw_array *x, bw_device *device, bw_array **out, bw_err *err);
/* The elements in order into the host's memory; n_bytes must be bw_array_bytes(x). */
BW_API bw_status bw_array_read(const bw_array *x, void *data, size_t n_bytes, bw_err *err);

/* Writes in place: x keeps its type and shape; other arrays keep their values. */
BW_API bw_status bw_array_write(bw_array *x, const void *data, size_t n_bytes, bw_err *err);
BW_API bw_status bw_array_fill(bw_array *x, double value, bw_err *err);
/* src goes over x[.., start .. start + size, ..] of dimension dim; the other dimensions are equal. */
BW_API bw_status bw_array_write_slice(bw_array *x, int dim, int64_t start, const bw_array *src, bw_err *err);

/* Files: safetensors. */
typedef struct bw_named_array {
    char *name;
    bw_array *array;
} bw_named_array;
/* One file, written whole or not at all (to a new file beside it, which is then renamed). Names are UTF-8 and
 * differ. A file that is there keeps its permissions, a link its target; what is no regular file is not written over.
 */
BW_API bw_status bw_array_save(const char *path, const bw_named_array *arrays, size_t n, bw_err *err);
/* Every tensor of a file, of an index of files or of a folder; *arrays [*n] is freed with bw_named_arrays_free. */
BW_API bw_status bw_array_load(bw_device *device, const char *path, bw_named_array **arrays, size_t *n, bw_err *err);
/* One of them, by name; BW_E_NOT_FOUND when there is none. */
BW_API bw_status bw_array_load_one(bw_device *device, const char *path, const char *name, bw_array **out, bw_err *err);
BW_API void bw_named_arrays_free(bw_named_array *arrays, size_t n);

/* ---- operations on arrays ------------------------------------------------------------------------------------ */

/* Types: one for all inputs and the result where nothing else is said; bw_array_cast comes before. What each operation
 * gives exactly, and in which types, stands in src/ops/<family>/bw_<family>.h. Inputs may have any strides; results are
 * contiguous where nothing else is said. i8 is data (made, viewed, copied, joined, saved); of the operations matmul
 * takes it, which gives i32, and dequantise and get_rows, which give floats: cast and the others refuse it. */

/* Elementwise. op: neg recip exp log sin cos tanh erf ceil floor round normcdf abs sqr sqrt gelu (the tanh form)
 * gelu_erf relu silu sign sigmoid; and with a parameter elu (alpha), powf (exponent). Float types. */
BW_API bw_status bw_array_unary(const bw_array *x, const char *op, bw_array **out, bw_err *err);
BW_API bw_status bw_array_unary_param(const bw_array *x, const char *op, double param, bw_array **out, bw_err *err);
/* op: add sub mul div maximum minimum. Shapes are broadcast to one another, as in compare and where. */
BW_API bw_status bw_array_binary(const bw_array *a, const char *op, const bw_array *b, bw_array **out, bw_err *err);
/* op: eq ne lt le gt ge; the result is u8, 1 where it holds. */
BW_API bw_status bw_array_compare(const bw_array *a, const char *op, const bw_array *b, bw_array **out, bw_err *err);
/* condition (an integer type) != 0 ? a : b */
BW_API bw_status bw_array_where(const bw_array *condition, const bw_array *a, const bw_array *b, bw_array **out,
                                bw_err *err);
/* x * mul + add */
BW_API bw_status bw_array_affine(const bw_array *x, double mul, double add, bw_array **out, bw_err *err);
/* act(gate) * up, both of one shape; act: silu gelu (the tanh form) gelu_erf. */
BW_API bw_status bw_array_glu(const bw_array *gate, const char *act, const bw_array *up, bw_array **out, bw_err *err);

/* a [.., m, k] times b [.., k, n]; leading dimensions are broadcast. */
BW_API bw_status bw_array_matmul(const bw_array *a, const bw_array *b, bw_array **out, bw_err *err);
/* Scaled dot product attention: q [B, H, T, D], k [B, Hkv, S, D], v [B, Hkv, S, Dv]; mask f32 broadcast to
 * [B, H, T, S] and added, or NULL; scale 0: 1 / sqrt(D); softcap 0: none. */
BW_API bw_status bw_array_sdpa(const bw_array *q, const bw_array *k, const bw_array *v, const bw_array *mask,
                               float scale, float softcap, bool causal, bw_array **out, bw_err *err);

/* op: sum mean min max argmin argmax, over the dimensions dims [n_dims] (n_dims 0: all). keep: they stay, of size 1.
 * argmin and argmax give u32, counted through those dimensions in order; mean is for floats, and adds up the short ones
 * in f32. */
BW_API bw_status bw_array_reduce(const bw_array *x, const char *op, int n_dims, const int *dims, bool keep,
                                 bw_array **out, bw_err *err);
/* Over another dimension than the last the result is a transposed view, not contiguous. */
BW_API bw_status bw_array_softmax(const bw_array *x, int dim, bw_array **out, bw_err *err);
BW_API bw_status bw_array_log_softmax(const bw_array *x, int dim, bw_array **out, bw_err *err);
/* Over the last dimension; weight and bias [D], each may be NULL. */
BW_API bw_status bw_array_rms_norm(const bw_array *x, const bw_array *weight, float eps, bw_array **out, bw_err *err);
BW_API bw_status bw_array_layer_norm(const bw_array *x, const bw_array *weight, const bw_array *bias, float eps,
                                     bw_array **out, bw_err *err);
/* x [N, C, ..] in n_groups groups of channels; weight and bias [C], each may be NULL. */
BW_API bw_status bw_array_group_norm(const bw_array *x, int64_t n_groups, const bw_array *weight, const bw_array *bias,
                                     float eps, bw_array **out, bw_err *err);
BW_API bw_status bw_array_cumsum(const bw_array *x, int dim, bw_array **out, bw_err *err);
/* Rotary positions by tables cos, sin [t, d/2] or [b, t, d/2]. layout: "half" for x [b, h, t, d] in pairs
 * (i, i + d/2), "pairs" in pairs (2i, 2i + 1), "thd" as half for x [b, t, h, d]. */
BW_API bw_status bw_array_rope(const bw_array *x, const bw_array *cos, const bw_array *sin, const char *layout,
                               bw_array **out, bw_err *err);

/* ids: u8, u32, i64, i16 or i32. An id outside the dimension gives 0, or is passed over where something is written. */
/* [.., J, ..] of ids [J]. */
BW_API bw_status bw_array_index_select(const bw_array *x, int dim, const bw_array *ids, bw_array **out, bw_err *err);
/* Like ids, which has x's number of dimensions. */
BW_API bw_status bw_array_gather(const bw_array *x, int dim, const bw_array *ids, bw_array **out, bw_err *err);
/* x with src [.., J, ..] added at ids [J]. */
BW_API bw_status bw_array_index_add(const bw_array *x, int dim, const bw_array *ids, const bw_array *src,
                                    bw_array **out, bw_err *err);
/* x with src put (or added) at ids, which has src's number of dimensions. */
BW_API bw_status bw_array_scatter(const bw_array *x, int dim, const bw_array *ids, const bw_array *src, bw_array **out,
                                  bw_err *err);
BW_API bw_status bw_array_scatter_add(const bw_array *x, int dim, const bw_array *ids, const bw_array *src,
                                      bw_array **out, bw_err *err);

/* Over the last dimension; stable; NaN last. Indices are u32. values or indices may be NULL. */
BW_API bw_status bw_array_argsort(const bw_array *x, bool descending, bw_array **out, bw_err *err);
BW_API bw_status bw_array_sort(const bw_array *x, bool descending, bw_array **values, bw_array **indices, bw_err *err);
/* The k greatest in descending order, or the k least in ascending. */
BW_API bw_status bw_array_topk(const bw_array *x, int64_t k, bool smallest, bw_array **values, bw_array **indices,
                               bw_err *err);

/* Convolutions: one size for each spatial dimension (height, width; 1-d uses the first). Zero-initialise, then 0 stands
 * for stride 1, dilation 1, groups 1. */
typedef struct bw_conv_options {
    int64_t stride[2], padding[2], dilation[2];
    int64_t output_padding[2]; /* transposed only */
    int64_t groups;
} bw_conv_options;
/* x [N, C, L] or [N, C, H, W], w [O, C / groups, k..], bias [O] or NULL; conv NULL: all zero. */
BW_API bw_status bw_array_conv1d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                 const bw_conv_options *conv, bw_array **out, bw_err *err);
BW_API bw_status bw_array_conv2d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                 const bw_conv_options *conv, bw_array **out, bw_err *err);
/* w [C, O / groups, k..] */
BW_API bw_status bw_array_conv_transpose1d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                           const bw_conv_options *conv, bw_array **out, bw_err *err);
BW_API bw_status bw_array_conv_transpose2d(const bw_array *x, const bw_array *w, const bw_array *bias,
                                           const bw_conv_options *conv, bw_array **out, bw_err *err);
/* op: avg max; kernel and stride are {height, width}. x [N, C, H, W]. */
BW_API bw_status bw_array_pool2d(const bw_array *x, const char *op, const int64_t kernel[2], const int64_t stride[2],
                                 bw_array **out, bw_err *err);
BW_API bw_status bw_array_upsample_nearest2d(const bw_array *x, int64_t height, int64_t width, bw_array **out,
                                             bw_err *err);
BW_API bw_status bw_array_upsample_bilinear2d(const bw_array *x, int64_t height, int64_t width, bool align_corners,
                                              bw_array **out, bw_err *err);
/* Windows as rows: x [N, C, L] to [N, Lo, C k]; x [N, C, H, W] to [N, Ho Wo, C kh kw]. conv: stride, padding, dilation.
 * col2im1d: windows [N, L, C, k] added up to [N, C, (L - 1) stride + k]. */
BW_API bw_status bw_array_im2col1d(const bw_array *x, int64_t kernel, const bw_conv_options *conv, bw_array **out,
                                   bw_err *err);
BW_API bw_status bw_array_im2col(const bw_array *x, const int64_t kernel[2], const bw_conv_options *conv,
                                 bw_array **out, bw_err *err);
BW_API bw_status bw_array_col2im1d(const bw_array *columns, int64_t stride, bw_array **out, bw_err *err);

/* Block types. The last dimension is whole blocks. */
/* f32 to a block type that has an encoder; importance [K] f32 or NULL. */
BW_API bw_status bw_array_quantise(const bw_array *x, bw_dtype dtype, const bw_array *importance, bw_array **out,
                                   bw_err *err);
/* To f32, f16 or bf16. */
BW_API bw_status bw_array_dequantise(const bw_array *x, bw_dtype dtype, bw_array **out, bw_err *err);
/* x f32 [.., K] times the transpose of w [N, K] of a block type: f32 [.., N]. x is rounded to q8_1 on the way. */
BW_API bw_status bw_array_quantised_matmul(const bw_array *x, const bw_array *w, bw_array **out, bw_err *err);
/* Mixture of experts: x f32 [T, 1 or S, K], w [E, N, K] of a block type, ids u32 [T, S]: f32 [T, S, N]. */
BW_API bw_status bw_array_indexed_moe(const bw_array *x, const bw_array *w, const bw_array *ids, bw_array **out,
                                      bw_err *err);
/* Rows ids [T] (i32) of a table [N, D] of any type: f32 [T, D]. */
BW_API bw_status bw_array_get_rows(const bw_array *table, const bw_array *ids, bw_array **out, bw_err *err);

#ifdef __cplusplus
}
#endif
#endif
