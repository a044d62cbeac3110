/* Where ROCm's libraries may lie. Its packages put them into /opt/rocm-VERSION/lib, which the loader looks into only
 * where somebody has told it to. */
#ifndef BW_ROCM_FOLDERS_H
#define BW_ROCM_FOLDERS_H

#include <stddef.h>

enum { BW_ROCM_FOLDERS = 16, BW_ROCM_PATH = 256 };

/* The folders that are there, in this order: lib and lib64 of $ROCM_PATH, then "", which stands for where the loader
 * looks by itself, then lib and lib64 of /opt/rocm and of /opt/rocm-VERSION, highest version first. root: "" for this
 * system, else what stands before /opt (tests). Returns how many. */
int bw_rocm_folders(const char *root, char folders[BW_ROCM_FOLDERS][BW_ROCM_PATH]);
/* dlopen of the first of these folders that has the file; path gets what was opened. A file with a / in its name is
 * looked for nowhere else. NULL where none can be loaded, and dlerror says why. */
void *bw_rocm_open(const char *root, const char *file, int flags, char path[BW_ROCM_PATH]);
/* For people: "ROCM_PATH (/x), the loader's folders, /opt/rocm and /opt/rocm-*". */
void bw_rocm_places(char *text, size_t size);

#endif
