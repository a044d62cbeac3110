/* Which format a model file has: by its first bytes, so that its name may be anything, such as the blobs of another
 * program's store (sha256-...). */
#ifndef BW_RECOGNISE_H
#define BW_RECOGNISE_H

#include "bw_err.h"

typedef enum bw_format { BW_FORMAT_GGUF, BW_FORMAT_SAFETENSORS } bw_format;

/* path: a file, or a folder or an index (*.index.json) of safetensors. Where the bytes say nothing (an empty or damaged
 * file) the ending .gguf or .safetensors does, so that opening it can say what is wrong with it. BW_E_FORMAT when it is
 * neither; the errors of opening a file. */
bw_status bw_formats_recognise(const char *path, bw_format *format, bw_err *err);

#endif
