/* Shared memory that kernels declare: in their C++ each piece is a function-local static, and workgroups run one after
 * another, so the statics themselves are the memory. Which they are says the library's table of symbols (names that
 * begin _ZZ). All is kept at 0xff: before a launch everything is, between workgroups what the kernel has been seen to
 * write. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dlfcn.h>

#include "simgpu.h"

enum { MAX_USED = 64 };

typedef struct piece {
    unsigned char *at;
    size_t n_bytes;
} piece;
/* What one kernel is known to write. */
typedef struct known {
    const sim_kernel *kernel;
    int n_launches, n_used, used[MAX_USED];
} known;

static piece *pieces;
static int n_pieces;
static known *all_known; /* [n_known], found by kernel */
static int n_known;
static known *now;
static int block; /* of this launch, so far */

/* Uninstrumented: an ASan build has zones between the pieces. */
__attribute__((no_sanitize("address"))) void sim_poison(void *memory, size_t n_bytes)
{
    __asm__ volatile("rep stosb" : "+D"(memory), "+c"(n_bytes) : "a"(0xff) : "memory");
}

__attribute__((no_sanitize("address"))) static bool is_poisoned(const piece *p)
{
    size_t i = 0;
    for (; i + 8 <= p->n_bytes; i += 8) {
        uint64_t word;
        __asm__("mov (%1), %0" : "=r"(word) : "r"(p->at + i) : "memory");
        if (word != UINT64_MAX)
            return false;
    }
    for (; i < p->n_bytes; i++)
        if (p->at[i] != 0xff)
            return false;
    return true;
}

/* One symbol of the table: a piece, if it is a function's static in writable memory. */
static bool add_piece(const char *name, const Elf64_Sym *symbol, const Elf64_Shdr *sections, uint16_t n_sections,
                      ElfW(Addr) base)
{
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || strncmp(name, "_ZZ", 3) != 0 || symbol->st_size == 0 ||
        symbol->st_shndx >= n_sections || !(sections[symbol->st_shndx].sh_flags & SHF_WRITE))
        return true;
    piece *grown = realloc(pieces, (size_t)(n_pieces + 1) * sizeof *pieces);
    if (!grown)
        return false;
    pieces = grown;
    pieces[n_pieces].at = (unsigned char *)(base + symbol->st_value); /* NOLINT: an address of this library */
    pieces[n_pieces++].n_bytes = symbol->st_size;
    return true;
}

static const char *read_symbols(const unsigned char *file, size_t size, ElfW(Addr) base)
{
    const Elf64_Ehdr *header = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
    if (header->e_shoff + header->e_shnum * sizeof *sections > size)
        return "the library's file is cut off";
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const char *names = (const char *)file + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(file + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
            if (!add_piece(names + symbols[k].st_name, &symbols[k], sections, header->e_shnum, base))
                return "out of memory";
        return NULL;
    }
    return "the library is stripped: shared memory is found by its symbols";
}

const char *sim_shared_init(void)
{
    Dl_info info;
    struct stat stat;
    if (pieces || n_pieces)
        return NULL;
    if (!dladdr((void *)&pieces, &info))
        return "the library does not find itself";
    int file = open(info.dli_fname, O_RDONLY);
    if (file < 0 || fstat(file, &stat) != 0)
        return "the library's file cannot be read";
    size_t size = (size_t)stat.st_size;
    void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return "the library's file cannot be mapped";
    const char *wrong = read_symbols(memory, size, (ElfW(Addr))info.dli_fbase);
    munmap(memory, size);
    for (int i = 0; i < n_pieces; i++)
        sim_poison(pieces[i].at, pieces[i].n_bytes);
    return wrong;
}

void sim_shared_begin(const sim_kernel *kernel)
{
    block = 0;
    for (now = all_known; now && now < all_known + n_known; now++)
        if (now->kernel == kernel) {
            now->n_launches++;
            return;
        }
    known *grown = realloc(all_known, (size_t)(n_known + 1) * sizeof *all_known);
    now = NULL;
    if (!grown)
        return; /* then every piece is looked at each time */
    all_known = grown;
    now = &all_known[n_known++];
    *now = (known){.kernel = kernel, .n_launches = 1};
}

/* Everything that is not as it was is poisoned again, and kept as this kernel's. */
static void learn(void)
{
    for (int i = 0; i < n_pieces; i++) {
        if (is_poisoned(&pieces[i]))
            continue;
        sim_poison(pieces[i].at, pieces[i].n_bytes);
        bool is_known = !now || now->n_used == MAX_USED;
        for (int k = 0; now && k < now->n_used && !is_known; k++)
            is_known = now->used[k] == i;
        if (!is_known)
            now->used[now->n_used++] = i;
    }
}

/* Looking at everything takes longer than most launches: at a kernel's first ones, then ever more rarely. */
static void clean(bool looks)
{
    if (!now || now->n_used == MAX_USED || (looks && (now->n_launches & (now->n_launches - 1)) == 0)) {
        learn();
        return;
    }
    for (int k = 0; k < now->n_used; k++)
        sim_poison(pieces[now->used[k]].at, pieces[now->used[k]].n_bytes);
}

void sim_shared_block(void)
{
    if (block > 0)
        clean(block == 1);
    block++;
}

void sim_shared_end(void)
{
    clean(true);
}
