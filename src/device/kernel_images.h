/* Which code objects a card gets: those of the best target that this program holds, or of a folder. Private to device/.
 */
#ifndef BW_KERNEL_IMAGES_H
#define BW_KERNEL_IMAGES_H

#include "gpu_driver.h"

typedef struct bw_kernel_image {
    char family[32];
    const void *data; /* [n_bytes] */
    size_t n_bytes;
    void *owned;       /* data, where it is ours to free */
    const char *names; /* of its kernels, one after another, each with its NUL; NULL when the list is not known */
    size_t n_names;
} bw_kernel_image;

typedef struct bw_kernel_images {
    char target[32]; /* whose they are; the card's own or one whose code it runs */
    void *archive;   /* decompressed */
    bw_kernel_image *images;
    int n_images;
} bw_kernel_images;

/* The target that bw_kernel_images_open would take for a card ("gfx1100", "sm_90"); empty when there is none. */
void bw_kernel_images_choose(const char *card, char target[32]);

/* label: the card, for errors; card: its target. What a card runs, best first: its own target; "sm_90" also an earlier
 * minor version of its major one, then PTX of any version up to its own; AMD's also the generic target of its family
 * ("gfx1103": "gfx11-generic"). With BW_KERNEL_DIR in the environment from that folder's files,
 * FAMILY.TARGET.hsaco, .cubin or .ptx; else from this program. BW_E_DEVICE when nothing there runs on the card.
 */
bw_status bw_kernel_images_open(const char *label, const char *card, bw_kernel_images *images, bw_err *err);
/* The images must live as long as modules made of them: HIP does not copy. */
void bw_kernel_images_close(bw_kernel_images *images);

#endif
