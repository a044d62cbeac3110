/* Device names to devices. */
#include "bw_device.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bw_probe.h"
#include "device_private.h"
#include "gpu_driver.h"

/* "cuda", "cuda:2" for kind "cuda"; false when the name is of another kind. */
static bool parse(const char *name, const char *kind, int *index, bool *is_number)
{
    size_t n = strlen(kind);
    if (strncmp(name, kind, n) != 0 || (name[n] != 0 && name[n] != ':'))
        return false;
    *index = 0;
    *is_number = true;
    if (name[n] == 0)
        return true;
    char *end;
    long value = strtol(name + n + 1, &end, 10);
    *is_number = name[n + 1] >= '0' && name[n + 1] <= '9' && *end == 0 && value <= INT_MAX;
    *index = (int)value;
    return true;
}

/* A name without a number: the best of its kind. Where there is none, opening the first says why. */
static bw_status open_gpu(const bw_gpu_driver *driver, const char *name, int index, bw_device **out, bw_err *err)
{
    bool is_number;
    char best[16];
    if (!strchr(name, ':') && bw_device_choose_gpu(driver->kind_name, best, NULL) == BW_OK)
        parse(best, driver->kind_name, &index, &is_number);
    return bw_gpu_open(driver, index, out, err);
}

bw_status bw_device_open(const char *name, int n_threads, bw_device **out, bw_err *err)
{
    int index = 0;
    bool is_number = true;
    *out = NULL;
    if (!name)
        return bw_cpu_open(n_threads, out, err);
    if (parse(name, "cpu", &index, &is_number) && is_number && index == 0)
        return bw_cpu_open(n_threads, out, err);
    if (parse(name, "cuda", &index, &is_number) && is_number)
        return open_gpu(&bw_gpu_driver_cuda, name, index, out, err);
    if (parse(name, "rocm", &index, &is_number) && is_number)
        return open_gpu(&bw_gpu_driver_hip, name, index, out, err);
    return bw_fail(err, BW_E_NOT_FOUND, "device \"%s\" is unknown; cpu:0, rocm:N and cuda:N are what there is", name);
}

void bw_device_close(bw_device *device)
{
    if (device)
        device->vtable->destroy(device);
}

const char *bw_device_name(const bw_device *device)
{
    return device->name;
}
