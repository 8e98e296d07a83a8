//! Callbacks over every transport that carries pipes: one list of claims.

#[path = "../harness/mod.rs"]
mod harness;

mod calls;

use crate::harness::transports::{ListenThere, address};
use std::sync::{Arc, Mutex};
use stoop::{BindOptions, RunningServer, Server};

/// Makes a test of each claim for each transport that carries pipes.
macro_rules! claims {
    ([$($claim:ident)*]) => {
        claims! { @ local [$($claim)*] }
        claims! { @ tcp [$($claim)*] }
        claims! { @ unix [$($claim)*] }
        claims! { @ shm [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ tcp_sealed [$($claim)*] }
    };
    (@ $transport:ident [$($claim:ident)*]) => {
        mod $transport {
            $(
                #[test]
                fn $claim() {
                    super::$claim(stringify!($transport));
                }
            )*
        }
    };
}
use claims;

/// What clients offer.
#[stoop::interface]
trait Guest {
    /// Adds one.
    fn next(&self, number: u64) -> u64;
    #[one_way]
    fn said(&self, text: &str);
}

#[stoop::interface(callback = Guest)]
trait Room {
    /// Has its caller's object add one, before it returns.
    fn next_of_caller(&self, number: u64, #[callback] guest: GuestClient) -> u64;
    /// Keeps a client of its caller's object.
    fn join(&self, #[callback] guest: GuestClient);
}

/// The server: it keeps those that have joined.
#[derive(Clone, Default)]
struct Hall {
    guests: Arc<Mutex<Vec<GuestClient>>>,
}

impl Room for Hall {
    fn next_of_caller(&self, number: u64, guest: GuestClient) -> u64 {
        guest.next(number).unwrap()
    }

    fn join(&self, guest: GuestClient) {
        self.guests.lock().unwrap().push(guest);
    }
}

impl Hall {
    /// The guest that has joined last.
    fn guest(&self) -> GuestClient {
        self.guests.lock().unwrap().last().expect("a guest has joined").clone()
    }

    fn serve(&self, transport: &str) -> RunningServer {
        let server = Server::new().export(RoomServer::new(self.clone()));
        server.listen_there(&address(transport)).unwrap().start().unwrap()
    }
}

/// The client's object: it keeps what it is told.
#[derive(Clone, Default)]
struct Screen {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Guest for Screen {
    fn next(&self, number: u64) -> u64 {
        number + 1
    }

    fn said(&self, text: &str) {
        self.lines.lock().unwrap().push(text.into());
    }
}

impl Screen {
    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn options(&self) -> BindOptions {
        BindOptions::new().callback(GuestServer::new(self.clone()))
    }
}

/// A server on that transport, and a client that offers a screen and has joined.
fn joined(transport: &str) -> (RunningServer, Hall, Screen, RoomClient) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    let room = RoomClient::bind_with(&server.uris()[0], &screen.options()).unwrap();
    room.join().unwrap();
    (server, hall, screen, room)
}
