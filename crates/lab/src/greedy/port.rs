//! A caller's end of a network that sends packets made by hand: what no client of the library sends.

use std::io;
use std::net::UdpSocket;
use std::time::Duration;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, Template};
use stoop_ether::{Arrival, Backend, Endpoint, Interface, Options};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus};
use stoop_wire::{BindingId, CallNumber, Challenge, HEADER_LEN, Header, Kind, LaneId};

/// A socket, or an endpoint of an Ethernet.
pub(super) enum Port {
    Udp(UdpSocket),
    Ether(Endpoint, Template),
}

/// An answer that has not come by then is lost.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
/// Questions after which a server does not answer.
const QUESTIONS: u32 = 100;
/// Bytes of the longest answer that is of interest.
const ANSWER_MAX: usize = 64 << 10;

impl Port {
    /// Opens one that leads to the server at this address.
    pub(super) fn open(uri: &str) -> io::Result<Self> {
        let (scheme, address) = uri.split_once("://").unwrap_or_default();
        match scheme {
            "udp" => {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(address)?;
                socket.set_read_timeout(Some(ANSWER_WITHIN))?;
                Ok(Self::Udp(socket))
            }
            _ => Self::open_ether(address),
        }
    }

    /// Opens one at the address `INTERFACE/MAC:PORT?PARAMETERS`.
    fn open_ether(address: &str) -> io::Result<Self> {
        let no_address = || io::Error::other(format!("{address} is no address of a packet link"));
        let place = address.split('?').next().unwrap_or(address);
        let (interface, server) = place.split_once('/').ok_or_else(no_address)?;
        let (mac, port) = server.rsplit_once(':').ok_or_else(no_address)?;
        let mac: Mac = mac.parse().map_err(io::Error::other)?;
        let port = port.parse().map_err(io::Error::other)?;
        let interface = Interface::by_name(interface)?;
        let endpoint = Endpoint::connect(&interface, Backend::PacketRing, &Options::of_many_lanes())?;
        let template = endpoint.template(Address { mac, port }, Checksum::Computed);
        Ok(Self::Ether(endpoint, template))
    }

    /// Sends a packet. One that cannot leave is lost.
    pub(super) fn send(&self, packet: &[u8]) {
        match self {
            Self::Udp(socket) => drop(socket.send(packet)),
            Self::Ether(endpoint, template) => drop(endpoint.send(template, packet)),
        }
    }

    /// The next packet that comes soon.
    fn receive(&self) -> Option<(Header, Vec<u8>)> {
        let mut answer = vec![0; ANSWER_MAX];
        let len = match self {
            Self::Udp(socket) => socket.recv(&mut answer).ok()?,
            Self::Ether(endpoint, _) => {
                let within = ANSWER_WITHIN.as_nanos() as u64;
                match endpoint.receive_within(&mut answer, Some(within)).ok()? {
                    Arrival::Packet { len, .. } => len,
                    _ => return None,
                }
            }
        };
        let (header, payload) = Header::parse(&answer[..len]).ok()?;
        Some((header, payload.to_vec()))
    }

    /// Sends a bind with this nonce until an answer of this kind comes.
    fn ask(&self, nonce: u64, packet: &[u8], kind: Kind) -> io::Result<(Header, Vec<u8>)> {
        for _ in 0..QUESTIONS {
            self.send(packet);
            while let Some(answer) = self.receive() {
                if (answer.0.kind, answer.0.number) == (kind, CallNumber(nonce as u32)) {
                    return Ok(answer);
                }
            }
        }
        Err(io::Error::other("the server does not answer"))
    }

    /// A binding of the interface of the measurement.
    pub(super) fn bind(&self, nonce: u64) -> io::Result<BindingId> {
        let (challenge, _) = self.ask(nonce, &bind_packet(nonce, Challenge(0)), Kind::Challenge)?;
        let cookie = challenge.challenge().unwrap_or(Challenge(0));
        let (header, payload) = self.ask(nonce, &bind_packet(nonce, cookie), Kind::BindReply)?;
        match BindReply::decode(&payload) {
            Some(reply) if reply.status == BindStatus::Bound => Ok(header.binding),
            _ => Err(io::Error::other("the server refuses the binding")),
        }
    }
}

/// A bind of the interface of the measurement, without procedures.
pub(super) fn bind_packet(nonce: u64, cookie: Challenge) -> Vec<u8> {
    let request = BindRequest { cookie, ..BindRequest::new(nonce, "Plain", vec![]) };
    let payload = request.encode();
    let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(nonce as u32));
    header.message_len = payload.len() as u32;
    [&header.to_bytes()[..], &payload].concat()
}

/// The first part, of one byte, of the first call of a lane, which announces a call of `len` bytes without a deadline.
pub(super) fn announcement(binding: BindingId, lane: u16, len: u32) -> Vec<u8> {
    let template = stoop_wire::Template::new(Kind::Call, binding, LaneId(lane));
    let mut header = [0; HEADER_LEN];
    template.stamp_part(&mut header, SUM, CallNumber(1), len, (0, 1), u32::MAX);
    [&header[..], &[0]].concat()
}

/// The first call of Null() of a lane, without a deadline.
pub(super) fn null_call(binding: BindingId, lane: u16) -> Vec<u8> {
    let header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
    Header { procedure: NULL, time: u32::MAX, ..header }.to_bytes().to_vec()
}

/// A packet of this kind without anything else about the first call of a lane.
pub(super) fn bare(kind: Kind, binding: BindingId, lane: u16) -> Vec<u8> {
    Header::bare(kind, binding, LaneId(lane), CallNumber(1)).to_bytes().to_vec()
}

/// The server's numbers of procedures: their places in the interface.
const NULL: u16 = 0;
const SUM: u16 = 2;
