//! Interprets nodes of graphs:
//!
//! ```sh
//! cargo run --example olympus-worker -- shm:olympus udp://127.0.0.1:7420 onc+udp://127.0.0.1:7421
//! ```
//!
//! It offers `empty`, `sleep` (for as many milliseconds as its argument says), `fail`, and `once`: as `sleep`, but not idempotent.

use std::error::Error;
use std::thread;
use std::time::Duration;
use stoop::Server;
use stoop_examples::olympus::{Interpreter, InterpreterServer, Offer, Outcome};

struct Worker;

const OFFERS: [(&str, bool); 4] = [("empty", true), ("sleep", true), ("fail", true), ("once", false)];

impl Interpreter for Worker {
    fn offers(&self) -> Vec<Offer> {
        OFFERS.map(|(name, idempotent)| Offer { name: name.to_owned(), idempotent }).into()
    }

    fn interpret(&self, offer: u32, argument: u64) -> Outcome {
        match OFFERS.get(offer as usize) {
            Some(("empty", _)) => Outcome::Done,
            Some(("sleep" | "once", _)) => {
                thread::sleep(Duration::from_millis(argument));
                Outcome::Done
            }
            Some(_) => Outcome::Failed,
            None => Outcome::NotOffered,
        }
    }

    fn interpret_again(&self, offer: u32, argument: u64) -> Outcome {
        match OFFERS.get(offer as usize) {
            Some((_, true)) => self.interpret(offer, argument),
            _ => Outcome::NotOffered,
        }
    }
}

fn serve(uris: &[String]) -> Result<(), Box<dyn Error>> {
    let mut server = Server::new().export(InterpreterServer::new(Worker));
    for uri in uris {
        server = server.listen(uri)?;
    }
    let server = server.start()?;
    for uri in server.uris() {
        println!("listening at {uri}");
    }
    server.wait();
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(why) = serve(&arguments) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
