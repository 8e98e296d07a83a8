//! The server process of `bench --greedy` and `bench --bindings`: serves every user and host, and tells what it holds.

use crate::args::{ServeArgs, Transport};
use crate::greedy::{HOLD, Plain, PlainServer};
use crate::{child, ours, serve};
use std::io;
use std::thread;
use stoop::{InPlace, Limits, RunningServer, Security, Server, ShmOptions, UnixOptions};

/// The implementation.
struct Holder;

impl Plain for Holder {
    fn null(&self) {}

    fn hold(&self) {
        thread::sleep(HOLD);
    }

    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|&byte| u64::from(byte)).sum()
    }

    fn hold_bytes(&self, _: &[u8]) {
        thread::sleep(HOLD);
    }

    fn make(&self, len: u32) -> Vec<u8> {
        vec![1; len as usize]
    }

    fn sum_in_place(&self, bytes: &InPlace<u8>) -> u64 {
        (0..bytes.len()).map(|index| u64::from(bytes.get(index))).sum()
    }
}

/// Serves until the parent ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    serve::prepare(args).map_err(|error| format!("the server process: {error}"))?;
    let server = Server::new()
        .security(Security::none())
        .waiting(ours::wait(args.waiting))
        .limits(Limits::new().bindings(args.bindings))
        .export(PlainServer::new(Holder));
    let server = match args.transport {
        Transport::Unix => server.with(UnixOptions::new().allow_everybody()),
        Transport::Shm => server.with(ShmOptions::new().allow_everybody()),
        _ => server,
    };
    // The attacker is another user, and the umask may keep it from the socket's file.
    rustix::process::umask(rustix::fs::Mode::empty());
    let server = server.listen(&serve::address(args)?).and_then(Server::start);
    let server = server.map_err(|error| error.to_string())?;
    child::unless_orphaned(answer_orders(&server)).map_err(|why| format!("the server process: {why}"))
}

fn answer_orders(server: &RunningServer) -> io::Result<()> {
    child::answer(&format!("listening {}", server.uris()[0]))?;
    while child::next_order()?.is_some() {
        let counters = server.counters();
        let memory = stoop_net::memory::resident().unwrap_or(0);
        child::answer(&format!("stats {} {} {memory}", counters.bindings, counters.binds_refused))?;
    }
    Ok(())
}
