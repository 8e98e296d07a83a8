//! Pipes whose server is lost while nothing travels.

use crate::harness::{self, eventually, relay};
use crate::*;
use std::sync::atomic::{AtomicU8, Ordering};
use stoop::PacketOptions;
use stoop_wire::{BindingId, Header, Kind};

/// What the wire lets pass.
static WIRE: AtomicU8 = AtomicU8::new(ALL);
const ALL: u8 = 0;
const NOTHING: u8 = 1;
/// All but packets by which a call with pipes of the first binding can learn that its server has gone.
const NO_NEWS: u8 = 2;

/// The binding of the first call.
static FIRST: OnceLock<BindingId> = OnceLock::new();

fn wire(_: relay::Way, datagram: &[u8]) -> Vec<Vec<u8>> {
    let passes = Header::parse(datagram).is_ok_and(|(Header { kind, binding, .. }, _)| {
        if kind == Kind::Call {
            FIRST.get_or_init(|| binding);
        }
        let is_news = matches!(kind, Kind::Probe | Kind::Probes | Kind::Data | Kind::Receipt);
        match WIRE.load(Ordering::SeqCst) {
            NOTHING => false,
            NO_NEWS => !is_news || FIRST.get() != Some(&binding),
            _ => true,
        }
    });
    passes.then(|| datagram.to_vec()).into_iter().collect()
}

#[test]
fn an_object_is_offered_again_as_soon_as_a_call_has_found_the_next_server() {
    let (hall, screen) = (Hall::default(), Screen::default());
    let server = hall.serve_at("udp://127.0.0.1:0");
    let uri = server.uris()[0].clone();
    let relay = relay::Relay::to(uri.strip_prefix("udp://").unwrap(), wire);
    let patient = PacketOptions::new().silence_limit(2 * harness::LIMIT);
    let options = screen.options().after_bind(|room: &RoomClient| room.join()).with(patient);
    let room = RoomClient::bind_with(&relay.uri, &options).unwrap();
    assert_eq!(hall.guest().next(7).unwrap(), 8);
    // The server ends, and its clients do not learn it.
    WIRE.store(NOTHING, Ordering::SeqCst);
    server.shut_down();
    drop(server);
    let hall = Hall::default();
    let _server = hall.serve_at(&uri);
    WIRE.store(NO_NEWS, Ordering::SeqCst);
    eventually(|| room.version().is_ok());
    eventually(|| hall.len() > 0);
    eventually(|| hall.guest().next(7).is_ok());
}
