/* The verdict of the routines that rpcgen made from types.x. */
#include "types.h"
#include "verdict.h"

const struct type types[] = {
    {"numbers", xdr_numbers}, {"narrow", xdr_narrow}, {"blobs", xdr_blobs}, {"arrays", xdr_arrays},
    {"entry", xdr_entry}, {"status", xdr_status}, {"perhaps", xdr_perhaps}, {"nodes", xdr_nodes},
    {"tree", xdr_tree}, {"all", xdr_all}, {NULL, NULL},
};
