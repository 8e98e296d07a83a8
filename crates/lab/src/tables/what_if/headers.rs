//! Another representation of a call's header: that of Stoop instead of that of Sun RPC (RFC 5531).
//!
//! Both are carried by the same exchange of datagrams, made by hand, so that nothing else differs: Sun RPC itself also has other
//! sockets and other system calls. Each header is written and read by the code that the library uses.

use super::paper::Call;
use super::setting::PAIRS;
use crate::args::{Processors, Program, ProgramArgs};
use crate::child::answer;
use crate::placement::pin;
use crate::tables::lab::{At, Lab, Way};
use crate::tables::model::{Figure, US};
use std::hint::{black_box, spin_loop};
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use stoop_onc::Xid;
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Accepted, ProcedureId, Reply, ReplyBody};
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId, Template};

/// A representation of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    SunRpc,
    Stoop,
}

/// The longest message: a header and a result of one packet.
const MESSAGE_MAX: usize = 1500;
const HEADER_LEN: usize = stoop_wire::HEADER_LEN;
const BINDING: BindingId = BindingId(0x5a5a_5a5a_5a5a_5a5a);
const LANE: LaneId = LaneId(0);
const PROGRAM: ProcedureId = ProcedureId { program: 0x2000_0042, version: 1, procedure: 1 };
/// An answer that takes longer is lost: nothing here sends a call again.
const LIMIT: Duration = Duration::from_secs(5);

impl Form {
    /// Writes call `number`, which asks for a result of so many bytes, and returns its length.
    fn write_call(self, number: u32, result: u32, message: &mut Vec<u8>) -> usize {
        match self {
            Form::SunRpc => {
                let (credential, verifier) = (Auth::NONE, Auth::NONE);
                let procedure = ProcedureId { procedure: result, ..PROGRAM };
                let call = message::Call { xid: Xid(number), procedure, credential, verifier };
                message::write(&call, &(), message, 0).expect("a call without arguments has a form")
            }
            Form::Stoop => {
                let lens = (result, 0);
                stamp(Kind::Call, number, lens, message);
                HEADER_LEN
            }
        }
    }

    /// The number of a call, and the bytes of the result that it asks for.
    fn read_call(self, packet: &[u8]) -> Option<(u32, u32)> {
        match self {
            Form::SunRpc => {
                let (call, _) = message::Call::parse(packet).ok()?;
                let ProcedureId { program, version, procedure } = call.procedure;
                let is_ours = (program, version) == (PROGRAM.program, PROGRAM.version);
                is_ours.then_some((call.xid.0, procedure))
            }
            Form::Stoop => {
                let header = Header::from_bytes(packet.first_chunk()?).ok()?;
                let is_ours = (header.kind, header.binding) == (Kind::Call, BINDING);
                is_ours.then_some((header.number.0, header.message_len))
            }
        }
    }

    /// Writes the header of the answer to call `number` before a result of so many bytes, and returns the length of both.
    fn write_answer(self, number: u32, result: u32, message: &mut Vec<u8>) -> usize {
        let header = match self {
            Form::SunRpc => message::write(&Reply::success(Xid(number)), &(), message, 0)
                .expect("a reply without results has a form"),
            Form::Stoop => {
                stamp(Kind::Result, number, (result, 0), message);
                HEADER_LEN
            }
        };
        header + result as usize
    }

    /// The number of the call that a packet answers.
    fn read_answer(self, packet: &[u8]) -> Option<u32> {
        match self {
            Form::SunRpc => {
                let (reply, _) = Reply::parse(packet).ok()?;
                let success = ReplyBody::Accepted { status: Accepted::Success, verifier: Auth::NONE };
                (reply.body == success).then_some(reply.xid.0)
            }
            Form::Stoop => {
                let header = Header::from_bytes(packet.first_chunk()?).ok()?;
                let is_ours = (header.kind, header.binding) == (Kind::Result, BINDING);
                is_ours.then_some(header.number.0)
            }
        }
    }

    /// The form of a call: the first byte of Stoop's header is no beginning of a small number.
    fn of(packet: &[u8]) -> Self {
        if Header::from_bytes(packet.first_chunk().unwrap_or(&[0; HEADER_LEN])).is_ok() {
            Form::Stoop
        } else {
            Form::SunRpc
        }
    }
}

fn stamp(kind: Kind, number: u32, lens: (u32, u32), message: &mut [u8]) {
    let header = message.first_chunk_mut().expect("a message has room for a header");
    Template::new(kind, BINDING, LANE).stamp(header, 0, CallNumber(number), lens, 0);
}

