#include "bw_recognise.h"

#include <string.h>

#include "bw_map.h"
#include "bw_str.h"

/* Safetensors: the length of a JSON object, little-endian in 8 bytes, then the object. */
static bool has_header(const bw_map *map)
{
    uint64_t n = 0;
    for (size_t i = 8; map->n_bytes > 9 && i-- > 0;)
        n = n << 8 | map->data[i];
    return n >= 2 && n <= map->n_bytes - 8 && map->data[8] == '{';
}

bw_status bw_formats_recognise(const char *path, bw_format *format, bw_err *err)
{
    *format = BW_FORMAT_SAFETENSORS;
    if (bw_dir_exists(path) || bw_str_ends(path, ".index.json"))
        return BW_OK;
    bw_map map;
    BW_TRY(bw_map_open(path, &map, err));
    bool is_gguf = map.n_bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0, is_safetensors = has_header(&map);
    bw_map_close(&map);
    if (is_gguf || (!is_safetensors && bw_str_ends(path, ".gguf")))
        *format = BW_FORMAT_GGUF;
    else if (!is_safetensors && !bw_str_ends(path, ".safetensors"))
        return bw_fail(err, BW_E_FORMAT,
                       "%s is neither GGUF (its first bytes would be \"GGUF\") nor safetensors, nor a folder of these",
                       path);
    return BW_OK;
}
