/* Calls every procedure of a server of peer.x, and checks the results: client HOST udp|tcp RETRY-SECONDS */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);              \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static void check_list(CLIENT *client) {
    outcome *result = list_1(100, client);
    CHECK(result && result->code == 0);
    int at = 0;
    for (item *item = result->outcome_u.list; item; item = item->next, at++) {
        char name[16];
        snprintf(name, sizeof name, "item %d", at);
        CHECK(!strcmp(item->name, name) && item->value == -at);
    }
    CHECK(at == 100);
    CHECK((result = list_1(0, client)) && result->code == 0 && !result->outcome_u.list);
    CHECK((result = list_1(-1, client)) && result->code == 1 && !strcmp(result->outcome_u.reason, "negative"));
    CHECK((result = list_1(-99, client)) && result->code == 99);
}

static void check_blob(CLIENT *client, u_int len) {
    char *bytes = malloc(len);
    for (u_int at = 0; at < len; at++)
        bytes[at] = (char)(at * 7);
    blob *result = reverse_1((blob){len, bytes}, client);
    CHECK(result && result->blob_len == len);
    for (u_int at = 0; at < len; at++)
        CHECK(result->blob_val[len - 1 - at] == bytes[at]);
    free(bytes);
}

static void check_errors(CLIENT *client, CLIENT *three) {
    struct timeval time = {25, 0};
    struct rpc_err error;
    int sum;
    CHECK(clnt_call(client, 77, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, time) == RPC_PROCUNAVAIL);
    CHECK(clnt_call(client, ADD, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_int, (char *)&sum, time) == RPC_CANTDECODEARGS);
    CHECK(clnt_call(three, 0, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, time) == RPC_PROGVERSMISMATCH);
    clnt_geterr(three, &error);
    CHECK(error.re_vers.low == 1 && error.re_vers.high == 2);
}

int main(int count, char **arguments) {
    char *host = arguments[1], *transport = arguments[2];
    CLIENT *one = clnt_create(host, PEER, ONE, transport), *two = clnt_create(host, PEER, TWO, transport);
    CLIENT *three = clnt_create(host, PEER, 3, transport);
    CHECK(one && two && three);
    struct timeval retry = {atoi(arguments[3]), 0};
    if (!strcmp(transport, "udp"))
        CHECK(clnt_control(one, CLSET_RETRY_TIMEOUT, (char *)&retry));

    int *sum = add_1(5, -7, one);
    CHECK(sum && *sum == -2);
    /* The server loses the first replies to this call, and must not count again. */
    u_int *counted = count_1(one);
    CHECK(counted && *counted == 1);
    CHECK((counted = count_1(one)) && *counted == 2);
    u_quad_t *square = square_2(4000000000u, two);
    CHECK(square && *square == 16000000000000000000ull);
    char **who = who_1(one);
    CHECK(who && !strcmp(*who, "nobody"));
    gid_t gids[] = {7, 8, 9};
    one->cl_auth = authunix_create("host.lab", 1001, 100, 3, gids);
    CHECK((who = who_1(one)) && !strcmp(*who, "host.lab 1001 100 3"));
    check_list(one);
    check_blob(one, 0);
    check_blob(one, 8001);
    if (!strcmp(transport, "tcp"))
        check_blob(one, 1000003);
    check_errors(one, three);
    return 0;
}
