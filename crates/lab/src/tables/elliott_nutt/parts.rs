//! Elliott & Nutt Table 5: XDR and dispatch of a Sun RPC call, each apart from the rest.

use super::by_hand::Procedure;
use super::libtirpc::{Client, Task};
use super::programs;
use super::tables::Place;
use crate::args::Program;
use crate::callers::{Calls, LOCAL_BATCH};
use crate::tables::lab::{Lab, Way};
use crate::tables::model::{Figure, Group, Line, US};
use std::hint::black_box;
use stoop::Waiting;
use stoop_onc::Xid;
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Call, ProcedureId, Reply};

/// Microseconds of a call in the paper (§4): the XDR routines of the client, and its search for the server's handle.
const XDR: f64 = 584.0;
const DISPATCH: f64 = 110.0;

/// Slices of a loop, and its iterations in one.
const SLICES: usize = 21;
const ITERATIONS: u64 = 20_000;
/// Calls of a slice that measures the server.
const CALLS: u64 = 1000;

/// The parts of a call with four bytes by libtirpc.
pub(super) fn of_libtirpc(client: &mut Client) -> Result<Group, String> {
    let procedure = Procedure::FourBytes;
    let mut xdr = |task| {
        let each = client.each((procedure, task), SLICES, ITERATIONS).map_err(|error| error.to_string())?;
        Ok::<_, String>(figure(each, ITERATIONS))
    };
    let (at_client, of_header, of_rest) =
        (xdr(Task::XdrOfClient)?, xdr(Task::XdrOfHeader)?, xdr(Task::XdrOfServer)?);
    let found = client.dispatched(procedure, SLICES, CALLS).map_err(|error| error.to_string())?;
    let found = figure(found, CALLS);
    let lines = vec![
        Line::new("client: XDR of call and reply").paper(XDR).today(at_client),
        Line::new("client: dispatch").paper(DISPATCH).remark(
            "today's program holds the server's handle, where callrpc() searches for it in each call",
        ),
        Line::new("server: XDR of the call's header").today(of_header.clone()),
        Line::new("server: XDR of arguments and reply").today(of_rest),
        Line::new("server: dispatch, from a received call to the procedure")
            .today(found.minus(&of_header))
            .remark(
                "without the XDR of the header; with the check of the credential, and a reading of the clock",
            ),
    ];
    Ok(Group::new("A call of libtirpc: XDR and dispatch", "µs", lines))
}

fn figure(ns: Vec<f64>, times: u64) -> Figure {
    let calls = ns.len() as u64 * times;
    Figure::of(ns.into_iter().map(|ns| ns * US).collect(), calls)
}

/// The parts of a call with four bytes by Stoop: the call, the same exchange by hand, and loops over the library's XDR, in turn.
pub(super) fn of_stoop(lab: &mut Lab<'_>) -> Result<Group, String> {
    lab.now("Sun RPC by Stoop: XDR and the rest");
    let place = Place::local(lab)?;
    let (_server, uri) = place.serve_sun_rpc(lab)?;
    let client = programs::bind(&uri, Waiting::Block)?;
    let (_by_hand, mut clients) = place.by_hand(lab, Program::Udp, false, 1)?;
    let mut by_hand = clients.remove(0);
    let ways: Vec<Box<dyn Calls>> = vec![
        Way::boxed(move || client.four_bytes(7).map_err(|error| error.to_string())),
        Way::boxed(move || by_hand.call(Procedure::FourBytes, &mut ()).map_err(|error| error.to_string())),
        xdr_of_client(),
        xdr_of_server(),
    ];
    let [call, by_hand, at_client, at_server] =
        lab.in_turn(ways, US)?.try_into().expect("each way has a figure");
    let rest = call.minus(&by_hand).minus(&at_client).minus(&at_server);
    let lines = vec![
        Line::new("client: XDR of call and reply").paper(XDR).today(at_client),
        Line::new("server: XDR of call and reply").today(at_server),
        Line::new("system calls: Program Three, blocking").today(by_hand),
        Line::new("the rest: dispatch, run time, longer packets").paper(DISPATCH).today(rest),
        Line::new("the call, measured in turn with them").today(call),
    ];
    Ok(Group::new("A call of Stoop by Sun RPC: its parts", "µs", lines))
}

const XID: Xid = Xid(7);
/// That of `four_bytes` in [`programs`].
const FOUR_BYTES: ProcedureId = ProcedureId { program: 0x2000_0042, version: 1, procedure: 3 };
const MESSAGE_MAX: usize = 400;

/// Writes a call and reads its reply, by the functions with which the library does it.
fn xdr_of_client() -> Box<dyn Calls> {
    let (mut call, mut reply) = (vec![0; MESSAGE_MAX], vec![0; MESSAGE_MAX]);
    let replied = write_reply(&mut reply);
    Way::in_batches(LOCAL_BATCH, move || {
        black_box(write_call(black_box(7), &mut call));
        let read = Reply::parse(black_box(&reply[..replied])).map_err(|_| "the reply has another form")?;
        black_box(read.0);
        Ok(())
    })
}

/// Reads a call and writes its reply, by the functions with which the library does it.
fn xdr_of_server() -> Box<dyn Calls> {
    let (mut call, mut reply) = (vec![0; MESSAGE_MAX], vec![0; MESSAGE_MAX]);
    let called = write_call(7, &mut call);
    Way::in_batches(LOCAL_BATCH, move || {
        let read = Call::parse(black_box(&call[..called]));
        let (header, mut arguments) = read.map_err(|_| "the call has another form")?;
        black_box(header);
        black_box(arguments.value::<i32>().map_err(|error| error.to_string())?);
        black_box(write_reply(&mut reply));
        Ok(())
    })
}

fn write_call(argument: i32, message: &mut Vec<u8>) -> usize {
    let (credential, verifier) = (Auth::NONE, Auth::NONE);
    let call = Call { xid: black_box(XID), procedure: FOUR_BYTES, credential, verifier };
    message::write(&call, &argument, message, 0).expect("a call with an integer has a form")
}

fn write_reply(message: &mut Vec<u8>) -> usize {
    message::write(&Reply::success(black_box(XID)), &(), message, 0)
        .expect("a reply without results has a form")
}
