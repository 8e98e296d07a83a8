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
use std::time::Duration;
use stoop::Server;
use stoop_examples::chat::{GuestClient, Room, RoomServer};
use stoop_examples::serve::{exit_code, serve};

#[derive(Default)]
struct Hall(Mutex<HashMap<String, GuestClient>>);

impl Room for Hall {
    fn join(&self, name: &str, guest: GuestClient) {
        // One that takes nothing is waited for as long as this, and then not again.
        let guest = guest.with_timeout(Duration::from_millis(100));
        self.0.lock().unwrap().insert(name.into(), guest);
        self.say("hall", &format!("{name} has come"));
    }

    fn say(&self, who: &str, text: &str) {
        let guests = self.0.lock().unwrap().clone(); // no lock while they are called
        for (name, guest) in guests {
            if guest.said(who, text).is_err() {
                self.0.lock().unwrap().remove(&name);
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
