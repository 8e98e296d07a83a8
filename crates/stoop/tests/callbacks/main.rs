//! Callbacks over every transport that carries pipes: one list of claims.

#[path = "../harness/mod.rs"]
mod harness;

mod absent;
mod calls;
mod crowds;
mod hostile;
mod lives;
mod nested;
mod outcomes;
mod quiet;
mod revisions;

use crate::harness::gate::Gate;
use crate::harness::loopback;
use crate::harness::transports::{ListenThere, address};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use stoop::{BindOptions, CallError, Metadata, RunningServer, Server, current_call};

/// Makes a test of each claim for each transport that carries pipes.
macro_rules! claims {
    ([$($claim:ident)*]) => {
        claims! { @ local [$($claim)*] }
        claims! { remote [$($claim)*] }
    };
    (remote [$($claim:ident)*]) => {
        claims! { @ tcp [$($claim)*] }
        claims! { @ unix [$($claim)*] }
        claims! { @ shm [$($claim)*] }
        claims! { @ udp [$($claim)*] }
        claims! { @ ether [$($claim)*] }
        claims! { @ memory [$($claim)*] }
        claims! { @ lossy [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ tcp_sealed [$($claim)*] }
        #[cfg(feature = "seal")]
        claims! { @ udp_sealed [$($claim)*] }
    };
    (@ $transport:ident [$($claim:ident)*]) => {
        mod $transport {
            $(
                #[test]
                fn $claim() {
                    if crate::harness::transports::is_there(stringify!($transport)) {
                        super::$claim(stringify!($transport));
                    }
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
    /// Waits at the gate, and then adds one.
    fn next_later(&self, number: u64) -> u64;
    /// Waits at the gate, and then keeps the text.
    #[one_way]
    fn said_later(&self, text: &str);
    /// Waits at the gate, and then gives so many bytes.
    fn bytes_later(&self, len: u64) -> Vec<u8>;
    /// Panics.
    fn panic(&self);
    /// Milliseconds that are left of the call's time.
    fn time_left(&self) -> u64;
    /// Gives the metadata of the call back.
    fn tenant(&self) -> String;
    /// Calls the server, which calls back, until the number is zero. Returns how many callbacks that were.
    fn down(&self, number: u64) -> Result<u64, String>;
    /// Answers later, by another thread.
    fn deferred(&self, number: u64) -> stoop::Deferred<u64>;
    /// Answers when it is asked for no longer.
    fn until_cancelled(&self) -> stoop::Deferred<()>;
    /// Adds one, as a task.
    async fn awaited(&self, number: u64) -> u64;
}

#[stoop::interface(callback = Guest)]
trait Room {
    /// Has its caller's object add one, before it returns.
    fn next_of_caller(&self, number: u64, #[callback] guest: GuestClient) -> u64;
    /// Has its caller's object add one, in an `async fn`.
    async fn next_awaited(&self, number: u64, #[callback] guest: GuestClient) -> u64;
    /// How much time its caller's object has.
    fn time_of_caller(&self, #[callback] guest: GuestClient) -> u64;
    /// Keeps a client of its caller's object.
    fn join(&self, #[callback] guest: GuestClient);
    /// Has its caller's object count down.
    fn down(&self, number: u64, #[callback] guest: GuestClient) -> Result<u64, String>;
    /// Tells its caller's object the texts, and then has it add one.
    fn tell_and_ask(&self, texts: &[String], #[callback] guest: GuestClient) -> u64;
    fn version(&self) -> u64;
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

    async fn next_awaited(&self, number: u64, guest: GuestClient) -> u64 {
        guest.to_async().next(number).await.unwrap()
    }

    fn time_of_caller(&self, guest: GuestClient) -> u64 {
        guest.time_left().unwrap()
    }

    fn join(&self, guest: GuestClient) {
        self.guests.lock().unwrap().push(guest);
    }

    fn down(&self, number: u64, guest: GuestClient) -> Result<u64, String> {
        guest.down(number).map_err(|why| why.to_string())
    }

    fn tell_and_ask(&self, texts: &[String], guest: GuestClient) -> u64 {
        texts.iter().for_each(|text| guest.said(text).unwrap());
        guest.next(6).unwrap()
    }

    fn version(&self) -> u64 {
        7
    }
}

impl Hall {
    /// The guest that has joined last.
    fn guest(&self) -> GuestClient {
        self.guests.lock().unwrap().last().expect("a guest has joined").clone()
    }

    fn len(&self) -> usize {
        self.guests.lock().unwrap().len()
    }

    fn serve(&self, transport: &str) -> RunningServer {
        self.serve_at(&address(transport))
    }

    fn serve_at(&self, uri: &str) -> RunningServer {
        loopback::await_free(uri);
        let server = Server::new().export(RoomServer::new(self.clone()));
        server.listen_there(uri).unwrap().start().unwrap()
    }
}

/// The client's object: it keeps what it is told.
#[derive(Clone, Default)]
struct Screen {
    lines: Arc<Mutex<Vec<String>>>,
    gate: Gate,
    /// What `next_later` was asked.
    asked: Arc<Mutex<Vec<u64>>>,
    /// Of `until_cancelled`.
    unanswered: Arc<Mutex<Option<stoop::Reply<()>>>>,
    /// The client that offers it.
    room: Arc<OnceLock<RoomClient>>,
}

impl Guest for Screen {
    fn next(&self, number: u64) -> u64 {
        number + 1
    }

    fn said(&self, text: &str) {
        self.lines.lock().unwrap().push(text.into());
    }

    fn next_later(&self, number: u64) -> u64 {
        self.asked.lock().unwrap().push(number);
        self.gate.pass();
        number + 1
    }

    fn bytes_later(&self, len: u64) -> Vec<u8> {
        self.gate.pass();
        vec![7; len as usize]
    }

    fn said_later(&self, text: &str) {
        self.gate.pass();
        self.lines.lock().unwrap().push(text.into());
    }

    fn panic(&self) {
        panic!("a secret of the client");
    }

    fn time_left(&self) -> u64 {
        current_call().expect("it serves a call").time_left().as_millis() as u64
    }

    fn tenant(&self) -> String {
        let call = current_call().expect("it serves a call");
        call.set_answer_metadata(Metadata::new().set("seen", "yes"));
        String::from_utf8_lossy(call.metadata().get("tenant").unwrap_or_default()).into_owned()
    }

    fn down(&self, number: u64) -> Result<u64, String> {
        match number {
            0 => Ok(1),
            _ => {
                let room = self.room.get().expect("the test has set it");
                room.down(number - 1).map(|depth| depth + 1).map_err(|why| format!("{why:?}"))
            }
        }
    }

    fn deferred(&self, number: u64) -> stoop::Deferred<u64> {
        let (reply, deferred) = stoop::deferred();
        let gate = self.gate.clone();
        std::thread::spawn(move || {
            gate.pass();
            reply.send(number + 1)
        });
        deferred
    }

    fn until_cancelled(&self) -> stoop::Deferred<()> {
        let (reply, deferred) = stoop::deferred();
        *self.unanswered.lock().unwrap() = Some(reply);
        deferred
    }

    async fn awaited(&self, number: u64) -> u64 {
        number + 1
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
    joined_with(transport, |options| options)
}

fn joined_with(
    transport: &str,
    change: impl FnOnce(BindOptions) -> BindOptions,
) -> (RunningServer, Hall, Screen, RoomClient) {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve(transport);
    let room = RoomClient::bind_with(&server.uris()[0], &change(screen.options())).unwrap();
    room.join().unwrap();
    (server, hall, screen, room)
}
