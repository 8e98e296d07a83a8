/* The procedures of a server of peer.x; rpcgen makes the rest. */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int *add_1_svc(int a, int b, struct svc_req *request) {
    static int sum;
    sum = a + b;
    return &sum;
}

/* A list of so many items; below 0 a reason, and -99 neither. */
outcome *list_1_svc(int count, struct svc_req *request) {
    static outcome result;
    static item *list;
    static char names[1000][16];
    free(list);
    list = NULL;
    memset(&result, 0, sizeof result);
    if (count == -99) {
        result.code = 99;
    } else if (count < 0) {
        result.code = 1;
        result.outcome_u.reason = "negative";
    } else if (count > 0) {
        list = calloc(count, sizeof *list);
        for (int at = 0; at < count; at++) {
            snprintf(names[at], sizeof names[at], "item %d", at);
            list[at] = (item){names[at], -at, at + 1 < count ? &list[at + 1] : NULL};
        }
        result.outcome_u.list = list;
    }
    return &result;
}

blob *reverse_1_svc(blob bytes, struct svc_req *request) {
    static blob result;
    free(result.blob_val);
    result.blob_len = bytes.blob_len;
    result.blob_val = malloc(bytes.blob_len + 1);
    for (u_int at = 0; at < bytes.blob_len; at++)
        result.blob_val[at] = bytes.blob_val[bytes.blob_len - 1 - at];
    return &result;
}

u_int *count_1_svc(struct svc_req *request) {
    static u_int count;
    count++;
    return &count;
}

char **who_1_svc(struct svc_req *request) {
    static char text[500], *result = text;
    if (request->rq_cred.oa_flavor == AUTH_SYS) {
        struct authunix_parms *who = (struct authunix_parms *)request->rq_clntcred;
        snprintf(text, sizeof text, "%s %u %u %u", who->aup_machname, who->aup_uid, who->aup_gid, who->aup_len);
    } else {
        snprintf(text, sizeof text, "nobody");
    }
    return &result;
}

u_quad_t *square_2_svc(u_int number, struct svc_req *request) {
    static u_quad_t square;
    square = (u_quad_t)number * number;
    return &square;
}
