//! Typed stubs made of interface files against the programs of others: C programs that rpcgen and libtirpc make, an NFS server, a
//! Python client of instruments, and hostile peers. Each test starts its peer, and says so if it cannot run.

mod capture;
mod hostile;
mod kinds;
mod largest;
mod nfs;
mod python;
#[path = "../../../onc/tests/interop/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;
#[path = "../../../onc/tests/interop/tshark.rs"]
mod tshark;
