/* Decodes and encodes again by routines of libtirpc: a program that includes this has the list `types` of names and
 * routines. Reads lines "TYPE HEX"; answers each with "refused", or with "BYTES-READ HEX" where HEX is the new form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool_t routine(XDR *, void *);
struct type { const char *name; void *routine; };
extern const struct type types[];

static char line[1 << 20], in[1 << 19], out[(1 << 20) + 4096];

static routine *find(const char *name) {
    for (const struct type *type = types; type->name; type++)
        if (!strcmp(type->name, name))
            return (routine *)type->routine;
    fprintf(stderr, "no type %s\n", name);
    exit(1);
}

static void answer(routine *routine, size_t len) {
    void *value = calloc(1, 4096);
    XDR decode, encode;
    /* xdr_callmsg leaves what is there between a credential and the next multiple of four. */
    memset(out, 0, 2 * len + 4096);
    xdrmem_create(&decode, in, len, XDR_DECODE);
    xdrmem_create(&encode, out, sizeof out, XDR_ENCODE);
    if (routine(&decode, value) && routine(&encode, value)) {
        printf("%u ", xdr_getpos(&decode));
        for (u_int at = 0; at < xdr_getpos(&encode); at++)
            printf("%02x", (unsigned char)out[at]);
        printf("\n");
    } else {
        printf("refused\n");
    }
    xdr_free((xdrproc_t)routine, value);
    free(value);
    fflush(stdout);
}

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        char *hex = strchr(line, ' ');
        *hex++ = 0;
        size_t len = strcspn(hex, "\n") / 2;
        for (size_t at = 0; at < len; at++) {
            char digits[] = {hex[2 * at], hex[2 * at + 1], 0};
            in[at] = (char)strtoul(digits, NULL, 16);
        }
        answer(find(line), len);
    }
    return 0;
}
