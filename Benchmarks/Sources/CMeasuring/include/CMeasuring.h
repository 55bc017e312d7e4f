#pragma once

#include <stdint.h>

/// Lets malloc keep what is freed instead of giving it back to the system.
void measuring_keep_freed_memory(void);

/// How much memory of the process is resident, in bytes; 0 where that cannot be told.
int64_t measuring_resident_bytes(void);

/// Does nothing, which nobody who calls it can know.
void measuring_keep(const void *value);
