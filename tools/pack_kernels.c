/* pack_kernels OUTPUT LEVEL OBJECT...: one target's code objects into the archive of src/device/kernel_archive.h, with
 * the names of the kernels in each. OBJECT: FAMILY.TARGET.hsaco or .cubin (ELF), or .ptx. LEVEL: zstd's, 1 to 22; 0
 * leaves the archive as it is, which is all that a build without libzstd can do. Runs in the build. */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_archive.h"
#if BW_HAS_ZSTD
#include <zstd.h>
#endif

enum { MAX_NAME = 55 }; /* gpu.c */

typedef struct bytes {
    unsigned char *data; /* [n] */
    size_t n, room;
} bytes;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "pack_kernels: %s: %s\n", name, what);
    exit(1);
}

static void add(bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2;
        b->data = realloc(b->data, b->room);
        if (!b->data)
            die("out of memory", "archive");
    }
    if (data)
        memcpy(b->data + b->n, data, n);
    else
        memset(b->data + b->n, 0, n);
    b->n += n;
}

static bytes read_file(const char *path)
{
    bytes b = {0};
    char block[1 << 16];
    FILE *f = fopen(path, "rb");
    if (!f)
        die("cannot be read", path);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        add(&b, block, n);
    if (ferror(f))
        die("cannot be read", path);
    fclose(f);
    add(&b, NULL, 1);
    b.n--;
    return b;
}

static uint64_t add_name(bytes *names, const char *name, size_t n, const char *path)
{
    if (n == 0 || n > MAX_NAME)
        die("a kernel's name is longer than the backend looks up", path);
    add(names, name, n);
    add(names, NULL, 1);
    return 1;
}

/* A section's bytes, or an end: code objects come from the compiler a moment ago, so only their form is checked. */
static const char *part(const bytes *file, uint64_t at, uint64_t n, const char *path)
{
    if (at > file->n || n > file->n - at)
        die("is cut off", path);
    return (const char *)file->data + at;
}

/* AMD: the descriptors KERNEL.kd among the dynamic symbols. NVIDIA: functions marked as entries. */
static uint64_t elf_names(const bytes *file, bytes *names, const char *path)
{
    enum { MACHINE_AMD = 224, MACHINE_NVIDIA = 190, NVIDIA_ENTRY = 0x10 };
    const Elf64_Ehdr *e = (const void *)part(file, 0, sizeof *e, path);
    const Elf64_Shdr *s = (const void *)part(file, e->e_shoff, (uint64_t)e->e_shnum * sizeof *s, path);
    uint64_t n = 0;
    if (e->e_ident[EI_CLASS] != ELFCLASS64 || (e->e_machine != MACHINE_AMD && e->e_machine != MACHINE_NVIDIA))
        die("is no code object of a GPU", path);
    bool is_amd = e->e_machine == MACHINE_AMD;
    for (int i = 0; i < e->e_shnum; i++) {
        if (s[i].sh_type != (is_amd ? SHT_DYNSYM : SHT_SYMTAB))
            continue;
        const Elf64_Sym *symbols = (const void *)part(file, s[i].sh_offset, s[i].sh_size, path);
        for (uint64_t k = 0; k < s[i].sh_size / sizeof *symbols; k++) {
            const char *name = part(file, s[s[i].sh_link].sh_offset + symbols[k].st_name, 1, path);
            size_t length = strlen(name);
            if (is_amd && length > 3 && strcmp(name + length - 3, ".kd") == 0)
                n += add_name(names, name, length - 3, path);
            else if (!is_amd && ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && (symbols[k].st_other & NVIDIA_ENTRY))
                n += add_name(names, name, length, path);
        }
    }
    return n;
}

/* .entry KERNEL( */
static uint64_t ptx_names(const bytes *file, bytes *names, const char *path)
{
    uint64_t n = 0;
    for (const char *at = (const char *)file->data; (at = strstr(at, ".entry ")) != NULL;) {
        at += strlen(".entry ");
        n += add_name(names, at, strcspn(at, "( \t\r\n"), path);
    }
    return n;
}

static void add_family(bytes *archive, uint64_t index, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strcspn(base, ".");
    bytes file = read_file(path), names = {0};
    bw_kernel_family f = {.n_bytes = file.n};
    if (length == 0 || length >= sizeof f.name)
        die("a family's name has 1 to 31 characters", path);
    memcpy(f.name, base, length);
    bool is_elf = file.n > SELFMAG && memcmp(file.data, ELFMAG, SELFMAG) == 0;
    f.n_names = is_elf ? elf_names(&file, &names, path) : ptx_names(&file, &names, path);
    if (f.n_names == 0)
        die("holds no kernel", path);
    add(archive, NULL, (0 - archive->n) % BW_KERNEL_ARCHIVE_ALIGN);
    f.at = archive->n;
    add(archive, file.data, file.n + 1);
    f.names_at = archive->n;
    add(archive, names.data, names.n);
    memcpy(archive->data + sizeof(bw_kernel_archive) + index * sizeof f, &f, sizeof f);
    free(file.data);
    free(names.data);
}

#if BW_HAS_ZSTD
static bytes compress(const bytes *archive, int level)
{
    bytes out = {0};
    ZSTD_CCtx *context = ZSTD_createCCtx();
    add(&out, NULL, ZSTD_compressBound(archive->n));
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    /* the same code for another type lies megabytes away */
    ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 27);
    size_t n = ZSTD_compress2(context, out.data, out.n, archive->data, archive->n);
    if (ZSTD_isError(n))
        die(ZSTD_getErrorName(n), "zstd");
    ZSTD_freeCCtx(context);
    out.n = n;
    return out;
}
#else
static bytes compress(const bytes *archive, int level)
{
    (void)level;
    die("this build has no libzstd", "compression");
    return *archive;
}
#endif

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: pack_kernels OUTPUT LEVEL OBJECT...", "arguments");
    uint64_t n_families = (uint64_t)argc - 3;
    int level = (int)strtol(argv[2], NULL, 10);
    bytes archive = {0};
    add(&archive, NULL, sizeof(bw_kernel_archive) + n_families * sizeof(bw_kernel_family));
    for (uint64_t i = 0; i < n_families; i++)
        add_family(&archive, i, argv[3 + i]);
    bw_kernel_archive head = {.magic = BW_KERNEL_ARCHIVE_MAGIC, .n_bytes = archive.n, .n_families = n_families};
    memcpy(archive.data, &head, sizeof head);
    bytes out = level > 0 ? compress(&archive, level) : archive;
    FILE *f = fopen(argv[1], "wb");
    if (!f || fwrite(out.data, 1, out.n, f) != out.n || fclose(f) != 0)
        die("cannot be written", argv[1]);
    printf("%zu bytes of code objects in %zu\n", archive.n, out.n);
    if (out.data != archive.data)
        free(out.data);
    free(archive.data);
    return 0;
}
