#include "CForgeKVStore.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

// FNV-1a; never 0.
static uint32_t number_of(const char *text, size_t size) {
    uint32_t hash = 2166136261u;
    for (size_t index = 0; index < size; index++) hash = (hash ^ (unsigned char)text[index]) * 16777619u;
    return hash ? hash : 1;
}

#if defined(__linux__)

// The first bytes of a file, ended by a zero; returns how many there are.
static size_t read_text(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t count;
    do count = read(file, text, size - 1); while (count < 0 && errno == EINTR);
    close(file);
    text[count > 0 ? count : 0] = 0;
    return count > 0 ? (size_t)count : 0;
}

// The content of /proc/PID/stat behind the name of the program, which may hold anything: " S 1 ..." (proc_pid_stat(5)).
static const char *status_of(int32_t process_id, char *text, size_t size) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process_id);
    if (!read_text(path, text, size)) return 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end + 1 : 0;
}

int forge_process_is_running(int32_t process_id) {
    if (process_id <= 0 || (kill(process_id, 0) != 0 && errno == ESRCH)) return 0;
    char text[1024];
    const char *status = status_of(process_id, text, sizeof text);
    return !status || (status[1] != 'Z' && status[1] != 'X');
}

uint64_t forge_process_start(int32_t process_id) {
    char text[1024];
    const char *field = process_id > 0 ? status_of(process_id, text, sizeof text) : 0;
    // The state is field 3, the start field 22.
    for (int number = 3; field && number < 22; number++) field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, 0, 10) : 0;
}

uint32_t forge_boot_number(void) {
    char text[64];
    size_t count = read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    return count ? number_of(text, count) : 0;
}

#else

int forge_process_is_running(int32_t process_id) {
    return process_id > 0 && (kill(process_id, 0) == 0 || errno != ESRCH);
}

#if defined(__APPLE__)

uint64_t forge_process_start(int32_t process_id) {
    int name[4] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, process_id};
    struct kinfo_proc process;
    size_t size = sizeof process;
    // A process in a sandbox may not ask about others.
    if (process_id <= 0 || sysctl(name, 4, &process, &size, 0, 0) != 0 || size != sizeof process) return 0;
    return (uint64_t)process.kp_proc.p_starttime.tv_sec * 1000000u + (uint64_t)process.kp_proc.p_starttime.tv_usec;
}

uint32_t forge_boot_number(void) {
    char text[64];
    size_t size = sizeof text;
    if (sysctlbyname("kern.bootsessionuuid", text, &size, 0, 0) != 0) return 0;
    return number_of(text, size);
}

#else

uint64_t forge_process_start(int32_t process_id) {
    (void)process_id;
    return 0;
}

uint32_t forge_boot_number(void) { return 0; }

#endif
#endif

_Atomic(uint32_t) forge_fork_count;

static pthread_once_t once = PTHREAD_ONCE_INIT;

// Runs in the child, which has one thread.
static void count_fork(void) { __c11_atomic_fetch_add(&forge_fork_count, 1, __ATOMIC_RELAXED); }

static void prepare(void) { pthread_atfork(0, 0, count_fork); }

uint32_t forge_start_counting_forks(void) {
    pthread_once(&once, prepare);
    return forge_forks();
}
