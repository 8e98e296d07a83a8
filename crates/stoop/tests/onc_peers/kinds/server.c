/* Serves both versions of kinds.x, and prints the port: server udp|tcp, or server unix PATH. */
#include "sample.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kinds_1(struct svc_req *, SVCXPRT *);
void kinds_2(struct svc_req *, SVCXPRT *);

/* Answers a value that is not the caller's sample by sample 0, which no caller expects. */
everything *next_1_svc(int number, everything value, struct svc_req *request) {
    return sample(is_same(&value, sample(number)) ? number + 1 : 0);
}

static quad_t sum_of(numbers list) {
    quad_t sum = 0;
    for (u_int at = 0; at < list.numbers_len; at++)
        sum += list.numbers_val[at];
    return sum;
}

int *sum_1_svc(int first, point second, numbers list, struct svc_req *request) {
    static int sum;
    sum = first + second.x + second.y + sum_of(list);
    return &sum;
}

char **join_1_svc(char *first, label second, struct svc_req *request) {
    static char text[500], *result = text;
    snprintf(text, sizeof text, "%s%s", first, second);
    return &result;
}

nodes *turn_1_svc(nodes list, struct svc_req *request) {
    static node copies[100];
    static nodes turned;
    turned = NULL;
    for (int at = 0; list; list = list->next, at++) {
        copies[at] = (node){strdup(list->name), list->weight, turned};
        turned = &copies[at];
    }
    return &turned;
}

reading *read_1_svc(int number, struct svc_req *request) {
    return &sample(number)->got;
}

blob *reverse_1_svc(blob bytes, struct svc_req *request) {
    static blob result;
    result = (blob){bytes.blob_len, malloc(bytes.blob_len + 1)};
    for (u_int at = 0; at < bytes.blob_len; at++)
        result.blob_val[at] = bytes.blob_val[bytes.blob_len - 1 - at];
    return &result;
}

static label kept;

void *keep_1_svc(label name, struct svc_req *request) {
    kept = strdup(name);
    return &kept;
}

answer *kept_1_svc(struct svc_req *request) {
    static answer result;
    result = (answer){kept != NULL, {kept}};
    return &result;
}

quad_t *total_2_svc(numbers list, struct svc_req *request) {
    static quad_t sum;
    sum = sum_of(list);
    return &sum;
}

colour *mix_2_svc(colour first, colour second, struct svc_req *request) {
    static colour mixed;
    mixed = first == second ? first : BLUE;
    return &mixed;
}

/* A socket at a free port of the loopback interface. */
static int bound(int type) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int socket_ = socket(AF_INET, type, 0);
    if (bind(socket_, (struct sockaddr *)&address, sizeof address) || (type == SOCK_STREAM && listen(socket_, 10)))
        exit(1);
    return socket_;
}

static SVCXPRT *transport(char **arguments) {
    if (!strcmp(arguments[1], "udp"))
        return svcudp_create(bound(SOCK_DGRAM));
    if (!strcmp(arguments[1], "tcp"))
        return svctcp_create(bound(SOCK_STREAM), 0, 0);
    return svcunix_create(RPC_ANYSOCK, 0, 0, arguments[2]);
}

int main(int count, char **arguments) {
    SVCXPRT *xprt = transport(arguments);
    /* Protocol 0: no rpcbind is told. */
    if (!xprt || !svc_register(xprt, KINDS, KINDS_1, kinds_1, 0) || !svc_register(xprt, KINDS, KINDS_2, kinds_2, 0))
        return 1;
    printf("%d\n", xprt->xp_port);
    fflush(stdout);
    svc_run();
    return 1;
}
