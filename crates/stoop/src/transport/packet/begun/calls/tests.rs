use crate::calling::begun::OutstandingCalls;
use crate::calling::detaching::Detaching;
use crate::error::SendError;
use crate::interface::{Exported, Interface, Procedure, Unserved};
use crate::options::BindOptions;
use crate::server::{RunningServer, Server};
use crate::transport::contract::{Target, Transport};
use crate::transport::packet::begun::calls::*;
use crate::transport::packet::begun::{PacketCalls, now};
use crate::transport::udp::transport::UdpTransport;
use std::any::Any;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use stoop_marshal::{Reader, Writer};
use stoop_wire::{CallNumber, Kind};

static INTERFACE: Interface = Interface {
    name: "Lab",
    procedures: &[Procedure {
        name: "null",
        signature: String::new,
        idempotent: false,
        one_way: false,
        in_place: None,
        buffers: false,
    }],
};

struct Lab;

impl Exported for Lab {
    fn interface(&self) -> &'static Interface {
        &INTERFACE
    }

    fn dispatch(&self, _: u16, _: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Unserved> {
        Ok(())
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}

fn flight() -> (RunningServer, Arc<PacketCalls>) {
    let server = Server::new().export(Lab).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let uri = &server.uris()[0];
    let address = uri.strip_prefix("udp://").unwrap();
    let target = Target {
        interface: &INTERFACE,
        uri,
        scheme: &UdpTransport::SCHEMES[0],
        address,
        is_ours: |_| false,
        options: &BindOptions::new(),
    };
    let binding = PacketBinding::bind(&target, Instant::NEVER).unwrap();
    let flight = PacketCalls::new(Arc::new(binding)).unwrap();
    (server, flight)
}

#[test]
fn a_packet_that_was_not_sent_is_not_that_of_the_same_call_on_another_lane() {
    let (_server, flight) = flight();
    let mut departure = flight.open_batch(10_000_000_000);
    let call = flight.begin(&mut departure, 0, 0).unwrap();
    let batch = flight.calls().take_batch(departure.batch).expect("a call is in it");
    // Before the system has said what has become of that, the call has been sent on another lane, as its first, too.
    let mut calls = flight.calls();
    calls.await_rebind(call);
    let session = flight.binding.present();
    calls.send_again(call, &flight.binding, session, true, now(), &flight.socket);
    drop(calls);
    flight.not_sent(&batch, vec![(0, io::ErrorKind::NetworkUnreachable.into())]);
    assert_eq!(flight.wait(&[call], Instant::NEVER), Some(0));
    let mut result = None;
    assert!(flight.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Ok(()))), "{result:?}");
}

#[test]
fn a_one_way_call_that_the_system_does_not_send_says_so() {
    let (_server, flight) = flight();
    let calls: &dyn OutstandingCalls = &*flight;
    let mut departure = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut departure, 0, 0).unwrap();
    // From now on the socket sends nothing: this shuts any kind of socket down.
    let socket = TcpStream::from(flight.socket.as_fd().try_clone_to_owned().unwrap());
    socket.shutdown(Shutdown::Write).unwrap();
    calls.submit(departure);
    let error = calls.let_go(call, None).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Io(_))), "{error}");
    assert_eq!(calls.detached(), 0);
}

#[test]
fn a_call_whose_packet_was_not_sent_did_not_run() {
    let (_server, flight) = flight();
    let mut departure = flight.open_batch(10_000_000_000);
    let call = flight.begin(&mut departure, 0, 0).unwrap();
    let batch = flight.calls().take_batch(departure.batch).expect("a call is in it");
    flight.not_sent(&batch, vec![(0, io::ErrorKind::NetworkUnreachable.into())]);
    let mut result = None;
    assert!(flight.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Err(CallError::NotSent(_)))), "{result:?}");
}

#[test]
fn a_call_that_has_not_left_is_not_answered_whatever_comes() {
    let (_server, flight) = flight();
    let mut departure = flight.open_batch(10_000_000_000);
    let call = flight.begin(&mut departure, 0, 0).unwrap();
    let mut news = Wakeups::default();
    for kind in [Kind::Result, Kind::Refusal, Kind::Failure, Kind::Acknowledgement, Kind::Challenge] {
        let binding = flight.binding.present().bound.binding;
        let mut calls = flight.calls();
        let answer = Header::bare(kind, binding, calls.slots[call as usize].lane.id(), CallNumber(1));
        let answer = answer.to_bytes();
        calls.deliver_all(now(), [&answer[..]].into_iter(), &flight.socket, &mut news);
        assert_eq!(calls.slots[call as usize].stage, Stage::HeldBack(departure.batch), "{kind:?}");
        assert!(!calls.slots[call as usize].lane.last_was_acknowledged());
    }
    flight.submit(departure);
    assert_eq!(flight.wait(&[call], Instant::NEVER), Some(0));
    let mut result = None;
    assert!(flight.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Ok(()))), "{result:?}");
}
