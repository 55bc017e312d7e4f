#include "CForgeKVStore.h"

#include <pthread.h>
#include <stdlib.h>

struct job {
    void (*run)(void *);
    void *context;
};

static void *run_job(void *argument) {
    struct job job = *(struct job *)argument;
    free(argument);
    job.run(job.context);
    return 0;
}

int forge_run_in_thread(void (*_Nonnull run)(void *_Nullable), void *_Nullable context) {
    struct job *job = malloc(sizeof *job);
    if (!job) return 0;
    job->run = run;
    job->context = context;
    pthread_attr_t attributes;
    pthread_t thread;
    int is_started = 0;
    if (pthread_attr_init(&attributes) == 0) {
        is_started = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0
            && pthread_create(&thread, &attributes, run_job, job) == 0;
        pthread_attr_destroy(&attributes);
    }
    if (!is_started) free(job);
    return is_started;
}

#if defined(__linux__)
#include <sys/mman.h>

void forge_prefer_large_pages(void *_Nonnull address, size_t size) {
    // Advice: without large pages everything is as before.
    (void)madvise(address, size, MADV_HUGEPAGE);
}
#else
void forge_prefer_large_pages(void *_Nonnull address, size_t size) {
    (void)address;
    (void)size;
}
#endif
