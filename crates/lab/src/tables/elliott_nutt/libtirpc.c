/* Program Two by libtirpc, the C library of today for Sun RPC.

   libtirpc server ADDRESS          prints the UDP port at which it serves
   libtirpc client ADDRESS PORT     answers each line "PROCEDURE CALLS TASK" of standard input with the nanoseconds of all calls,
                                    and then calls and nanoseconds of sendto, of recvfrom or recvmsg, and of poll or select */
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
/* Makes calls; makes them and times their system calls; runs only the XDR routines of a call: those of the client, those of the
   server up to the procedure, and those of the server for arguments and reply; asks how long the server took to find the procedure. */
enum { PLAIN, WATCH, XDR_OF_CLIENT, XDR_OF_HEADER, XDR_OF_SERVER, DISPATCHED };
/* The procedure that returns how many calls reached a procedure since it was called last, and in how many nanoseconds. */
enum { SUMS = 3 };

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

/* At the server, while it measures: when the last call was received, and the calls and nanoseconds until their procedures began. */
static int measuring;
static long received;
static uint64_t reached[2];

static long when_received(long result) {
    if (measuring) received = now();
    return result;
}
ssize_t recvfrom(int fd, void *data, size_t len, int flags, struct sockaddr *from, socklen_t *from_len) {
    return when_received(watched(RECEIVE, SYS_recvfrom, fd, (long)data, (long)len, flags, (long)from, (long)from_len));
}
ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    return when_received(watched(RECEIVE, SYS_recvmsg, fd, (long)message, flags, 0, 0, 0));
}
int poll(struct pollfd *fds, nfds_t count, int milliseconds) {
    return (int)watched(WAIT, SYS_poll, (long)fds, (long)count, milliseconds, 0, 0, 0);
}

static bool_t xdr_sums(XDR *xdr, uint64_t *sums) {
    return xdr_uint64_t(xdr, &sums[0]) && xdr_uint64_t(xdr, &sums[1]);
}

static void dispatch(struct svc_req *request, SVCXPRT *transport) {
    if (measuring) {
        reached[0]++;
        reached[1] += now() - received;
    }
    if (request->rq_proc == SUMS) {
        svc_sendreply(transport, (xdrproc_t)xdr_sums, (char *)reached);
        reached[0] = reached[1] = 0;
        measuring = !measuring;
        return;
    }
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

static short two = 7;
static int four = 7;
static const xdrproc_t of_argument[] = {(xdrproc_t)xdr_void, (xdrproc_t)xdr_short, (xdrproc_t)xdr_int};
static char *const arguments[] = {NULL, (char *)&two, (char *)&four};
static const struct timeval limit = {5, 0};

static int repeat(CLIENT *client, int procedure, int times) {
    while (times-- > 0)
        if (clnt_call(client, procedure, of_argument[procedure], arguments[procedure], (xdrproc_t)xdr_void, NULL, limit))
            return 1;
    return 0;
}

/* The message of a call, and that of its reply. */
static char call_message[400], reply_message[400];
static u_int after_header, call_len, reply_len;
static AUTH *none;

/* Writes a call as clnt_dg.c does: behind a header that was written once. */
static bool_t write_call(XDR *xdr, int procedure) {
    int32_t number = procedure;
    XDR_SETPOS(xdr, after_header);
    return XDR_PUTINT32(xdr, &number) && AUTH_MARSHALL(none, xdr) &&
           of_argument[procedure](xdr, arguments[procedure]);
}

static bool_t read_reply(void) {
    XDR xdr;
    struct rpc_msg reply = {0};
    reply.acpted_rply.ar_results.proc = (xdrproc_t)xdr_void;
    xdrmem_create(&xdr, reply_message, reply_len, XDR_DECODE);
    return xdr_replymsg(&xdr, &reply);
}

static bool_t read_header(XDR *xdr, char *credentials) {
    struct rpc_msg call;
    call.rm_call.cb_cred.oa_base = credentials;
    call.rm_call.cb_verf.oa_base = credentials + MAX_AUTH_BYTES;
    xdrmem_create(xdr, call_message, call_len, XDR_DECODE);
    return xdr_callmsg(xdr, &call);
}

static bool_t write_reply(void) {
    XDR xdr;
    struct rpc_msg reply = {.rm_xid = 1, .rm_direction = REPLY};
    reply.rm_reply.rp_stat = MSG_ACCEPTED;
    reply.acpted_rply.ar_verf = _null_auth;
    reply.acpted_rply.ar_stat = SUCCESS;
    reply.acpted_rply.ar_results.proc = (xdrproc_t)xdr_void;
    xdrmem_create(&xdr, reply_message, sizeof reply_message, XDR_ENCODE);
    if (!xdr_replymsg(&xdr, &reply)) return 0;
    reply_len = XDR_GETPOS(&xdr);
    return 1;
}

/* Only the XDR routines of so many calls. */
static int xdr_alone(int task, int procedure, int times) {
    static char credentials[2 * MAX_AUTH_BYTES];
    XDR out, in;
    struct rpc_msg header = {.rm_xid = 1, .rm_direction = CALL};
    header.rm_call.cb_rpcvers = RPC_MSG_VERSION;
    header.rm_call.cb_prog = PROGRAM;
    header.rm_call.cb_vers = VERSION;
    xdrmem_create(&out, call_message, sizeof call_message, XDR_ENCODE);
    if (!xdr_callhdr(&out, &header)) return 1;
    after_header = XDR_GETPOS(&out);
    if (!write_call(&out, procedure) || !write_reply()) return 1;
    call_len = XDR_GETPOS(&out);
    if (!read_header(&in, credentials)) return 1;
    u_int after_call_header = XDR_GETPOS(&in);
    while (times-- > 0) {
        int done;
        if (task == XDR_OF_CLIENT) done = write_call(&out, procedure) && read_reply();
        else if (task == XDR_OF_HEADER) done = read_header(&in, credentials);
        else done = XDR_SETPOS(&in, after_call_header) && of_argument[procedure](&in, arguments[procedure]) && write_reply();
        if (!done) return 1;
    }
    return 0;
}

static int run(CLIENT *client, int task, int procedure, int times) {
    if (task != DISPATCHED) return task > WATCH ? xdr_alone(task, procedure, times) : repeat(client, procedure, times);
    uint64_t sums[2];
    if (clnt_call(client, SUMS, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_sums, (char *)sums, limit)) return 1;
    calls[RECEIVE] = (long)sums[0];
    nanoseconds[RECEIVE] = (long)sums[1];
    return 0;
}

static int call(const char *address, int port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = RPC_ANYSOCK;
    struct timeval retry = {5, 0};
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1) return 1;
    CLIENT *client = clntudp_create(&server, PROGRAM, VERSION, retry, &fd);
    none = authnone_create();
    char line[64];
    while (client && fgets(line, sizeof line, stdin)) {
        int procedure, times, task;
        if (sscanf(line, "%d %d %d", &procedure, &times, &task) != 3 || procedure < 0 || procedure > 2) return 1;
        watching = task == WATCH;
        memset(calls, 0, sizeof calls);
        memset(nanoseconds, 0, sizeof nanoseconds);
        long begun = now();
        if (run(client, task, procedure, times)) return 1;
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
