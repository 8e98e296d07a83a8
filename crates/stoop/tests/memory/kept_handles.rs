//! Handles of clients that have gone, which a server's program keeps.

use crate::harness::eventually;
use crate::harness::processes::{Process, name};
use std::sync::Mutex;
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Guest {
    fn next(&self, number: u32) -> u32;
}

#[stoop::interface(callback = Guest)]
trait Room {
    fn join(&self, #[callback] guest: GuestClient) -> u32;
}

struct Hall(Mutex<Vec<GuestClient>>);

impl Room for Hall {
    fn join(&self, guest: GuestClient) -> u32 {
        let next = guest.next(6).unwrap();
        self.0.lock().unwrap().push(guest);
        next
    }
}

struct Screen;

impl Guest for Screen {
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    if role != "serve-kept-handles" {
        return false;
    }
    let hall = RoomServer::new(Hall(Mutex::default()));
    let server = Server::new().export(hall).listen(uri).unwrap().start().unwrap();
    println!("at {}", server.uris()[0]);
    std::io::stdin().lines().for_each(drop);
    true
}

const CLIENTS: usize = 100;

#[test]
fn kept_handles_of_clients_that_have_gone_hold_no_descriptors_or_shared_memory() {
    let unix = format!("unix:@{}", name());
    for uri in ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &unix, &name()] {
        let mut server = Process::start("serve-kept-handles", uri);
        let uri = server.find_line(|line| line.starts_with("at "));
        let uri = uri.strip_prefix("at ").unwrap();
        let join = |_| {
            let options = BindOptions::new().callback(GuestServer::new(Screen));
            assert_eq!(RoomClient::bind_with(uri, &options).unwrap().join().unwrap(), 7);
        };
        let held = || {
            let of_server = |what| format!("/proc/{}/{what}", server.pid());
            let mapped = std::fs::read_to_string(of_server("maps")).unwrap().matches("memfd:").count();
            std::fs::read_dir(of_server("fd")).unwrap().count() + mapped
        };
        (0..8).for_each(join);
        let before = held();
        (0..CLIENTS).for_each(join);
        eventually(|| held() < before + CLIENTS / 4);
    }
}
