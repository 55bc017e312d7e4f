#pragma once

#include <stdint.h>

/// Makes malloc keep freed memory instead of returning it to the system.
void measuring_keep_freed_memory(void);

/// The resident memory of the process in bytes; 0 if unknown.
int64_t measuring_resident_bytes(void);

/// The memory of the process in bytes, of shared pages its proportion (Pss, proc(5)); elsewhere the resident memory.
int64_t measuring_proportional_bytes(void);

/// Has no effect but is opaque to the optimizer, so that the value must be computed.
void measuring_keep(const void *value);

/// Has no effect. callgrind starts a new count at each call (`--dump-before=measuring_mark`).
void measuring_mark(void);

/// Exchanges two names in an open directory (renameat2(2), renameatx_np(2)); -1 and errno if that fails.
int measuring_exchange(int directory, const char *first, const char *second);
