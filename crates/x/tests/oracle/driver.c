/* Decodes values with rpcgen's routines and encodes them again. Standard input: for each value the number of its type, a length,
 * and so many bytes. Standard output: for each value whether it was accepted, how many bytes were read, a length, and the
 * encoding. All numbers are 4 bytes of this machine. TYPES is in types.h. */
#include <stdlib.h>
#include TYPES_H

static char in[1 << 24], out[1 << 24];

static int read_whole(void *to, size_t length) {
    return fread(to, 1, length, stdin) == length;
}

int main(void) {
    unsigned head[2];
    while (read_whole(head, sizeof head)) {
        unsigned answer[3] = {0, 0, 0};
        XDR from, to;
        if (!read_whole(in, head[1]))
            return 1;
        xdrproc_t routine = types[head[0]].routine;
        /* What a refused value has allocated is not freed: libtirpc would look for as many elements as were announced. */
        void *value = calloc(1, types[head[0]].size + 64);
        xdrmem_create(&from, in, head[1], XDR_DECODE);
        xdrmem_create(&to, out, sizeof out, XDR_ENCODE);
        if (routine(&from, value) && routine(&to, value)) {
            answer[0] = 1;
            answer[1] = xdr_getpos(&from);
            answer[2] = xdr_getpos(&to);
            xdr_free(routine, value);
            free(value);
        }
        fwrite(answer, 1, sizeof answer, stdout);
        fwrite(out, 1, answer[2], stdout);
    }
    return 0;
}
