/* Null() by libtirpc: `null server` serves program 0x20000098 at the UDP and TCP ports that it prints; `null client udp|tcp PORT`
   makes 2000 calls for each line of standard input, and prints the nanoseconds of one. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROGRAM = 0x20000098, CALLS = 2000 };

static void dispatch(struct svc_req *request, SVCXPRT *transport) {
    (void)request;
    svc_sendreply(transport, (xdrproc_t)xdr_void, NULL);
}

static int serve(void) {
    SVCXPRT *udp = svcudp_create(RPC_ANYSOCK), *tcp = svctcp_create(RPC_ANYSOCK, 0, 0);
    if (!udp || !tcp || !svc_register(udp, PROGRAM, 1, dispatch, 0) || !svc_register(tcp, PROGRAM, 1, dispatch, 0))
        return 1;
    printf("%d %d\n", udp->xp_port, tcp->xp_port);
    fflush(stdout);
    svc_run();
    return 1;
}

static int call(const char *transport, int port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int socket = RPC_ANYSOCK;
    struct timeval wait = {5, 0};
    CLIENT *client = strcmp(transport, "udp") ? clnttcp_create(&server, PROGRAM, 1, &socket, 0, 0)
                                              : clntudp_create(&server, PROGRAM, 1, wait, &socket);
    char line[16];
    while (client && fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int at = 0; at < CALLS; at++)
            if (clnt_call(client, 0, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, wait) != RPC_SUCCESS)
                return 1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%ld\n", ((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec) / CALLS);
        fflush(stdout);
    }
    return 1;
}

int main(int count, char **arguments) {
    return count == 4 ? call(arguments[2], atoi(arguments[3])) : serve();
}
