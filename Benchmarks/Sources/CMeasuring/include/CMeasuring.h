#pragma once

#include <stdint.h>

/// Lets malloc keep what is freed instead of giving it back to the system.
void measuring_keep_freed_memory(void);

/// How much memory of the process is resident, in bytes; 0 where that cannot be told.
int64_t measuring_resident_bytes(void);

/// Does nothing, in a way that the optimizer cannot see, so that it keeps the value.
void measuring_keep(const void *value);

/// Does nothing. callgrind starts a new count whenever this is called (`--dump-before=measuring_mark`).
void measuring_mark(void);
