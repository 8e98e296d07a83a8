/* Prints the XDR form of values that tests/xdr/golden.rs also has, as libtirpc writes it: name, space, bytes in hex. */
#include "types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print(const char *name, bool_t (*routine)(XDR *, void *), void *value) {
    static char bytes[1 << 16];
    XDR xdr;
    xdrmem_create(&xdr, bytes, sizeof bytes, XDR_ENCODE);
    if (!routine(&xdr, value)) {
        fprintf(stderr, "%s: not encoded\n", name);
        exit(1);
    }
    printf("%s ", name);
    for (u_int at = 0; at < xdr_getpos(&xdr); at++)
        printf("%02x", (unsigned char)bytes[at]);
    printf("\n");
}
#define PRINT(name, type, value) print(name, (bool_t (*)(XDR *, void *))xdr_##type, value)

int main(void) {
    numbers numbers_low = {-2147483647 - 1, 0, -9223372036854775807LL - 1, 0, -0.0f, -1.0 / 3, FALSE};
    numbers numbers_high = {2147483647, 4294967295U, 9223372036854775807LL, 18446744073709551615ULL, 1e38f, 5e-324, TRUE};
    PRINT("numbers_low", numbers, &numbers_low);
    PRINT("numbers_high", numbers, &numbers_high);
    narrow narrow_low = {-128, 0, -32768, 0}, narrow_high = {127, 255, 32767, 65535};
    PRINT("narrow_low", narrow, &narrow_low);
    PRINT("narrow_high", narrow, &narrow_high);

    char five[] = "\1\2\3\4\5", six[] = "abcdef";
    blobs blobs_empty = {"", {0, NULL}, {0, NULL}, "", ""}, blobs_full = {"", {6, six}, {5, five}, "seven.7", "\303\251"};
    memcpy(blobs_full.fixed, five, 5);
    PRINT("blobs_empty", blobs, &blobs_empty);
    PRINT("blobs_full", blobs, &blobs_full);

    int ints[] = {1, -1, 2, -2};
    stamp stamps[] = {{1, 2}, {3, 4}, {5, 6}};
    colour colours[] = {BLUE, GREEN, RED};
    u_char chars[] = {0, 127, 128, 255, 1};
    arrays arrays_full = {{7, 8, 9}, {{1, 2}, {3, 4}}, {4, ints}, {3, stamps}, {3, colours}, {5, chars}};
    PRINT("arrays_full", arrays, &arrays_full);

    entry entry_red = {RED, {.changed = {1, 2}}}, entry_green = {GREEN, {.target = "twelve bytes"}}, entry_blue = {BLUE};
    PRINT("entry_red", entry, &entry_red);
    PRINT("entry_green", entry, &entry_green);
    PRINT("entry_blue", entry, &entry_blue);
    status statuses[] = {{0, {.value = -2}}, {2, {.entry = entry_green}}, {-7}};
    PRINT("status_value", status, &statuses[0]);
    PRINT("status_entry", status, &statuses[1]);
    PRINT("status_default", status, &statuses[2]);
    perhaps known = {TRUE, {.handle = {5, five}}}, unknown = {FALSE};
    PRINT("perhaps_known", perhaps, &known);
    PRINT("perhaps_unknown", perhaps, &unknown);

    node third = {"", 3, NULL}, second = {"two", 2, &third}, first = {"a", 1, &second};
    nodes list = &first, none = NULL;
    PRINT("nodes_three", nodes, &list);
    PRINT("nodes_none", nodes, &none);
    tree leaf = {2}, right = {3, &leaf, NULL}, root = {1, NULL, &right};
    PRINT("tree", tree, &root);

    all all_full = {numbers_high, known, list, &root, &stamps[0], {3, statuses}};
    all all_least = {numbers_low, unknown, NULL, NULL, NULL, {0, NULL}};
    PRINT("all_full", all, &all_full);
    PRINT("all_least", all, &all_least);
    return 0;
}
