/*
 * Interprets nodes in C, with stubs that rpcgen makes of the trait (Debian: rpcsvc-proto, libtirpc-dev):
 *
 *     stoop gen x --from-trait src/olympus.rs -o olympus.x
 *     rpcgen -N -h -o olympus.h olympus.x
 *     rpcgen -N -c -o olympus_xdr.c olympus.x
 *     rpcgen -N -m -o olympus_svc.c olympus.x
 *     cc -I/usr/include/tirpc -I. -o worker olympus/worker.c olympus_svc.c olympus_xdr.c -ltirpc
 *
 * It registers nowhere: it tells its ports. It offers `empty` and `sleep`, one node at a time.
 */
#include "olympus.h"
#include <stdio.h>
#include <time.h>

extern void interpreter_prog_1(struct svc_req *, SVCXPRT *);

Interpreter_offers_result *interpreter_offers_1_svc(struct svc_req *request) {
    (void)request;
    static Offer offers[] = {{"empty", TRUE}, {"sleep", TRUE}};
    static Interpreter_offers_result all = {2, offers};
    return &all;
}

Outcome *interpreter_interpret_1_svc(u_int offer, u_quad_t argument, struct svc_req *request) {
    (void)request;
    static Outcome outcome;
    struct timespec time = {argument / 1000, argument % 1000 * 1000000};
    outcome = offer < 2 ? OUTCOME_DONE : OUTCOME_NOTOFFERED;
    if (offer == 1) nanosleep(&time, NULL);
    return &outcome;
}

Outcome *interpreter_interpret_again_1_svc(u_int offer, u_quad_t argument, struct svc_req *request) {
    return interpreter_interpret_1_svc(offer, argument, request);
}

int main(void) {
    SVCXPRT *udp = svcudp_create(RPC_ANYSOCK), *tcp = svctcp_create(RPC_ANYSOCK, 0, 0);
    if (!udp || !tcp || !svc_register(udp, INTERPRETER_PROG, INTERPRETER_VERS, interpreter_prog_1, 0) ||
        !svc_register(tcp, INTERPRETER_PROG, INTERPRETER_VERS, interpreter_prog_1, 0))
        return 1;
    printf("listening at onc+udp://127.0.0.1:%d\nlistening at onc+tcp://127.0.0.1:%d\n", udp->xp_port, tcp->xp_port);
    fflush(stdout);
    svc_run();
    return 1;
}
