//! Carries Ethernet frames between callers and a server: a bridge of two packet sockets, in a network namespace between theirs.
//!
//! The bridge translates addresses and ports, as it may: to callers it is the server, and to the server they are hosts of its choice.

use super::network::{CLEAR, PORTION, Shared, TICK, Way, Weather};
use crate::harness::ethernet::{INTERFACE, enter_namespace, namespace, run};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::fs::File;
use std::mem::{size_of, zeroed};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use stoop_ether::Interface;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, Frame, OVERHEAD, Template, frame_len};
use stoop_net::packets::Segments;

/// Two Ethernets, one of the callers and one of the servers, and the place between them.
pub(super) struct Ethernets {
    callers: File,
    servers: File,
    between: File,
    /// The callers' interface.
    caller: Mac,
    /// The server, as callers know it.
    front: Address,
    /// Behind the `?` of an address.
    parameters: &'static str,
}

/// The bridge's interface on each Ethernet.
const FACING_CALLERS: &str = "callers0";
const FACING_SERVERS: &str = "servers0";
impl Ethernets {
    /// Makes them, and moves the calling thread to the callers' end. `None`: that is not permitted, and the test is skipped.
    pub(super) fn make(parameters: &'static str) -> Option<Self> {
        let made = Self::try_make(parameters);
        made.map_err(|why| println!("SKIPPED over frames: no private Ethernet: {why}")).ok()
    }

    fn try_make(parameters: &'static str) -> Result<Self, String> {
        // No two of a process are alike, because callers tell Ethernets apart by their addresses.
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (caller, front) = (Mac([2, 0, 0, number, 0, 0x0a]), Mac([2, 0, 0, number, 0, 0x0c]));
        let [callers, servers, between] = [namespace()?, namespace()?, namespace()?];
        enter_namespace(&between)?;
        for (facing, address, end, own) in [
            (FACING_CALLERS, front, &callers, format!("address {caller} ")),
            (FACING_SERVERS, Mac([2, 0, 0, number, 0, 0x0d]), &servers, String::new()),
        ] {
            let there = format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd());
            let peer = format!("peer name {INTERFACE} {own}netns {there}");
            run(&format!("link add {facing} address {address} type veth {peer}"))?;
            run(&format!("link set {facing} up"))?;
            enter_namespace(end)?;
            run(&format!("link set {INTERFACE} up"))?;
            enter_namespace(&between)?;
        }
        enter_namespace(&callers)?;
        Ok(Self { callers, servers, between, caller, front: Address { mac: front, port: 7400 }, parameters })
    }

    /// Runs `there` at the servers' end. Sockets that it makes stay there.
    pub(super) fn at_servers<R>(&self, there: impl FnOnce() -> R) -> R {
        self.at(&self.servers, there)
    }

    fn at<R>(&self, place: &File, there: impl FnOnce() -> R) -> R {
        enter_namespace(place).unwrap();
        let result = there();
        enter_namespace(&self.callers).unwrap();
        result
    }

    /// Where a server listens.
    pub(super) fn address(&self) -> String {
        format!("ether://{INTERFACE}/:0{}", self.parameters)
    }
}

/// Starts the bridge. Returns the URI at which callers find it.
pub(super) fn carry(
    shared: &Arc<Shared>,
    ethernets: &Ethernets,
    seed: u64,
    weather: Weather,
) -> (String, Vec<thread::JoinHandle<()>>) {
    let open = |interface| Arc::new(Raw::open(&Interface::by_name(interface).unwrap()));
    let [front, back] = ethernets.at(&ethernets.between, || [FACING_CALLERS, FACING_SERVERS].map(open));
    let (caller, known_as) = (ethernets.caller, ethernets.front);
    let there = {
        let (shared, front, back) = (Arc::clone(shared), Arc::clone(&front), Arc::clone(&back));
        thread::spawn(move || carry_there(&shared, (&front, known_as), &back, Way::new(seed, weather)))
    };
    let way = Way::new(seed << 32, weather);
    let shared = Arc::clone(shared);
    let back = thread::spawn(move || carry_back(&shared, (&back, known_as), (&front, caller), way));
    (format!("ether://{INTERFACE}/{known_as}{}", ethernets.parameters), vec![there, back])
}

