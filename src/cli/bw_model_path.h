/* Where a model named on a command line lies. Owns the order of places; opens nothing and downloads nothing. */
#ifndef BW_MODEL_PATH_H
#define BW_MODEL_PATH_H

#include "bw_err.h"

/* model: a path, or an id such as "org/repo", "org/repo:file.gguf", either with "hf:" before it. Tried in this order:
 * the path itself; the path without "hf:"; rbee's store (~/.cache/rbee/models/<id with / and : as ->/model.gguf, then
 * that directory when it holds safetensors); beeswax's own store, alike; the Hugging Face cache. XDG_CACHE_HOME,
 * HF_HUB_CACHE and HF_HOME are honoured. *path is freed with bw_free. BW_E_NOT_FOUND names the places. */
bw_status bw_model_path_find(const char *model, char **path, bw_err *err);

/* What clients are told: an id as it is; of a path or a file's name the last part without its ending, where that says
 * nothing ("model.gguf" in a store, a snapshot of Hugging Face's cache) the part before it. Freed with bw_free; NULL
 * when there is no memory. */
char *bw_model_name(const char *model);

#endif
