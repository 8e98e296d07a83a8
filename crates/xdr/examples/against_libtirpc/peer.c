/* Encodes and decodes with libtirpc. Reads lines "NAME COUNT", where NAME is points or listing; answers each with the
 * nanoseconds that COUNT encodings took, and COUNT decodings, and with the sum of the encoded bytes. */
#include "types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POINTS 10000
#define ENTRIES 100

static char bytes[1 << 20];

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void measure(void *routine, void *value, size_t size, int count) {
    bool_t (*code)(XDR *, void *) = routine;
    u_int len = 0, sum = 0;
    XDR xdr;
    long long begun = now();
    for (int at = 0; at < count; at++) {
        xdrmem_create(&xdr, bytes, sizeof bytes, XDR_ENCODE);
        if (!code(&xdr, value))
            exit(1);
        len = xdr_getpos(&xdr);
    }
    long long encoded = now();
    for (int at = 0; at < count; at++) {
        char decoded[1024] = {0};
        xdrmem_create(&xdr, bytes, len, XDR_DECODE);
        if (size > sizeof decoded || !code(&xdr, decoded))
            exit(1);
        xdr_free((xdrproc_t)routine, decoded);
    }
    long long decoded = now();
    for (u_int at = 0; at < len; at++)
        sum += (unsigned char)bytes[at];
    printf("%lld %lld %u\n", encoded - begun, decoded - encoded, sum);
    fflush(stdout);
}

static points make_points(void) {
    points all = {POINTS, calloc(POINTS, sizeof(point))};
    for (int at = 0; at < POINTS; at++)
        all.points_val[at] = (point){at, -at, at * 1000LL};
    return all;
}

static listing make_listing(void) {
    static char names[ENTRIES][32], handle[32];
    attributes some = {REGULAR, 0644, 1, 0, 0, 123, 456, {0, 0}, 7, 8, {1, 2}, {3, 4}, {5, 6}};
    entry *entries = calloc(ENTRIES, sizeof *entries);
    for (int at = 0; at < ENTRIES; at++) {
        entry *each = &entries[at];
        snprintf(names[at], sizeof names[at], "file name %d", at);
        *each = (entry){at, names[at], at, {TRUE}, {TRUE}, at + 1 < ENTRIES ? each + 1 : NULL};
        each->attributes.maybe_attributes_u.attributes = some;
        each->handle.maybe_handle_u.handle.data.data_len = sizeof handle;
        each->handle.maybe_handle_u.handle.data.data_val = handle;
    }
    listing all = {{TRUE}, {0}, entries, TRUE};
    all.directory.maybe_attributes_u.attributes = some;
    return all;
}

int main(void) {
    points points = make_points();
    listing listing = make_listing();
    char name[20];
    int count;
    while (scanf("%19s %d", name, &count) == 2) {
        if (!strcmp(name, "points"))
            measure(xdr_points, &points, sizeof points, count);
        else
            measure(xdr_listing, &listing, sizeof listing, count);
    }
    return 0;
}
