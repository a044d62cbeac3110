/* What this machine has for GPUs, for people: kernel drivers, device files and the right to open them, runtimes, cards,
 * optional libraries; and which card is the default. Owns looking; refuses to judge (that is `beeswax doctor`). */
#ifndef BW_PROBE_H
#define BW_PROBE_H

#include "bw_device.h"

enum { BW_PROBE_CARDS = 16, BW_PROBE_NODES = 40, BW_PROBE_LIBRARIES = 5, BW_PROBE_BACKENDS = 2 };

typedef struct bw_probe_card {
    char device[16];      /* "rocm:0" */
    char name[80];        /* empty when the runtime would not say */
    char target[32];      /* "gfx1100", "sm_90" */
    char code_object[32]; /* the target whose kernels it gets; empty: this build has none for it */
    bool integrated;
    int units;
    int64_t memory_bytes;
} bw_probe_card;

typedef struct bw_probe_backend {
    bw_device_kind kind;
    const char *name; /* "rocm", "cuda" */
    bool is_loaded;
    char library[256];            /* "libamdhip64.so.6"; empty when none could be loaded */
    char why[300];                /* why not, or why there are no cards */
    char runtime[32], driver[32]; /* versions, empty where unknown */
    char code_objects[256];       /* "gfx90a gfx1100": what this build holds; empty: nothing */
    bw_probe_card cards[BW_PROBE_CARDS];
    int n_cards;
    int n_on_bus;           /* display or compute cards of this maker on the PCI bus, -1 unknown */
    bool has_kernel_driver; /* amdgpu or nvidia */
    char kernel_driver[64]; /* its version; "in the kernel" where it has none of its own */
} bw_probe_backend;

/* A file in /dev that a GPU needs. */
typedef struct bw_probe_node {
    bw_device_kind kind;
    char path[64];
    bool exists, may_open;     /* for reading and writing, by this process */
    uint32_t group;            /* its owning group's number */
    char group_name[32];       /* empty when this system has no name for it */
    bool is_member, group_may; /* this process is in the group; the group may read and write */
} bw_probe_node;

typedef struct bw_probe_library {
    bw_device_kind kind;
    const char *name, *use; /* "hipBLASLt", "matrix products" */
    bool is_left_out;       /* by BW_GPU_LIBRARIES=0 */
    char file[256];         /* the one that loads; empty when none does */
} bw_probe_library;

typedef struct bw_probe {
    bw_probe_backend backends[BW_PROBE_BACKENDS]; /* rocm, cuda */
    bw_probe_node nodes[BW_PROBE_NODES];
    int n_nodes;
    bw_probe_library libraries[BW_PROBE_LIBRARIES];
    char user[32]; /* empty when it has no name */
    bool in_container, in_wsl;
    char default_device[16]; /* as bw_device_choose_gpu; empty when there is none */
} bw_probe;

/* root: "" for this system; else a folder in whose dev, sys and proc files are looked for (tests, other systems'
 * trees). with_libraries: also try to load the optional ones, which may take a second. */
void bw_probe_run(bw_probe *probe, const char *root, bool with_libraries);

/* The version of the kernel driver, "in the kernel" where it has none of its own, "" where there is none. */
void bw_probe_kernel_driver(bw_device_kind kind, const char *root, char version[64]);

/* The GPU to use when none was named, of a kind ("rocm", "cuda") or of any (NULL): ROCm before CUDA; then one that this
 * build has kernels for, then a discrete one, then that with most memory. BW_E_DEVICE, with what the runtimes say, when
 * there is none. */
bw_status bw_device_choose_gpu(const char *kind, char name[16], bw_err *err);

#endif
