/* The Test interface by libtirpc, with stubs of rpcgen: `peer-libtirpc serve udp|tcp`, `peer-libtirpc call udp:PORT|tcp:PORT`. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rpc/rpc.h>

#include "../common/slices.h"
#include "test.h"

extern void test_1(struct svc_req *, SVCXPRT *);

bool_t nothing_1_svc(void *none, void *result, struct svc_req *request) {
    (void)none, (void)result, (void)request;
    return TRUE;
}

bool_t put_1_svc(data *argument, void *result, struct svc_req *request) {
    (void)argument, (void)result, (void)request;
    return TRUE;
}

bool_t get_1_svc(unsigned *length, data *result, struct svc_req *request) {
    (void)request;
    result->data_len = *length;
    result->data_val = malloc(*length);
    memset(result->data_val, MARK, *length);
    return TRUE;
}

int test_1_freeresult(SVCXPRT *transport, xdrproc_t xdr, caddr_t result) {
    (void)transport;
    xdr_free(xdr, result);
    return 1;
}

static const char *address;

static void *make_caller(void) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(address + 4))};
    struct timeval wait = {5, 0};
    int socket = RPC_ANYSOCK;
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CLIENT *client = *address == 'u' ? clntudp_bufcreate(&server, TEST, TEST_1, wait, &socket, 60000, 60000)
                                     : clnttcp_create(&server, TEST, TEST_1, &socket, 0, 0);
    if (!client) clnt_pcreateerror(address), exit(1);
    return client;
}

static void free_caller(void *caller) { clnt_destroy((CLIENT *)caller); }

static void call(void *caller, const char *procedure, const char *given, size_t length) {
    unsigned wanted = length;
    data argument = {length, (char *)given}, result = {0, NULL};
    enum clnt_stat outcome;
    char none;
    if (!strcmp(procedure, "null")) {
        outcome = nothing_1(NULL, &none, caller);
    } else if (!strcmp(procedure, "put")) {
        outcome = put_1(&argument, &none, caller);
    } else {
        outcome = get_1(&wanted, &result, caller);
        if (result.data_len != length) outcome = RPC_CANTDECODERES;
        free(result.data_val);
    }
    if (outcome != RPC_SUCCESS) clnt_perror(caller, procedure), exit(1);
}

static void *told(void *line) {
    ready(line);
    exit(0);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (!strcmp(words[1], "call")) {
        address = words[2];
        answer_slices();
        return 0;
    }
    int udp = !strcmp(words[2], "udp");
    SVCXPRT *transport = udp ? svcudp_bufcreate(RPC_ANYSOCK, 60000, 60000) : svctcp_create(RPC_ANYSOCK, 0, 0);
    if (!transport || !svc_register(transport, TEST, TEST_1, test_1, 0)) return 1;
    char line[32];
    pthread_t thread;
    snprintf(line, sizeof line, "%s:%d", words[2], transport->xp_port);
    pthread_create(&thread, NULL, told, line);
    svc_run();
    return 1;
}
