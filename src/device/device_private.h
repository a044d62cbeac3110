/* Private to device/: how each row of the device table is opened. */
#ifndef BW_DEVICE_PRIVATE_H
#define BW_DEVICE_PRIVATE_H

#include "bw_device.h"

/* n_threads: as bw_device_open. */
bw_status bw_cpu_open(int n_threads, bw_device **out, bw_err *err);

#endif
