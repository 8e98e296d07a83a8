//! Sun RPC against real peers: rpcbind, and programs that Debian's rpcgen and libtirpc make, each test in private namespaces
//! (`sandbox`). They need root, `unshare`, rpcbind, rpcgen and libtirpc, and say so if they cannot run. `caller` needs no peer.

mod broadcast;
mod c_client;
mod c_server;
mod callbacks;
mod caller;
mod other_host;
#[path = "../../../onc/tests/interop/peer.rs"]
#[allow(dead_code)]
mod peer;
mod programs;
mod refusing;
mod register;
#[path = "../../../onc/tests/interop/sandbox.rs"]
mod sandbox;
mod server;
mod services;
mod troubles;
