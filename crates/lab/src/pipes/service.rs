//! The server process of `bench --pipes`.

use crate::args::ServeArgs;
use crate::{child, ours, serve};
use std::hint::black_box;
use stoop::{Receiver, Security, Sender, Server};

/// The interface of the measurement.
#[stoop::interface]
pub(crate) trait Piped {
    /// Nothing.
    fn null(&self);
    /// Takes an argument.
    fn put(&self, data: &[u8]);
    /// Fills a result.
    fn get(&self, #[out] data: &mut [u8]);
    /// Receives items; returns how many.
    fn take(&self, items: Receiver<[u8]>) -> u64;
    /// Sends items of so many bytes while they are wanted.
    fn give(&self, len: u32, items: Sender<[u8]>);
    /// Sends each item back.
    fn echo(&self, there: Receiver<[u8]>, back: Sender<[u8]>);
}

struct Exerciser;

impl Piped for Exerciser {
    fn null(&self) {}

    fn put(&self, data: &[u8]) {
        black_box(data);
    }

    fn get(&self, data: &mut [u8]) {
        data[0] = 1;
    }

    fn take(&self, mut items: Receiver<[u8]>) -> u64 {
        let mut taken = 0;
        while let Ok(Some(())) = items.recv_with(|item| _ = black_box(item)) {
            taken += 1;
        }
        taken
    }

    fn give(&self, len: u32, items: Sender<[u8]>) {
        let item = vec![0x5a; len as usize];
        while items.send(&item).is_ok() {}
    }

    fn echo(&self, mut there: Receiver<[u8]>, back: Sender<[u8]>) {
        while let Ok(Some(Ok(()))) = there.recv_with(|item| back.send(item)) {}
    }
}

/// Serves until the parent ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    serve::prepare(args).map_err(|error| format!("the server process: {error}"))?;
    let server = Server::new()
        .security(Security::none())
        .waiting(ours::wait(args.waiting))
        .export(PipedServer::new(Exerciser));
    let server = server.listen(&serve::address(args)?).and_then(Server::start);
    let server = server.map_err(|error| error.to_string())?;
    let wait = || {
        child::answer(&format!("listening {}", server.uris()[0]))?;
        while child::next_order()?.is_some() {}
        Ok(())
    };
    child::unless_orphaned(wait()).map_err(|why| format!("the server process: {why}"))
}
