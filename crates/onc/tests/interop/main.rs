//! Real peers: rpcbind, and programs that Debian's rpcgen and libtirpc make, as servers and as callers.
//!
//! Each test starts itself again in private namespaces, with an rpcbind of its own (`sandbox`). It needs root, `unshare`,
//! rpcbind, rpcgen and libtirpc, and says so if it cannot run. `client` and `server` are the simplest drivers of the
//! crate over `std::net`.

mod c_peers;
mod capture;
mod client;
mod libtirpc;
mod peer;
mod rpcbind;
mod sandbox;
mod server;
mod tshark;
