/* Folders of ROCm's libraries, and opening one of them. */
#include "rocm_folders.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* lib and lib64 of a folder of ROCm's, where they are there. */
static int add(char folders[BW_ROCM_FOLDERS][BW_ROCM_PATH], int n, const char *root, const char *rocm)
{
    static const char *const own[] = {"lib", "lib64"};
    for (int i = 0; i < 2 && n < BW_ROCM_FOLDERS; i++) {
        int length = snprintf(folders[n], BW_ROCM_PATH, "%s%s/%s", root, rocm, own[i]);
        if (length < BW_ROCM_PATH && access(folders[n], X_OK) == 0)
            n++;
    }
    return n;
}

/* Higher versions first: rocm-6.10 before rocm-6.2. */
static int compare(const struct dirent **a, const struct dirent **b)
{
    return versionsort(b, a);
}

static int is_version(const struct dirent *entry)
{
    return strncmp(entry->d_name, "rocm-", 5) == 0;
}

int bw_rocm_folders(const char *root, char folders[BW_ROCM_FOLDERS][BW_ROCM_PATH])
{
    const char *wish = getenv("ROCM_PATH");
    int n = wish && *wish ? add(folders, 0, "", wish) : 0;
    char opt[BW_ROCM_PATH];
    struct dirent **versions;
    folders[n++][0] = 0;
    n = add(folders, n, root, "/opt/rocm");
    snprintf(opt, sizeof opt, "%s/opt", root);
    int n_versions = scandir(opt, &versions, is_version, compare);
    for (int i = 0; i < n_versions; i++) {
        char rocm[sizeof versions[i]->d_name + 8];
        snprintf(rocm, sizeof rocm, "/opt/%s", versions[i]->d_name);
        n = add(folders, n, root, rocm);
        free(versions[i]);
    }
    if (n_versions >= 0)
        free(versions);
    return n;
}

void *bw_rocm_open(const char *root, const char *file, int flags, char path[BW_ROCM_PATH])
{
    char folders[BW_ROCM_FOLDERS][BW_ROCM_PATH];
    int n = strchr(file, '/') ? 0 : bw_rocm_folders(root, folders);
    for (int i = 0; i < n; i++) {
        int length = snprintf(path, BW_ROCM_PATH, "%s%s%s", folders[i], folders[i][0] ? "/" : "", file);
        void *library = length < BW_ROCM_PATH ? dlopen(path, flags) : NULL;
        if (library)
            return library;
    }
    snprintf(path, BW_ROCM_PATH, "%s", file);
    return dlopen(file, flags); /* whose dlerror names the file */
}

void bw_rocm_places(char *text, size_t size)
{
    const char *wish = getenv("ROCM_PATH");
    if (wish && *wish)
        snprintf(text, size, "ROCM_PATH (%.80s), the loader's folders, /opt/rocm and /opt/rocm-*", wish);
    else
        snprintf(text, size, "the loader's folders, /opt/rocm and /opt/rocm-*; ROCM_PATH is not set");
}
