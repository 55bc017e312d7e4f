#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include "CForgeFileSystem.h"

struct forge_thread_start {
    void (*body)(void *);
    void *context;
};

static void *forge_run_thread(void *argument) {
    struct forge_thread_start start = *(struct forge_thread_start *)argument;
    free(argument);
    start.body(start.context);
    return NULL;
}

int forge_start_thread(void (*body)(void *), void *context) {
    struct forge_thread_start *start = malloc(sizeof *start);
    if (start == NULL) return -1;
    start->body = body;
    start->context = context;

    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        free(start);
        return -1;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);

    // The new thread inherits the mask: handlers of the process run on its other threads. Signals that a thread raises
    // itself stay, as blocked they would end the process without their handlers.
    sigset_t mask, earlier;
    sigfillset(&mask);
    sigdelset(&mask, SIGSEGV);
    sigdelset(&mask, SIGBUS);
    sigdelset(&mask, SIGILL);
    sigdelset(&mask, SIGFPE);
    sigdelset(&mask, SIGTRAP);
    sigdelset(&mask, SIGSYS);
    sigdelset(&mask, SIGABRT);
    sigdelset(&mask, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &mask, &earlier);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, forge_run_thread, start);
    pthread_sigmask(SIG_SETMASK, &earlier, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) return 0;
    free(start);
    return -1;
}
