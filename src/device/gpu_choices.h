/* What timed trials found, by shape: a table in memory and a small text file of it, so that the next process need not
 * try again. Private to device/.
 *
 * Owns the table, the file's form and where it lies; refuses to know what a shape or a choice means, and to let a file
 * matter: one that is not there, not readable, not writable or not ours in every byte costs new trials and a line in
 * the log at level debug, nothing else.
 */
#ifndef BW_GPU_CHOICES_H
#define BW_GPU_CHOICES_H

#include "gpu_private.h"

enum {
    BW_GPU_CHOICES_MOST = 16384,      /* rows of a file; memory may hold more */
    BW_GPU_CHOICES_BYTES = 512 << 10, /* larger files are not read */
    BW_GPU_CHOICES_LARGEST = 255      /* choices are 1 to this */
};

typedef struct bw_gpu_choices bw_gpu_choices;

/* Reads the file at once. name: "rocm AMD Instinct MI250X 6.0.32831 hipblasLt 1200", of which a file's name is made;
 * identity: what the choices hold for, whole lines; both are copied. NULL when there is no memory. The file is
 * FOLDER/trials/NAME.txt, where FOLDER is $BW_CACHE_DIR, else $XDG_CACHE_HOME/beeswax, else $HOME/.cache/beeswax; with
 * BW_GPU_TRIALS=0, or none of the three, there is none. */
bw_gpu_choices *bw_gpu_choices_new(const char *name, const char *identity);
/* 0 where there is none. */
int bw_gpu_choices_get(const bw_gpu_choices *choices, uint64_t shape);
/* is_passing: not for the file. */
void bw_gpu_choices_set(bw_gpu_choices *choices, uint64_t shape, int choice, bool is_passing);
/* Writes the file when there is news, with what other processes have written meanwhile. After a failure no more. */
void bw_gpu_choices_save(bw_gpu_choices *choices);
/* Does not save. NULL is allowed. */
void bw_gpu_choices_free(bw_gpu_choices *choices);

#endif
