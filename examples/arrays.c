/* Arrays from libbeeswax: one layer of a network, computed, checked, saved and loaded again.
 *
 *   cc arrays.c -lbeeswax -o arrays
 *   ./arrays layer.safetensors
 */
#include <beeswax.h>

#include <stdio.h>

/* Return what failed; the caller frees. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != BW_OK)                                                                                           \
            return err->status;                                                                                        \
    } while (0)

/* y = softmax(relu(x w + b)) over the last dimension. x [n, k], w [k, m], b [m]. */
static bw_status layer(const bw_array *x, const bw_array *w, const bw_array *b, bw_array **y, bw_err *err)
{
    bw_array *product = NULL, *sum = NULL, *active = NULL;
    bw_status status = bw_array_matmul(x, w, &product, err);
    if (status == BW_OK)
        status = bw_array_binary(product, "add", b, &sum, err); /* b is broadcast to [n, m] */
    if (status == BW_OK)
        status = bw_array_unary(sum, "relu", &active, err);
    if (status == BW_OK)
        status = bw_array_softmax(active, -1, y, err);
    bw_array_free(product);
    bw_array_free(sum);
    bw_array_free(active);
    return status;
}

/* Copy on write: `edited` shares w's memory until it is written to, and w keeps its values. */
static bw_status edit(const bw_array *w, bw_err *err)
{
    bw_array *edited;
    TRY(bw_array_share(w, &edited, err));
    bool shares = bw_array_data(edited) == bw_array_data(w);
    bw_status status = bw_array_fill(edited, 0, err);
    if (status == BW_OK)
        printf("shared before the write: %s, after: %s\n", shares ? "yes" : "no",
               bw_array_data(edited) == bw_array_data(w) ? "yes" : "no");
    bw_array_free(edited);
    return status;
}

/* The file holds what was saved, byte for byte. */
static bw_status save_and_load(bw_device *device, const char *path, bw_array *y, bw_err *err)
{
    bw_array *back, *same, *all = NULL;
    char name[] = "y";
    TRY(bw_array_save(path, &(bw_named_array){name, y}, 1, err));
    TRY(bw_array_load_one(device, path, "y", &back, err));
    bw_status status = bw_array_compare(y, "eq", back, &same, err);
    if (status == BW_OK) {
        status = bw_array_reduce(same, "min", 0, NULL, false, &all, err);
        bw_array_free(same);
    }
    if (status == BW_OK)
        printf("loaded from the file as saved: %s\n", *(const unsigned char *)bw_array_data(all) ? "yes" : "no");
    bw_array_free(all);
    bw_array_free(back);
    return status;
}

static bw_status run(bw_device *device, const char *path, bw_err *err)
{
    bw_array *x = NULL, *w = NULL, *b = NULL, *y = NULL, *sums = NULL, *wrong = NULL;
    bw_random random = {.seed = 42, .mode = BW_RANDOM_PHILOX};
    bw_status status = bw_array_randn(device, BW_F32, 2, (int64_t[]){4, 8}, &random, 0, 1, &x, err);
    if (status == BW_OK)
        status = bw_array_randn(device, BW_F32, 2, (int64_t[]){8, 3}, &random, 0, 0.5, &w, err);
    if (status == BW_OK)
        status = bw_array_zeros(device, BW_F32, 1, (int64_t[]){3}, &b, err);
    if (status == BW_OK)
        status = layer(x, w, b, &y, err);
    if (status == BW_OK)
        status = bw_array_reduce(y, "sum", 1, (int[]){-1}, false, &sums, err);
    float host[4];
    if (status == BW_OK)
        status = bw_array_read(sums, host, sizeof host, err);
    if (status == BW_OK) {
        char text[64];
        printf("y is %s on %s; its rows add up to %.3f %.3f %.3f %.3f\n", bw_array_describe(y, text, sizeof text),
               bw_device_name(device), (double)host[0], (double)host[1], (double)host[2], (double)host[3]);
        status = edit(w, err);
    }
    if (status == BW_OK)
        status = save_and_load(device, path, y, err);
    if (status == BW_OK) { /* a mistake is a sentence, not a crash */
        bw_err mistake = {0};
        bw_array_matmul(w, x, &wrong, &mistake);
        printf("a mistake: %s\n", mistake.text);
    }
    bw_array *const all[] = {x, w, b, y, sums, wrong};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bw_array_free(all[i]);
    return status;
}

int main(int argc, char **argv)
{
    bw_err err = {0};
    bw_device *device;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.safetensors\n", argv[0]);
        return 2;
    }
    bw_status status = bw_device_open(NULL, 0, &device, &err);
    if (status == BW_OK) {
        status = run(device, argv[1], &err);
        bw_device_close(device);
    }
    if (status != BW_OK)
        fprintf(stderr, "%s (%s)\n", err.text, bw_status_name(status));
    return status == BW_OK ? 0 : 1;
}
