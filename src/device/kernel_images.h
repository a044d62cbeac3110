/* Which code objects a card gets: those of the best target that this program holds, or of a folder. Private to device/.
 */
#ifndef BW_KERNEL_IMAGES_H
#define BW_KERNEL_IMAGES_H

#include "gpu_driver.h"

typedef struct bw_kernel_image {
    char family[32];
    const void *data; /* [n_bytes] */
    size_t n_bytes;
    void *owned; /* data, where it is ours to free */
} bw_kernel_image;

typedef struct bw_kernel_images {
    char target[32]; /* whose they are; the card's own or one whose code it runs */
    bw_kernel_image *images;
    int n_images;
} bw_kernel_images;

/* label: the card, for errors; card: its target. With BW_KERNEL_DIR in the environment from that folder's files,
 * FAMILY.TARGET.hsaco and FAMILY.TARGET.cubin; else from this program. BW_E_DEVICE when nothing there runs on the card.
 */
bw_status bw_kernel_images_open(const char *label, const char *card, bw_kernel_images *images, bw_err *err);
/* The images must live as long as modules made of them: HIP does not copy. */
void bw_kernel_images_close(bw_kernel_images *images);

#endif
