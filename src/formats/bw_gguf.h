/* GGUF files, versions 2 and 3, little-endian, single or split; memory-mapped reading, and writing.
 * Every size from the file is checked before use; hostile files give BW_E_FORMAT with a sentence, never a crash.
 */
#ifndef BW_GGUF_H
#define BW_GGUF_H

#include "bw_err.h"
#include "bw_map.h"
#include "bw_tensor.h"

typedef enum bw_gguf_type {
    BW_GGUF_U8,
    BW_GGUF_I8,
    BW_GGUF_U16,
    BW_GGUF_I16,
    BW_GGUF_U32,
    BW_GGUF_I32,
    BW_GGUF_F32,
    BW_GGUF_BOOL,
    BW_GGUF_STRING,
    BW_GGUF_ARRAY,
    BW_GGUF_U64,
    BW_GGUF_I64,
    BW_GGUF_F64
} bw_gguf_type;

typedef struct bw_gguf_string {
    const char *data; /* not NUL-terminated, not necessarily valid UTF-8; points into the file */
    size_t n_bytes;
} bw_gguf_string;

typedef struct bw_gguf_value {
    bw_gguf_type type;
    union {
        uint64_t u; /* U8 U16 U32 U64 BOOL */
        int64_t i;  /* I8 I16 I32 I64 */
        double f;   /* F32 F64 */
        bw_gguf_string s;
        struct {
            bw_gguf_type type; /* the elements' */
            uint64_t n;
            const unsigned char *data;          /* raw little-endian elements, for numbers and bools; NULL otherwise */
            const bw_gguf_string *strings;      /* [n] for STRING */
            const struct bw_gguf_value *arrays; /* [n] for ARRAY (nested, at most 4 deep) */
        } a;
    };
} bw_gguf_value;

typedef struct bw_gguf_tensor {
    bw_gguf_string name;
    bw_dtype dtype;
    int n_dims;
    int64_t dims[BW_MAX_DIMS]; /* outermost first: the reverse of the file's order */
    const void *data;
    size_t n_bytes;
    int part; /* which file of a split model */
} bw_gguf_tensor;

typedef struct bw_gguf bw_gguf;

/* Open one file; when it is a split model's first file ("...-00001-of-00003.gguf", split.count), the others too. */
bw_status bw_gguf_open(const char *path, bw_gguf **gguf, bw_err *err);
/* The same from memory, which must outlive it; path is for messages. Used by fuzzers and tests. */
bw_status bw_gguf_open_memory(const void *data, size_t n_bytes, const char *path, bw_gguf **gguf, bw_err *err);
void bw_gguf_close(bw_gguf *gguf);

const char *bw_gguf_path(const bw_gguf *gguf);
uint32_t bw_gguf_version(const bw_gguf *gguf);
size_t bw_gguf_n_values(const bw_gguf *gguf);
/* The i-th key (NUL-terminated) and value. */
const char *bw_gguf_key(const bw_gguf *gguf, size_t i);
const bw_gguf_value *bw_gguf_value_at(const bw_gguf *gguf, size_t i);
/* NULL when the key is absent. O(1). */
const bw_gguf_value *bw_gguf_find(const bw_gguf *gguf, const char *key);
size_t bw_gguf_n_tensors(const bw_gguf *gguf);
const bw_gguf_tensor *bw_gguf_tensor_at(const bw_gguf *gguf, size_t i);
const bw_gguf_tensor *bw_gguf_find_tensor(const bw_gguf *gguf, const char *name);
/* The file this tensor lies in, and its offset there, for read-ahead and dropping. */
const bw_map *bw_gguf_map(const bw_gguf *gguf, int part);

/* Typed look-ups. found (may be NULL) tells absence; a value of the wrong type or out of range is BW_E_FORMAT naming
 * the key. *out is left alone when absent. Any integer type that holds the number is accepted. */
bw_status bw_gguf_get_i64(const bw_gguf *gguf, const char *key, int64_t *out, bool *found, bw_err *err);
bw_status bw_gguf_get_f64(const bw_gguf *gguf, const char *key, double *out, bool *found, bw_err *err);
bw_status bw_gguf_get_bool(const bw_gguf *gguf, const char *key, bool *out, bool *found, bw_err *err);
bw_status bw_gguf_get_string(const bw_gguf *gguf, const char *key, bw_gguf_string *out, bool *found, bw_err *err);
/* Element i of a numeric array value as a number. */
double bw_gguf_array_f64(const bw_gguf_value *array, uint64_t i);
int64_t bw_gguf_array_i64(const bw_gguf_value *array, uint64_t i);

/* Writing: declare values and tensors, then write all. Data is streamed through a callback so that a model larger than
 * memory can be written. A full disk leaves no half file under the final name (written to NAME.tmp, then renamed). */
typedef struct bw_gguf_writer bw_gguf_writer;
bw_status bw_gguf_writer_new(bw_gguf_writer **writer, bw_err *err);
void bw_gguf_writer_free(bw_gguf_writer *writer);
bw_status bw_gguf_writer_set(bw_gguf_writer *writer, const char *key, const bw_gguf_value *value, bw_err *err);
bw_status bw_gguf_writer_set_u32(bw_gguf_writer *writer, const char *key, uint32_t value, bw_err *err);
bw_status bw_gguf_writer_set_f32(bw_gguf_writer *writer, const char *key, float value, bw_err *err);
bw_status bw_gguf_writer_set_bool(bw_gguf_writer *writer, const char *key, bool value, bw_err *err);
bw_status bw_gguf_writer_set_string(bw_gguf_writer *writer, const char *key, const char *value, bw_err *err);
/* dims outermost first. */
bw_status bw_gguf_writer_add_tensor(bw_gguf_writer *writer, const char *name, bw_dtype dtype, int n_dims,
                                    const int64_t *dims, bw_err *err);
/* Called once per tensor, in order, to append exactly that tensor's bytes through bw_gguf_writer_put. */
typedef bw_status bw_gguf_fill_fn(void *user, bw_gguf_writer *writer, size_t tensor_index, bw_err *err);
bw_status bw_gguf_writer_put(bw_gguf_writer *writer, const void *bytes, size_t n_bytes, bw_err *err);
bw_status bw_gguf_writer_write(bw_gguf_writer *writer, const char *path, bw_gguf_fill_fn *fill, void *user,
                               bw_err *err);

#endif
