/* What a peer's program in C or C++ has beside its calls: slices of calls, as its standard input asks for them (end/src/lib.rs
   describes the lines). A program defines `make_caller`, `call` and `free_caller`, and calls `answer_slices`. */
#ifndef SLICES_H
#define SLICES_H
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MARK = 0x5a, MAX_CALLERS = 64, MAX_CALLS = 1 << 22 };

/* A caller of its own thread, made before the slice begins. */
static void *make_caller(void);
/* One call: "null", "put" of these bytes, or "get" of as many. */
static void call(void *caller, const char *procedure, const char *bytes, size_t length);
static void free_caller(void *caller);

static char procedure[16];
static size_t length;
static int callers, milliseconds;
static pthread_barrier_t begin;

struct times {
    long *each;
    size_t count;
};

static long now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static void *repeat(void *argument) {
    struct times *times = (struct times *)argument;
    void *caller = make_caller();
    char *bytes = (char *)malloc(length + 1);
    memset(bytes, MARK, length);
    pthread_barrier_wait(&begin);
    long last = now(), end = last + milliseconds * 1000000L;
    while (last < end && times->count < MAX_CALLS) {
        call(caller, procedure, bytes, length);
        long after = now();
        times->each[times->count++] = after - last;
        last = after;
    }
    free(bytes);
    free_caller(caller);
    return NULL;
}

static int compare(const void *left, const void *right) {
    long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

static void slice(struct times *times, long *all) {
    pthread_t threads[MAX_CALLERS];
    double rate = 0;
    size_t count = 0;
    pthread_barrier_init(&begin, NULL, callers);
    for (int at = 0; at < callers; at++) {
        times[at].count = 0;
        pthread_create(&threads[at], NULL, repeat, &times[at]);
    }
    for (int at = 0; at < callers; at++) {
        pthread_join(threads[at], NULL);
        double sum = 0;
        for (size_t one = 0; one < times[at].count; one++) sum += all[count++] = times[at].each[one];
        rate += times[at].count * 1e9 / sum;
    }
    pthread_barrier_destroy(&begin);
    qsort(all, count, sizeof *all, compare);
    printf("%zu %.0f %ld %ld %ld %ld\n", count, rate, all[count / 2], all[count * 9 / 10], all[count * 99 / 100], all[count * 999 / 1000]);
    fflush(stdout);
}

static void answer_slices(void) {
    static struct times times[MAX_CALLERS];
    static long *all;
    while (scanf("%15s %zu %d %d", procedure, &length, &callers, &milliseconds) == 4) {
        if (callers < 1 || callers > MAX_CALLERS) exit(2);
        for (int at = 0; at < callers; at++)
            if (!times[at].each) times[at].each = (long *)malloc(MAX_CALLS * sizeof(long));
        if (!all) all = (long *)malloc(MAX_CALLERS * (size_t)MAX_CALLS * sizeof(long));
        slice(times, all);
    }
}

/* Prints the server's address, and returns when standard input has ended. */
static inline void ready(const char *address) {
    char byte;
    printf("%s\n", address);
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {}
}
#endif
