#ifndef C_FORGE_KV_STORE_H
#define C_FORGE_KV_STORE_H

#include <stddef.h>
#include <stdint.h>

/// Whether this processor computes CRC-32C itself (SSE 4.2, ARMv8 CRC).
int forge_crc32c_is_accelerated(void);

/// Carries a CRC-32C, given and returned without the final inversion, over `size` bytes; only where accelerated.
uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size);

/// A number that the calling thread shares with no other thread alive, at the cost of one address computation.
static inline uintptr_t forge_thread_number(void) {
    static _Thread_local char anchor;
    return (uintptr_t)&anchor;
}

#endif
