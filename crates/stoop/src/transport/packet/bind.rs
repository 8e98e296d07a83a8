//! Binds to a server over packets: asks for a session until the server grants or refuses one.

use crate::error::BindError;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, PacketLink, Sending, Share};
use crate::transport::packet::now;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::protection::Protection;
use crate::transport::packet::session::{MOST_LANES, Session};
use std::io;
use std::sync::{Mutex, OnceLock};
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::{Instant, RoundTrip};
use stoop_net::waiting::Placement;
use stoop_net::{clock, host};
use stoop_wire::bind::CHECKSUM;
use stoop_wire::{CallNumber, Header, Kind, LaneId, MAX_DATAGRAM};

/// Bytes of a result that a server may send before it has heard how many there is room for.
const UNASKED_MAX: u32 = 256 << 10;

/// Binds to the server at that address until `deadline`. Returns the session, which has that generation, and the endpoint on
/// which it was granted.
pub(crate) fn bind<L: PacketLink>(
    interface: &'static Interface,
    uri: &str,
    server: &L::Address,
    deadline: Instant,
    options: &BindOptions,
    generation: u64,
) -> Result<(Session, Endpoint<L>), BindError> {
    let unreachable = |cause: io::Error| BindError::Unreachable { server: uri.into(), cause };
    let (endpoint, is_last) = match L::connect_to_bind(server, Share::OneLane) {
        // There is none for another lane: the first call shares one.
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
            (L::connect_to_bind(server, Share::ManyLanes), true)
        }
        endpoint => (endpoint, false),
    };
    let endpoint = Endpoint::Own(endpoint.map_err(unreachable)?);
    let own_options = options.own.of::<PacketOptions>();
    let own = host::HostFacts::gather();
    let begun = now();
    let mut attempts = 0;
    let (bound, round_trip) = loop {
        let required = L::required_flags(server) | if own_options.checksum { CHECKSUM } else { 0 };
        let mut binder = new_binder(interface, deadline, options, &own, endpoint.window(), required);
        let protection = Protection::default();
        match ask(&mut binder, &endpoint, &protection).map_err(unreachable)? {
            // A server of an earlier version may give any number. In one of two it says what this version takes for a seal.
            Some(BindStep::Bound(bound)) if bound.binding.is_sealed() && attempts < ATTEMPTS => {
                attempts += 1;
                let unbind = Header::bare(Kind::Unbind, bound.binding, LaneId(0), CallNumber::ZERO);
                let _ = endpoint.send(&unbind.to_bytes());
            }
            Some(BindStep::Bound(bound)) => break (bound, binder.path()),
            Some(step) => return Err(crate::calling::refused_bind::not_bound(step, interface, uri)),
            None => return Err(BindError::NoAnswer { server: uri.into(), waited: now().since(begun) }),
        }
    };
    let mut session = session((uri, server.to_string()), bound, round_trip, &own, options, generation);
    // No lane is known to which a shared endpoint could give the answers of a server that is being bound to.
    let endpoint = match own_options.shares_endpoints || is_last || L::must_share(server, Share::OneLane) {
        true => Endpoint::connect(server, Share::OneLane, true).map_err(unreachable)?,
        false => {
            if L::required_flags(server) != 0 {
                endpoint.redirect(server);
            }
            endpoint
        }
    };
    session.mechanism = endpoint.describe();
    session.prepare(&endpoint);
    Ok((session, endpoint))
}

/// Asks until the server answers for good; `None` when the deadline has passed.
///
/// # Errors
/// The system cannot send, or no program listens at the server's port.
fn ask(
    binder: &mut Binder,
    endpoint: &impl CallerEndpoint,
    protection: &Protection,
) -> io::Result<Option<BindStep>> {
    let mut packet = vec![0; MAX_DATAGRAM];
    let (mut refused, mut has_asked) = (0, false);
    loop {
        let mut arrival = CallerArrival::Nothing;
        if let Some(question) = binder.transmit(now()) {
            if has_asked {
                endpoint.follow_route();
            }
            has_asked = true;
            if protection.send(endpoint, &question)? == Sending::Refused {
                arrival = CallerArrival::Refused;
            }
        }
        if arrival == CallerArrival::Nothing {
            let wait = binder.next_timeout().since(now());
            arrival = endpoint.receive_within(&mut packet, wait.as_nanos() as u64)?;
        }
        match arrival {
            CallerArrival::Datagram(len) if is_sound(protection, &mut packet[..len]) => {
                match binder.handle_packet(now(), &packet[..len]) {
                    BindStep::Continue => {}
                    step => return Ok(Some(step)),
                }
            }
            // Asked twice, for the first refusal may be of a packet that another binding sent.
            CallerArrival::Refused if refused == 1 => return Err(io::ErrorKind::ConnectionRefused.into()),
            CallerArrival::Refused => refused += 1,
            CallerArrival::Datagram(_) | CallerArrival::Nothing | CallerArrival::TooLarge(_) => {}
        }
        if binder.has_expired(now()) {
            return Ok(None);
        }
    }
}

/// Whether binding may look at the packet. It looks at a challenge without a checksum, because a server that knows no checksums sends
/// one before it refuses them; a wrong cookie leads to another challenge.
fn is_sound(protection: &Protection, packet: &mut [u8]) -> bool {
    protection.open(packet) || Header::parse(packet).is_ok_and(|(header, _)| header.kind == Kind::Challenge)
}

/// Attempts to get a plain binding from a server of an earlier version.
const ATTEMPTS: u32 = 64;

/// Bytes of the longest message: its length has 32 bits in a packet.
fn max_message(options: &BindOptions) -> u32 {
    u32::try_from(options.max_message).unwrap_or(u32::MAX)
}

/// A binding that is about to be made by a caller with these facts about its machine. `window`: that of its endpoint.
pub(super) fn new_binder(
    interface: &'static Interface,
    deadline: Instant,
    options: &BindOptions,
    own: &host::HostFacts,
    window: u32,
    required: u32,
) -> Binder {
    let nonce = u64::from_le_bytes(host::random_bytes());
    Binder::new(now(), deadline, interface.for_exchange(), crate::host_facts::to_wire(own), nonce)
        .accepting(max_message(options), window.min(UNASKED_MAX))
        .asking(required, 0)
}

/// The session that a server at that address has granted.
pub(super) fn session(
    (uri, server): (&str, String),
    bound: Bound,
    round_trip: RoundTrip,
    own: &host::HostFacts,
    options: &BindOptions,
    generation: u64,
) -> Session {
    let silence_limit = options.own.of::<PacketOptions>().client_silence_limit();
    let max_message = max_message(options);
    let host = crate::host_facts::from_wire(&bound.host);
    let longest_call = bound.max_message.min(max_message) as usize;
    let most_lanes = u16::try_from(bound.lanes).unwrap_or(MOST_LANES).min(MOST_LANES);
    Session {
        generation,
        uri: uri.into(),
        server,
        bound,
        round_trip,
        placement: Placement::of(own, &host),
        is_here: own.shares_kernel_with(&host),
        because: None,
        read: Instant::from_nanos(clock::boot_now_ns()),
        asleep_ns: clock::asleep_ns(),
        own: crate::host_facts::to_wire(own),
        longest_call,
        silence_limit,
        mechanism: String::new(),
        path: OnceLock::new(),
        lanes: Mutex::default(),
        most_lanes,
        closing_ns: Default::default(),
        protection: Protection::default(),
        corrupt: Default::default(),
    }
}
