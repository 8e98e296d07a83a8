//! Interfaces without callbacks: a bind has nothing of them.

use crate::GuestClient;
use crate::harness::relay::{Relay, Way};
use std::sync::Mutex;
use stoop::Server;
use stoop_wire::bind::BindRequest;
use stoop_wire::{Header, Kind};

#[stoop::interface]
trait Plain {
    fn null(&self);
    fn add(&self, a: u32, b: u32) -> u32;
}

/// The same with callbacks.
#[stoop::interface(callback = Guest)]
trait Calling {
    fn null(&self);
    fn add(&self, a: u32, b: u32) -> u32;
}

struct Sum;

impl Plain for Sum {
    fn null(&self) {}
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
}

impl Calling for Sum {
    fn null(&self) {}
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
}

/// Of each packet that comes by the relay its kind, and of a request for a binding how many procedures it names.
static SEEN: Mutex<Vec<(Kind, Option<usize>)>> = Mutex::new(Vec::new());

fn note(_: Way, packet: &[u8]) -> Vec<Vec<u8>> {
    let (header, payload) = Header::parse(packet).unwrap();
    let asked = (header.kind == Kind::Bind).then(|| BindRequest::decode(payload).unwrap().fingerprints.len());
    SEEN.lock().unwrap().push((header.kind, asked));
    vec![packet.to_vec()]
}

#[test]
fn an_interface_without_callbacks_is_bound_by_its_own_procedures_alone() {
    let server = Server::new().export(PlainServer::new(Sum)).export(CallingServer::new(Sum));
    let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let relay = Relay::to(server.uris()[0].strip_prefix("udp://").unwrap(), note);
    let plain = PlainClient::bind(&relay.uri).unwrap();
    let of_plain = std::mem::take(&mut *SEEN.lock().unwrap());
    let calling = CallingClient::bind(&relay.uri).unwrap();
    let of_calling = std::mem::take(&mut *SEEN.lock().unwrap());
    assert_eq!((plain.add(2, 3).unwrap(), calling.add(2, 3).unwrap()), (5, 5));

    // A packet of a bind is sent again if its answer is late.
    let is_of_bind = |kind| matches!(kind, Kind::Bind | Kind::Challenge | Kind::BindReply);
    assert!(of_plain.iter().all(|(kind, _)| is_of_bind(*kind)), "something follows: {of_plain:?}");
    let procedures = [of_plain, of_calling].map(|seen| seen.iter().find_map(|(_, asked)| *asked).unwrap());
    assert_eq!(procedures, [2, 3], "that by which an object is offered is one more");
}
