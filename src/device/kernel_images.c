/* Code objects: which target's a card gets, and reading them from a folder. */
#include "kernel_images.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bw_map.h"
#include "bw_mem.h"

/* "sm_90" runs what was built for the same major version and at most the same minor one. */
static bool sm_runs(const char *card, const char *built)
{
    int have, want;
    return sscanf(card, "sm_%d", &have) == 1 && sscanf(built, "sm_%d", &want) == 1 && have / 10 == want / 10 &&
           want <= have;
}

/* Keeps the better of two targets for a card, if it runs them at all: its own, else the latest that it runs. */
static void prefer(const char *card, const char *target, char best[32])
{
    bool is_own = strcmp(target, card) == 0;
    if (strlen(target) < 32 &&
        (is_own || (sm_runs(card, target) && strcmp(best, card) != 0 && strcmp(target, best) > 0)))
        snprintf(best, 32, "%s", target);
}

static bw_status add_image(bw_kernel_images *images, const char *family, const void *data, size_t n_bytes, void *owned,
                           bw_err *err)
{
    size_t n = (size_t)images->n_images + 1;
    bw_kernel_image *grown = bw_realloc_array(images->images, n, sizeof *grown);
    if (!grown)
        return bw_fail_memory(err, n * sizeof *grown, "code objects");
    images->images = grown;
    bw_kernel_image *image = &grown[images->n_images];
    *image = (bw_kernel_image){.data = data, .n_bytes = n_bytes, .owned = owned};
    snprintf(image->family, sizeof image->family, "%s", family);
    images->n_images++;
    return BW_OK;
}

static bw_status open_own(const char *label, const char *card, bw_kernel_images *images, bw_err *err)
{
    for (int i = 0; i < bw_n_code_objects; i++)
        prefer(card, bw_code_objects[i].target, images->target);
    for (int i = 0; i < bw_n_code_objects; i++) {
        const bw_code_object *o = &bw_code_objects[i];
        if (strcmp(o->target, images->target) == 0)
            BW_TRY(add_image(images, o->family, o->begin, (size_t)(o->end - o->begin), NULL, err));
    }
    if (images->n_images == 0)
        return bw_fail(err, BW_E_DEVICE, "%s: this build holds no kernels for %s; build with them (docs/rocm.md)",
                       label, card);
    return BW_OK;
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

/* "affine.gfx90a.hsaco" to its parts. */
static bool parse_file_name(const char *name, char family[32], char target[32])
{
    const char *dot = strchr(name, '.'), *last = strrchr(name, '.');
    if (!dot || dot == last || strchr(dot + 1, '.') != last ||
        (strcmp(last, ".hsaco") != 0 && strcmp(last, ".cubin") != 0) || dot - name > 31 || last - dot > 32)
        return false;
    snprintf(family, 32, "%.*s", (int)(dot - name), name);
    snprintf(target, 32, "%.*s", (int)(last - dot - 1), dot + 1);
    return family[0] && target[0];
}

static bw_status read_folder(const char *folder, DIR *list, bw_kernel_images *images, bw_err *err)
{
    enum { MOST = 1 << 28 };
    const struct dirent *entry;
    while ((entry = readdir(list))) { /* NOLINT(concurrency-mt-unsafe): of a stream of our own */
        char family[32], target[32], path[4096], *data;
        size_t n_bytes;
        if (!parse_file_name(entry->d_name, family, target) || strcmp(target, images->target) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        BW_TRY(bw_file_read(path, MOST, &data, &n_bytes, err));
        bw_status status = add_image(images, family, data, n_bytes, data, err);
        if (status != BW_OK) {
            bw_free(data);
            return status;
        }
    }
    return BW_OK;
}

static bw_status open_folder(const char *label, const char *card, const char *folder, bw_kernel_images *images,
                             bw_err *err)
{
    char family[32], target[32];
    DIR *list = opendir(folder);
    if (!list)
        return bw_fail(err, BW_E_IO, "%s: BW_KERNEL_DIR is %s, which cannot be read", label, folder);
    const struct dirent *entry;
    while ((entry = readdir(list))) /* NOLINT(concurrency-mt-unsafe): of a stream of our own */
        if (parse_file_name(entry->d_name, family, target))
            prefer(card, target, images->target);
    rewinddir(list);
    bw_status status = images->target[0] ? read_folder(folder, list, images, err)
                                         : bw_fail(err, BW_E_DEVICE, "%s: BW_KERNEL_DIR (%s) holds no kernels for %s",
                                                   label, folder, card);
    closedir(list);
    return status;
}

bw_status bw_kernel_images_open(const char *label, const char *card, bw_kernel_images *images, bw_err *err)
{
    *images = (bw_kernel_images){0};
    const char *folder = getenv("BW_KERNEL_DIR");
    bw_status status =
        folder && *folder ? open_folder(label, card, folder, images, err) : open_own(label, card, images, err);
    if (status != BW_OK)
        bw_kernel_images_close(images);
    return status;
}

void bw_kernel_images_close(bw_kernel_images *images)
{
    for (int i = 0; i < images->n_images; i++)
        bw_free(images->images[i].owned);
    bw_free(images->images);
    *images = (bw_kernel_images){0};
}
