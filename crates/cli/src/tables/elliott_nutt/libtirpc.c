/* Program Two by libtirpc, the C library of today for Sun RPC.

   libtirpc server ADDRESS          prints the UDP port at which it serves
   libtirpc client ADDRESS PORT     answers each line "PROCEDURE CALLS" of standard input with the nanoseconds of all calls, and
                                    then calls and nanoseconds of sendto, of recvfrom or recvmsg, and of poll or select */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rpc/rpc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PROGRAM = 0x20000043, VERSION = 1 };
enum { SEND, RECEIVE, WAIT, KINDS };

/* The library's system calls pass through these functions, which stand before those of libc. */
static long calls[KINDS], nanoseconds[KINDS];
static int watching;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long watched(int kind, long number, long a, long b, long c, long d, long e, long f) {
    if (!watching) return syscall(number, a, b, c, d, e, f);
    long begun = now();
    long result = syscall(number, a, b, c, d, e, f);
    nanoseconds[kind] += now() - begun;
    calls[kind]++;
    return result;
}

ssize_t sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len) {
    return watched(SEND, SYS_sendto, fd, (long)data, (long)len, flags, (long)to, to_len);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    return watched(SEND, SYS_sendmsg, fd, (long)message, flags, 0, 0, 0);
}
ssize_t recvfrom(int fd, void *data, size_t len, int flags, struct sockaddr *from, socklen_t *from_len) {
    return watched(RECEIVE, SYS_recvfrom, fd, (long)data, (long)len, flags, (long)from, (long)from_len);
}
ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    return watched(RECEIVE, SYS_recvmsg, fd, (long)message, flags, 0, 0, 0);
}
int poll(struct pollfd *fds, nfds_t count, int milliseconds) {
    return (int)watched(WAIT, SYS_poll, (long)fds, (long)count, milliseconds, 0, 0, 0);
}

static void dispatch(struct svc_req *request, SVCXPRT *transport) {
    short two;
    int four;
    int decoded = 1;
    if (request->rq_proc == 1) decoded = svc_getargs(transport, (xdrproc_t)xdr_short, (char *)&two);
    if (request->rq_proc == 2) decoded = svc_getargs(transport, (xdrproc_t)xdr_int, (char *)&four);
    if (decoded) svc_sendreply(transport, (xdrproc_t)xdr_void, NULL);
    else svcerr_decode(transport);
}

static int serve(const char *address) {
    struct sockaddr_in here = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || inet_pton(AF_INET, address, &here.sin_addr) != 1 || bind(fd, (struct sockaddr *)&here, sizeof here))
        return 1;
    SVCXPRT *udp = svcudp_create(fd);
    if (!udp || !svc_register(udp, PROGRAM, VERSION, dispatch, 0)) return 1;
    printf("listening %d\n", udp->xp_port);
    fflush(stdout);
    svc_run();
    return 1;
}

static int repeat(CLIENT *client, int procedure, int times) {
    short two = 7;
    int four = 7;
    struct timeval limit = {5, 0};
    xdrproc_t encode[] = {(xdrproc_t)xdr_void, (xdrproc_t)xdr_short, (xdrproc_t)xdr_int};
    char *arguments[] = {NULL, (char *)&two, (char *)&four};
    while (times-- > 0)
        if (clnt_call(client, procedure, encode[procedure], arguments[procedure], (xdrproc_t)xdr_void, NULL, limit))
            return 1;
    return 0;
}

static int call(const char *address, int port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = RPC_ANYSOCK;
    struct timeval retry = {5, 0};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1) return 1;
    CLIENT *client = clntudp_create(&server, PROGRAM, VERSION, retry, &fd);
    char line[64];
    while (client && fgets(line, sizeof line, stdin)) {
        int procedure, times;
        if (sscanf(line, "%d %d %d", &procedure, &times, &watching) != 3 || procedure < 0 || procedure > 2) return 1;
        memset(calls, 0, sizeof calls);
        memset(nanoseconds, 0, sizeof nanoseconds);
        long begun = now();
        if (repeat(client, procedure, times)) return 1;
        printf("took %ld", now() - begun);
        for (int kind = 0; kind < KINDS; kind++) printf(" %ld %ld", calls[kind], nanoseconds[kind]);
        printf("\n");
        fflush(stdout);
    }
    return 1;
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count == 3 && !strcmp(arguments[1], "server")) return serve(arguments[2]);
    if (count == 4 && !strcmp(arguments[1], "client")) return call(arguments[2], atoi(arguments[3]));
    return 2;
}
