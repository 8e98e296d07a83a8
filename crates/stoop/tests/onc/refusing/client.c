/* Calls procedures 0 to 3 with several credentials, and prints a line for each credential: client udp|tcp PORT PROGRAM
   A procedure's outcome is its result, or `status.reason` of libtirpc's `clnt_stat` and `auth_stat`. */
#include <arpa/inet.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void try(CLIENT *client, unsigned procedure) {
    struct timeval time = {25, 0};
    struct rpc_err error;
    int argument = 20, number = -1;
    char *text = NULL;
    enum clnt_stat status = clnt_call(client, procedure, procedure == 1 ? (xdrproc_t)xdr_int : (xdrproc_t)xdr_void, &argument,
                                      procedure == 0   ? (xdrproc_t)xdr_void
                                      : procedure == 2 ? (xdrproc_t)xdr_wrapstring
                                                       : (xdrproc_t)xdr_int,
                                      procedure == 2 ? (char *)&text : (char *)&number, time);
    clnt_geterr(client, &error);
    if (status == RPC_SUCCESS && procedure == 2)
        printf(" [%s]", text);
    else if (status == RPC_SUCCESS)
        printf(" %d", number);
    else
        printf(" %s.%d", status == RPC_AUTHERROR ? "auth" : status == RPC_PROCUNAVAIL ? "unavailable" : "other",
               status == RPC_AUTHERROR ? error.re_why : 0);
}

static void try_all(CLIENT *client) {
    for (unsigned procedure = 0; procedure < 4; procedure++)
        try(client, procedure);
    printf("\n");
}

int main(int count, char **arguments) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval retry = {15, 0};
    int socket = RPC_ANYSOCK, is_udp = !strcmp(arguments[1], "udp");
    unsigned program = strtoul(arguments[3], NULL, 0);
    CLIENT *client = is_udp ? clntudp_create(&server, program, 1, retry, &socket) : clnttcp_create(&server, program, 1, &socket, 0, 0);
    if (!client)
        return 1;
    gid_t gids[] = {7, 8, 9};
    try_all(client);
    client->cl_auth = authunix_create("host.lab", 1001, 100, 3, gids);
    try_all(client);
    client->cl_auth = authunix_create("host.lab", 13, 100, 0, gids);
    try_all(client);
    return 0;
}
