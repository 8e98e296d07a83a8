//! Interprets nodes of graphs:
//!
//! ```sh
//! cargo run --example olympus-worker -- shm:olympus udp://127.0.0.1:7420 onc+udp://127.0.0.1:7421
//! ```
//!
//! It offers `empty`, `sleep` (for as many milliseconds as its argument says), `fail`, and `once`: as `sleep`, but not idempotent.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use stoop::Server;
use stoop_examples::olympus::{Interpreter, InterpreterServer, Offer, Outcome};
use stoop_examples::serve::{exit_code, serve};

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

fn main() -> ExitCode {
    let addresses: Vec<String> = std::env::args().skip(1).collect();
    exit_code(serve(Server::new().export(InterpreterServer::new(Worker)), &addresses))
}