/// Answers calls of both forms for ever.
pub(in crate::tables) fn serve(args: &ProgramArgs) -> io::Result<()> {
    let socket = UdpSocket::bind((args.address.as_str(), 0))?;
    socket.set_nonblocking(true)?;
    answer(&format!("listening {}", socket.local_addr()?))?;
    let (mut packet, mut message) = ([0; MESSAGE_MAX], vec![0; MESSAGE_MAX]);
    loop {
        let (len, from) = match socket.recv_from(&mut packet) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                spin_loop();
                continue;
            }
            received => received?,
        };
        let form = Form::of(&packet[..len]);
        let Some((number, result)) = form.read_call(&packet[..len]) else { continue };
        let len = form.write_answer(number, result.min(1440), &mut message);
        socket.send_to(&message[..len], from)?;
    }
}

/// A caller that spins.
struct Caller {
    socket: UdpSocket,
    form: Form,
    number: u32,
    result: u32,
    message: Vec<u8>,
}

impl Caller {
    fn call(&mut self) -> Result<(), String> {
        let Self { socket, form, number, result, message } = self;
        *number = number.wrapping_add(1);
        let len = form.write_call(*number, *result, message);
        socket.send(&message[..len]).map_err(|error| error.to_string())?;
        let mut packet = [0; MESSAGE_MAX];
        let begun = Instant::now();
        loop {
            match socket.recv(&mut packet) {
                Ok(len) if form.read_answer(&packet[..len]) == Some(*number) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.to_string()),
                _ if begun.elapsed() > LIMIT => return Err("a packet was lost".into()),
                _ => spin_loop(),
            }
        }
    }
}

/// Both headers in the same exchange: that of Sun RPC, then that of Stoop.
pub(super) fn exchanged(lab: &mut Lab<'_>, call: &Call) -> Result<[Figure; 2], String> {
    lab.now("another header");
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let at = At { address: lab.network.server.to_string(), beside_caller: false };
    let (_server, address) = lab.serve(Program::Headers, sides.server, at, &[])?;
    let bind = |form| -> io::Result<_> {
        let socket = UdpSocket::bind((lab.network.caller, 0))?;
        socket.connect(&address)?;
        socket.set_nonblocking(true)?;
        let (result, message) = (call.result as u32, vec![0; MESSAGE_MAX]);
        let mut caller = Caller { socket, form, number: 0, result, message };
        Ok(Way::boxed(move || caller.call()))
    };
    let pair = |_| -> io::Result<_> { Ok([bind(Form::SunRpc)?, bind(Form::Stoop)?]) };
    let pairs = (0..PAIRS).map(pair).collect::<io::Result<Vec<_>>>();
    lab.pairs_in_short_turns(pairs.map_err(|error| error.to_string())?, US)
}

const TIMES: u32 = 200_000;

/// Microseconds that the header of Stoop saves: the headers of a call and its answer are written and read in a loop, in which each step
/// waits for the one before, as in a call.
pub(super) fn saved_us() -> f64 {
    headers_us(Form::SunRpc) - headers_us(Form::Stoop)
}

fn headers_us(form: Form) -> f64 {
    let mut message = vec![0; MESSAGE_MAX];
    let mut number = 0;
    let began = Instant::now();
    for _ in 0..TIMES {
        let len = form.write_call(black_box(number), 0, &mut message);
        let (read, result) = form.read_call(black_box(&message[..len])).expect("it was written above");
        let len = form.write_answer(black_box(read), result, &mut message);
        let answered = form.read_answer(black_box(&message[..len])).expect("it was written above");
        number = answered.wrapping_add(1);
    }
    began.elapsed().as_nanos() as f64 / f64::from(TIMES) * US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_reads_what_it_has_written_and_nothing_else() {
        let mut message = vec![0; MESSAGE_MAX];
        for (form, other) in [(Form::SunRpc, Form::Stoop), (Form::Stoop, Form::SunRpc)] {
            let len = form.write_call(7, 1440, &mut message);
            assert_eq!(Form::of(&message[..len]), form);
            assert_eq!(form.read_call(&message[..len]), Some((7, 1440)));
            assert_eq!(other.read_call(&message[..len]), None);
            assert_eq!(form.read_answer(&message[..len]), None, "a call is no answer");
            let len = form.write_answer(7, 0, &mut message);
            assert_eq!(form.read_answer(&message[..len]), Some(7));
            assert_eq!(other.read_answer(&message[..len]), None);
        }
    }
}
