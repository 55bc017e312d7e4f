#include "CForgeFileSystem.h"

#include <string.h>

#if defined(__x86_64__)

__attribute__((target("sse4.2")))
uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size) {
    const unsigned char *next = bytes;
    uint64_t wide = state;
    for (; size >= 8; next += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, next, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    state = (uint32_t)wide;
    for (; size > 0; next++, size--) state = __builtin_ia32_crc32qi(state, *next);
    return state;
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size) {
    const unsigned char *next = bytes;
    for (; size >= 8; next += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, next, 8);
        state = __crc32cd(state, word);
    }
    for (; size > 0; next++, size--) state = __crc32cb(state, *next);
    return state;
}

#else

uint32_t forge_crc32c_accelerated(uint32_t state, const void *bytes, size_t size) {
    (void)bytes;
    (void)size;
    return state;
}

#endif