/// The way to the server, of all callers.
fn carry_there(shared: &Shared, (from, front): (&Raw, Address), to: &Raw, mut way: Way<Vec<u8>>) {
    let mut buffer = [0; 2048];
    loop {
        let arrived = from.receive(&mut buffer).filter(|frame| parse(frame).to() == front);
        let mut control = note(shared, arrived);
        let arrived = way.follow(&mut control, arrived);
        let (host, server, replay) = (control.host, address_of(&control.server), control.replay);
        let ended = control.ended;
        drop(control);
        let send = |frame: &[u8]| {
            let port = parse(frame).from().port;
            to.send(&readdressed(frame, Address { mac: Mac([2, 0, 0, 0, host, 0x0a]), port }, server));
        };
        way.pass(arrived.map(<[u8]>::to_vec)).iter().for_each(|frame| send(frame));
        if let Some(first) = replay {
            way.old.iter().skip(first).take(PORTION).for_each(|frame| send(frame));
            shared.note_replayed();
        }
        if ended {
            return;
        }
    }
}

/// The way back to all callers.
fn carry_back(
    shared: &Shared,
    (from, front): (&Raw, Address),
    (to, caller): (&Raw, Mac),
    mut way: Way<Vec<u8>>,
) {
    let mut buffer = [0; 2048];
    loop {
        let arrived = from.receive(&mut buffer);
        let control = note(shared, arrived);
        if control.ended {
            return;
        }
        if control.calm {
            way.weather = CLEAR;
        }
        // Of a server that is gone nothing is heard any more.
        let server = address_of(&control.server);
        let arrived = arrived.filter(|frame| parse(frame).from() == server);
        drop(control);
        for frame in way.pass(arrived.map(<[u8]>::to_vec)) {
            let port = parse(&frame).to().port;
            to.send(&readdressed(&frame, front, Address { mac: caller, port }));
        }
    }
}

/// Notes the first of the packets in a frame.
fn note<'a>(shared: &'a Shared, frame: Option<&[u8]>) -> std::sync::MutexGuard<'a, super::network::Control> {
    shared.note(frame.map_or(&[], |frame| parse(frame).packets()))
}

fn parse(frame: &[u8]) -> Frame<'_> {
    Frame::parse(frame, EtherType::default()).unwrap()
}

fn address_of(uri: &str) -> Address {
    let endpoint = uri.rsplit('/').next().unwrap().split('?').next().unwrap();
    let (mac, port) = endpoint.rsplit_once(':').unwrap();
    Address { mac: mac.parse().unwrap(), port: port.parse().unwrap() }
}

/// The frame with other addresses. Its checksum covers the ports.
fn readdressed(frame: &[u8], from: Address, to: Address) -> Vec<u8> {
    let frame = parse(frame);
    let packets = Segments { len: frame.packets().len(), segment: frame.segment() };
    let mut other = vec![0; frame_len(stoop_ether::frame::content_len(packets))];
    other[OVERHEAD..OVERHEAD + packets.len].copy_from_slice(frame.packets());
    let template = Template::new(from, to, EtherType::default(), Checksum::Computed);
    template.complete_several(&mut other, packets);
    other
}

/// A packet socket for all frames of the EtherType at an interface, to whatever address.
struct Raw(OwnedFd);

impl Raw {
    fn open(interface: &Interface) -> Self {
        let socket =
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .unwrap();
        // SAFETY: zeros are a value of this struct of numbers.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = EtherType::default().number().to_be();
        address.sll_ifindex = interface.index.cast_signed();
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the pointer is to a live address of the length that is given.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(result, 0);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TICK)).unwrap();
        Self(socket)
    }

    /// The next frame; `None` if none comes for a while.
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let (_, len) = rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()).ok()?;
        Some(&buffer[..len])
    }

    fn send(&self, frame: &[u8]) {
        rustix::net::send(&self.0, frame, SendFlags::empty()).unwrap();
    }
}
