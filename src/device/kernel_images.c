/* Code objects: which target's a card gets; unpacking them, or reading them from a folder. */
#include "kernel_images.h"

#include <dirent.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if BW_HAS_ZSTD
#include <zstd.h>
#endif

#include "bw_map.h"
#include "bw_mem.h"
#include "kernel_archive.h"

/* ---- which target ------------------------------------------------------------------------------------------------ */

/* AMD's generic targets and whose they are (LLVM 19's AMDGPUUsage). A newer compiler knows more cards. */
static const struct {
    const char *generic, *cards;
} generics[] = {
    {"gfx9-generic", "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c "},
    {"gfx10-1-generic", "gfx1010 gfx1011 gfx1012 gfx1013 "},
    {"gfx10-3-generic", "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
    {"gfx11-generic", "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
    {"gfx12-generic", "gfx1200 gfx1201 "},
};

static bool is_generic_of(const char *generic, const char *card)
{
    size_t n = strlen(card);
    for (size_t i = 0; i < sizeof generics / sizeof *generics; i++) {
        if (strcmp(generic, generics[i].generic) != 0)
            continue;
        for (const char *at = generics[i].cards; (at = strstr(at, card)) != NULL; at += n)
            if (at[n] == ' ')
                return true;
    }
    return false;
}

/* How well a card runs what was built for a target: 0 not at all. */
static int rank(const char *card, const char *target)
{
    enum { GENERIC = 1, PTX = 1000, SAME_MAJOR = 2000, OWN = 3000 };
    int have, want;
    if (strcmp(card, target) == 0)
        return OWN;
    if (sscanf(card, "sm_%d", &have) != 1)
        return is_generic_of(target, card) ? GENERIC : 0;
    if (sscanf(target, "sm_%d", &want) == 1)
        return have / 10 == want / 10 && want <= have ? SAME_MAJOR + want : 0;
    return sscanf(target, "ptx_%d", &want) == 1 && want <= have ? PTX + want : 0;
}

/* Keeps the better of two targets for a card, if it runs the new one at all. */
static void prefer(const char *card, const char *target, char best[32])
{
    if (strlen(target) < 32 && rank(card, target) > (best[0] ? rank(card, best) : 0))
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

/* ---- this program's own ------------------------------------------------------------------------------------------ */

static bool lies_within(uint64_t at, uint64_t n_bytes, uint64_t size)
{
    return at <= size && n_bytes < size - at; /* a NUL stands behind */
}

/* archive: [n_bytes]. The build made it, so what is wrong is the program's file. */
static bw_status read_archive(const unsigned char *archive, uint64_t n_bytes, bw_kernel_images *images, bw_err *err)
{
    const bw_kernel_archive *head = (const void *)archive;
    const bw_kernel_family *families = (const void *)(archive + sizeof *head);
    bool good = n_bytes >= sizeof *head && memcmp(head->magic, BW_KERNEL_ARCHIVE_MAGIC, sizeof head->magic) == 0 &&
                head->n_bytes <= n_bytes && head->n_families <= (n_bytes - sizeof *head) / sizeof *families;
    for (uint64_t i = 0; good && i < head->n_families; i++) {
        const bw_kernel_family *f = &families[i];
        good = lies_within(f->at, f->n_bytes, head->n_bytes) && f->names_at <= head->n_bytes &&
               memchr(f->name, 0, sizeof f->name);
        uint64_t at = f->names_at;
        for (uint64_t k = 0; good && k < f->n_names; k++) {
            at += strnlen((const char *)archive + at, head->n_bytes - at) + 1;
            good = at <= head->n_bytes;
        }
        if (!good)
            break;
        BW_TRY(add_image(images, f->name, archive + f->at, f->n_bytes, NULL, err));
        images->images[images->n_images - 1].names = (const char *)archive + f->names_at;
        images->images[images->n_images - 1].n_names = f->n_names;
    }
    return good ? BW_OK
                : bw_fail(err, BW_E_FORMAT, "the kernels for %s in this program are damaged: build it again",
                          images->target);
}

static bw_status unpack(const bw_code_object *o, bw_kernel_images *images, bw_err *err)
{
    size_t n_bytes = (size_t)(o->end - o->begin);
    if (n_bytes >= 8 && memcmp(o->begin, BW_KERNEL_ARCHIVE_MAGIC, 8) == 0)
        return read_archive(o->begin, n_bytes, images, err);
#if BW_HAS_ZSTD
    unsigned long long size = ZSTD_getFrameContentSize(o->begin, n_bytes);
    size_t frame = ZSTD_findFrameCompressedSize(o->begin, n_bytes);
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || ZSTD_isError(frame))
        return read_archive(o->begin, 0, images, err);
    images->archive = bw_alloc_aligned(size);
    if (!images->archive)
        return bw_fail_memory(err, size, "code objects");
    size_t got = ZSTD_decompress(images->archive, size, o->begin, frame);
    return read_archive(images->archive, ZSTD_isError(got) ? 0 : got, images, err);
#else
    return bw_fail(err, BW_E_UNSUPPORTED, "the kernels for %s are compressed, and this build has no libzstd",
                   o->target);
#endif
}

static void choose_own(const char *card, char target[32])
{
    target[0] = 0;
    for (int i = 0; i < bw_n_code_objects; i++)
        prefer(card, bw_code_objects[i].target, target);
}

static bw_status open_own(const char *label, const char *card, bw_kernel_images *images, bw_err *err)
{
    choose_own(card, images->target);
    for (int i = 0; i < bw_n_code_objects; i++)
        if (strcmp(bw_code_objects[i].target, images->target) == 0)
            return unpack(&bw_code_objects[i], images, err);
    return bw_fail(err, BW_E_DEVICE, "%s: this build holds no kernels for %s; build with them (docs/rocm.md)", label,
                   card);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

/* "affine.gfx90a.hsaco" to its parts. */
static bool parse_file_name(const char *name, char family[32], char target[32])
{
    const char *dot = strchr(name, '.'), *last = strrchr(name, '.');
    if (!dot || dot == last || strchr(dot + 1, '.') != last ||
        (strcmp(last, ".hsaco") != 0 && strcmp(last, ".cubin") != 0 && strcmp(last, ".ptx") != 0) || dot - name > 31 ||
        last - dot > 32)
        return false;
    snprintf(family, 32, "%.*s", (int)(dot - name), name);
    snprintf(target, 32, "%.*s", (int)(last - dot - 1), dot + 1);
    return family[0] && target[0];
}

static void choose_in_folder(DIR *list, const char *card, char best[32])
{
    char family[32], target[32];
    const struct dirent *entry;
    best[0] = 0;
    while ((entry = readdir(list))) /* NOLINT(concurrency-mt-unsafe): of a stream of our own */
        if (parse_file_name(entry->d_name, family, target))
            prefer(card, target, best);
    rewinddir(list);
}

/* Drivers are given no size and would read past the end of a file that was cut short: an ELF's table of sections is the
 * last of it. What is no ELF the drivers refuse by its first bytes. */
static bool is_cut_short(const char *data, size_t n_bytes)
{
    Elf64_Ehdr head;
    if (n_bytes < SELFMAG || memcmp(data, ELFMAG, SELFMAG) != 0)
        return false;
    if (n_bytes < sizeof head)
        return true;
    memcpy(&head, data, sizeof head);
    uint64_t table = (uint64_t)head.e_shnum * head.e_shentsize;
    return head.e_shoff > n_bytes || table > n_bytes - head.e_shoff;
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
        bw_status status = is_cut_short(data, n_bytes)
                               ? bw_fail(err, BW_E_FORMAT, "%s: the code object is cut short: build it again", path)
                               : add_image(images, family, data, n_bytes, data, err);
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
    DIR *list = opendir(folder);
    if (!list)
        return bw_fail(err, BW_E_IO, "%s: BW_KERNEL_DIR is %s, which cannot be read", label, folder);
    choose_in_folder(list, card, images->target);
    bw_status status = images->target[0] ? read_folder(folder, list, images, err)
                                         : bw_fail(err, BW_E_DEVICE, "%s: BW_KERNEL_DIR (%s) holds no kernels for %s",
                                                   label, folder, card);
    closedir(list);
    return status;
}

/* NULL: this program's own are taken. */
static const char *wanted_folder(void)
{
    const char *folder = getenv("BW_KERNEL_DIR");
    return folder && *folder ? folder : NULL;
}

void bw_kernel_images_choose(const char *card, char target[32])
{
    const char *folder = wanted_folder();
    DIR *list = folder ? opendir(folder) : NULL;
    target[0] = 0;
    if (!folder)
        choose_own(card, target);
    if (!list)
        return;
    choose_in_folder(list, card, target);
    closedir(list);
}

bw_status bw_kernel_images_open(const char *label, const char *card, bw_kernel_images *images, bw_err *err)
{
    *images = (bw_kernel_images){0};
    const char *folder = wanted_folder();
    bw_status status = folder ? open_folder(label, card, folder, images, err) : open_own(label, card, images, err);
    if (status != BW_OK)
        bw_kernel_images_close(images);
    return status;
}

void bw_kernel_images_close(bw_kernel_images *images)
{
    for (int i = 0; i < images->n_images; i++)
        bw_free(images->images[i].owned);
    bw_free(images->images);
    bw_free(images->archive);
    *images = (bw_kernel_images){0};
}
