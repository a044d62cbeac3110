/* What Linux tells of memory. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

int64_t cli_proc_bytes(const char *file, const char *field)
{
    FILE *f = fopen(file, "r");
    if (!f)
        return 0;
    char line[256];
    size_t n = strlen(field);
    long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, n) == 0 && line[n] == ':') {
            if (sscanf(line + n + 1, "%lld", &kib) != 1)
                kib = 0;
            break;
        }
    fclose(f);
    return kib > 0 && kib < INT64_MAX / 1024 ? (int64_t)kib * 1024 : 0;
}
