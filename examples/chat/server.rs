//! Serves the room of the chat:
//!
//! ```sh
//! cargo run --example chat-server
//! ```
//!
//! It listens at unix:@chat, or at the addresses that are given as arguments (after `--`).

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop::error::SendError;
use stoop::{CallError, Server};
use stoop_examples::chat::{GuestClient, Room, RoomServer};
use stoop_examples::serve::{exit_code, serve};

/// The guests by their names, each with a number of its own, and the next number.
#[derive(Default)]
struct Hall(Mutex<HashMap<String, (u64, GuestClient)>>, AtomicU64);

impl Room for Hall {
    fn join(&self, name: &str, guest: GuestClient) {
        // A callback waits for so long for a guest that takes nothing, and fails. The next ones fail at once, until the guest takes one.
        let guest = guest.with_timeout(Duration::from_millis(100));
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap().insert(name.into(), (number, guest));
        self.say("hall", &format!("{name} has come"));
    }

    fn say(&self, who: &str, text: &str) {
        let guests = self.0.lock().unwrap().clone(); // no lock while they are called
        for (gone, guest) in guests.into_values() {
            if let Err(CallError::NotSent(SendError::ClientGone, ..)) = guest.said(who, text) {
                // By its number: a guest of that name may have joined again.
                self.0.lock().unwrap().retain(|_, (number, _)| *number != gone);
            }
        }
    }
}

fn main() -> ExitCode {
    let mut addresses: Vec<_> = std::env::args().skip(1).collect();
    if addresses.is_empty() {
        addresses.push("unix:@chat".into());
    }
    exit_code(serve(Server::new().export(RoomServer::new(Hall::default())), &addresses))
}
