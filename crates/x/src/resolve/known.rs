//! Names that C programs have from headers without defining them in the interface file.

use crate::model::Scalar;

/// The declarations of `<rpc/rpc.h>` that interface files use, as if a file had been included.
pub(crate) const HEADERS: &str = "
/* An object of any kind: a ticket, a public key. */
typedef opaque netobj<1024>;
/* A transport address. */
struct netbuf {
    unsigned int maxlen; /* the length of the buffer that holds it */
    opaque buf<>;        /* the address */
};
/* A block of the Data Encryption Standard. */
struct des_block {
    opaque c[8];
};
/* The body of a credential of flavour AUTH_SYS, RFC 5531 appendix A. */
struct authsys_parms {
    unsigned int stamp;
    string machinename<255>;
    unsigned int uid;
    unsigned int gid;
    unsigned int gids<16>;
};
";

/// Constants of the language (RFC 4506 §4.4), and of `<rpc/rpc.h>` (RFC 5531 §8.1, and the longest name of a network user).
pub(super) const CONSTANTS: [(&str, i128); 12] = [
    ("FALSE", 0),
    ("TRUE", 1),
    ("AUTH_NONE", 0),
    ("AUTH_NULL", 0),
    ("AUTH_SYS", 1),
    ("AUTH_UNIX", 1),
    ("AUTH_SHORT", 2),
    ("AUTH_DH", 3),
    ("AUTH_DES", 3),
    ("RPCSEC_GSS", 6),
    ("MAXNETNAMELEN", 255),
    ("MAX_NETOBJ_SZ", 1024),
];

/// The type of XDR that rpcgen's runtime has for a C type.
pub(super) fn scalar(name: &str) -> Option<Scalar> {
    Some(match name {
        "bool_t" => Scalar::Bool,
        "int8_t" => Scalar::I8,
        "u_char" | "uint8_t" | "u_int8_t" => Scalar::U8,
        "int16_t" => Scalar::I16,
        "u_short" | "uint16_t" | "u_int16_t" | "ushort" => Scalar::U16,
        "int32_t" | "enum_t" => Scalar::I32,
        "u_int" | "u_long" | "uint32_t" | "u_int32_t" | "uint" | "ulong" => Scalar::U32,
        "rpcprog_t" | "rpcvers_t" | "rpcproc_t" | "rpcprot_t" | "rpcport_t" => Scalar::U32,
        "int64_t" | "quad_t" | "longlong_t" => Scalar::I64,
        "uint64_t" | "u_int64_t" | "u_quad_t" | "u_longlong_t" => Scalar::U64,
        _ => return None,
    })
}
