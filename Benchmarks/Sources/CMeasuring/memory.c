#include "CMeasuring.h"

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef __APPLE__
#include <mach/mach.h>
#else
#include <stdio.h>
#include <unistd.h>
#endif

void measuring_keep_freed_memory(void) {
#ifdef __GLIBC__
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
}

int64_t measuring_resident_bytes(void) {
#ifdef __APPLE__
    struct mach_task_basic_info info;
    mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &count) != KERN_SUCCESS) return 0;
    return (int64_t)info.resident_size;
#else
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    long long total = 0, resident = 0;
    int found = fscanf(file, "%lld %lld", &total, &resident);
    fclose(file);
    return found == 2 ? (int64_t)resident * sysconf(_SC_PAGESIZE) : 0;
#endif
}

int64_t measuring_proportional_bytes(void) {
#ifdef __linux__
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file) return 0;
    char line[128];
    long long kibibytes = 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "Pss: %lld kB", &kibibytes) == 1) break;
    }
    fclose(file);
    return kibibytes * 1024;
#else
    return measuring_resident_bytes();
#endif
}

void measuring_keep(const void *value) {
    __asm__ volatile("" : : "r"(value) : "memory");
}

__attribute__((noinline)) void measuring_mark(void) {
    __asm__ volatile("" : : : "memory");
}
