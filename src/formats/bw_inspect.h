/* What `beeswax inspect FILE` prints: a model file's metadata and tensors, as text for people or as JSON. */
#ifndef BW_INSPECT_H
#define BW_INSPECT_H

#include "bw_err.h"
#include "bw_str.h"

/* path: a GGUF file (of a split model the first), a .safetensors file, an index.json or a folder with those. Appends to
 * out: format, version, metadata (arrays shortened to their first elements), tensors with type, shape (outermost
 * first), bytes and offset in their file, totals by type, number of parameters. JSON is valid whatever the file's
 * strings hold: bytes that are no UTF-8 become U+FFFD, numbers that are not finite null, integers above 2^63 - 1
 * strings. Text holds no control
 * characters from the file. Errors: those of opening, BW_E_FORMAT when it is neither format. */
bw_status bw_formats_inspect(const char *path, bool json, bw_str *out, bw_err *err);

#endif
