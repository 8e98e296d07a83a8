//! What the order between one-way calls and the next call costs: prints, for each transport, the time of a call alone, of a one-way
//! call followed by a call, ordered and unordered, and of two calls. The server runs in this process.
//!
//!     cargo run --release -p stoop --example one_way_order

use std::error::Error;
use std::time::{Duration, Instant};
use stoop::Server;

#[stoop::interface]
trait Notes {
    fn null(&self);
    #[one_way]
    fn note(&self);
    #[one_way(unordered)]
    fn note_unordered(&self);
}

struct Nothing;

impl Notes for Nothing {
    fn null(&self) {}
    fn note(&self) {}
    fn note_unordered(&self) {}
}

const ROUNDS: u32 = 20_000;

/// Nanoseconds of one round, the median of nine runs.
fn measure(mut round: impl FnMut() -> Result<(), stoop::CallError>) -> Result<u128, stoop::CallError> {
    let mut runs = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        for _ in 0..ROUNDS / 9 {
            round()?;
        }
        runs.push(begun.elapsed().as_nanos() / u128::from(ROUNDS / 9));
    }
    runs.sort_unstable();
    Ok(runs[runs.len() / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = format!("one-way-order-{}", std::process::id());
    println!("ns        null()   note, null   unordered note, null   null, null");
    for uri in [
        format!("local:{name}"),
        "udp://127.0.0.1:0".into(),
        "tcp://127.0.0.1:0".into(),
        format!("unix:@{name}"),
        format!("shm:{name}"),
    ] {
        let server = Server::new().export(NotesServer::new(Nothing)).listen(&uri)?.start()?;
        let client = NotesClient::bind(&server.uris()[0])?;
        let alone = measure(|| client.null())?;
        let ordered = measure(|| client.note().and_then(|()| client.null()))?;
        let mut round = 0;
        let unordered = measure(|| {
            round += 1;
            if round % 64 == 0 {
                // No server takes any number of calls at once.
                client.binding().flush(Duration::from_secs(10)).expect("empty procedures return");
            }
            client.note_unordered().and_then(|()| client.null())
        })?;
        let twice = measure(|| client.null().and_then(|()| client.null()))?;
        let transport = uri.split(':').next().unwrap_or_default();
        println!("{transport:6}{alone:10}{ordered:13}{unordered:23}{twice:13}");
    }
    Ok(())
}
