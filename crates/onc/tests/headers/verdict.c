/* The verdict of libtirpc's own routines, for the messages of Sun RPC and rpcbind. */
#include <rpc/rpc.h>
#include <rpc/auth_unix.h>
#include <rpc/pmap_prot.h>
#include <rpc/rpcb_prot.h>
#include "verdict.h"

/* A reply without its results. */
static bool_t reply(XDR *xdr, void *value) {
    struct rpc_msg *message = value;
    message->acpted_rply.ar_results.proc = (xdrproc_t)xdr_void;
    return xdr_replymsg(xdr, message);
}

const struct type types[] = {
    {"call", xdr_callmsg}, {"reply", reply}, {"sys", xdr_authunix_parms}, {"mappings", xdr_pmaplist},
    {"rpcbs", xdr_rpcblist_ptr}, {"entries", xdr_rpcb_entry_list_ptr}, {"statistics", xdr_rpcb_stat_byvers},
    {"buffer", xdr_netbuf}, {NULL, NULL},
};
