//! Clients that break the protocol of callbacks, made by hand: they call the procedure that carries callbacks themselves.

use crate::harness::eventually;
use crate::{GuestClient, Hall, RunningServer, Screen, claims};
use std::thread;
use std::time::Duration;
use stoop::error::SendError;
use stoop::{BindError, CallError, Ran, Receiver, Sender};
use theirs::{Callback, Offered, RoomClient};

claims! { remote [
    answers_to_no_callback_have_no_effect
    the_first_answer_counts
    bytes_that_are_no_answer_end_the_object
    a_client_that_never_answers_is_waited_for_until_the_deadline
    an_object_without_a_number_is_refused
    an_object_of_another_interface_is_refused
    a_number_that_is_offered_again_takes_the_place_of_the_first
]}

/// The interface as the emitter spells it.
pub(crate) mod theirs {
    use stoop::stub::{DecodeError, Description, Layout, Reader, Writer, describe_callbacks};
    use stoop::{Data, Receiver, Sender};

    /// The number of an object.
    #[derive(Clone, Copy, stoop::Data)]
    pub(crate) struct Callback {
        pub(crate) client: u64,
    }

    /// The same, of a type whose name tells the interface of the object.
    pub(crate) struct Offered(pub(crate) u64);

    impl Data for Offered {
        const LAYOUT: Layout = u64::LAYOUT;

        fn encode(&self, writer: &mut Writer<'_>) {
            self.0.encode(writer);
        }

        fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
            u64::decode(reader).map(Self)
        }

        fn describe(description: &mut Description) {
            let mut whole = Description::new();
            describe_callbacks(crate::GuestClient::interface(), &mut whole);
            let whole = whole.finish();
            let (_, rest) = whole.split_once(": ").expect("the signature has a parameter");
            let (ty, _) = rest.split_once(", ").expect("and others");
            description.text(ty);
        }

        fn store(&self, chunk: &mut [u8]) {
            self.0.store(chunk);
        }

        fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
            u64::load(chunk).map(Self)
        }
    }

    #[stoop::interface]
    pub(crate) trait Room {
        fn join(&self, guest: Callback);
        fn callback(&self, offered: Offered, answers: Receiver<[u8]>, calls: Sender<[u8]>);
    }
}

/// The same, with an object of another interface.
mod unlike {
    use super::theirs::Callback;
    use stoop::{Receiver, Sender};

    #[stoop::interface]
    pub(crate) trait Room {
        fn join(&self, guest: Callback);
        fn callback(&self, offered: Callback, answers: Receiver<[u8]>, calls: Sender<[u8]>);
    }
}

/// An object that is offered by hand.
pub(crate) struct ByHand {
    room: RoomClient,
    _call: stoop::Pending<Result<(), CallError>>,
    answers: Sender<[u8]>,
    pub(crate) calls: Receiver<[u8]>,
}

impl ByHand {
    pub(crate) fn offer(server: &RunningServer, client: u64) -> Self {
        let room = RoomClient::bind(&server.uris()[0]).unwrap();
        let offered = Self::offer_by(&room, client).unwrap();
        room.join(Callback { client }).unwrap();
        offered
    }

    pub(crate) fn offer_by(room: &RoomClient, client: u64) -> Result<Self, CallError> {
        let (call, answers, mut calls) = room.callback(Offered(client));
        let Ok(Some(accepted)) = calls.recv() else { return Err(call.wait().unwrap_err()) };
        assert_eq!((accepted.len(), accepted[8]), (24, 4));
        Ok(Self { room: room.clone(), _call: call, answers, calls })
    }

    /// The number of the next callback.
    fn next(&mut self) -> u64 {
        let call = self.calls.recv().unwrap().unwrap();
        u64::from_le_bytes(*call.first_chunk().unwrap())
    }

    fn answer(&self, number: u64, kind: u8, result: u64) {
        let mut answer = number.to_le_bytes().to_vec();
        answer.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        answer.extend(result.to_le_bytes());
        self.answers.send(&answer).unwrap();
    }
}

/// A server, and a client of it that plays by the rules.
pub(crate) fn hall(transport: &str) -> (RunningServer, Hall, crate::RoomClient) {
    let hall = Hall::default();
    let server = hall.serve(transport);
    let room = crate::RoomClient::bind_with(&server.uris()[0], &Screen::default().options()).unwrap();
    room.join().unwrap();
    (server, hall, room)
}

pub(crate) fn is_unharmed(room: &crate::RoomClient) {
    assert_eq!(room.next_of_caller(6).unwrap(), 7);
}

fn answers_to_no_callback_have_no_effect(transport: &str) {
    let (server, hall, other) = hall(transport);
    let mut hand = ByHand::offer(&server, 7);
    (0..100).for_each(|number| hand.answer(1 << 60 | number, 1, 666));
    let guest = hall.guest();
    let call = thread::spawn(move || guest.next(7));
    let number = hand.next();
    hand.answer(number ^ 1, 1, 666);
    hand.answer(number ^ 1 << 32, 1, 666);
    hand.answer(number, 1, 8);
    assert_eq!(call.join().unwrap().unwrap(), 8);
    is_unharmed(&other);
}

fn the_first_answer_counts(transport: &str) {
    let (server, hall, other) = hall(transport);
    let mut hand = ByHand::offer(&server, 7);
    for result in 0..100 {
        let guest = hall.guest();
        let call = thread::spawn(move || guest.next(7));
        let number = hand.next();
        hand.answer(number, 1, result);
        hand.answer(number, 1, 666);
        hand.answer(number, 2, 0);
        assert_eq!(call.join().unwrap().unwrap(), result);
    }
    is_unharmed(&other);
}

fn bytes_that_are_no_answer_end_the_object(transport: &str) {
    let (server, hall, other) = hall(transport);
    for wrong in [&[1, 2, 3][..], &[0; 16], &[9; 64]] {
        let mut hand = ByHand::offer(&server, 7);
        let guest = hall.guest();
        let call = thread::spawn(move || guest.next(7));
        hand.next();
        hand.answers.send(wrong).unwrap();
        let error = call.join().unwrap().unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{error}");
        eventually(|| hall.guest().next(7).is_err_and(|why| why.ran() == Ran::No));
        let error = hand.room.join(Callback { client: 7 }).unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
    }
    is_unharmed(&other);
}

fn a_client_that_never_answers_is_waited_for_until_the_deadline(transport: &str) {
    let (server, hall, other) = hall(transport);
    let mut hand = ByHand::offer(&server, 7);
    let guest: GuestClient = hall.guest().with_timeout(Duration::from_millis(20));
    assert_eq!(guest.next(7).unwrap_err().ran(), Ran::Perhaps);
    let number = hand.next();
    // Too late: the call is told to end, and the next one is another.
    assert_eq!(hand.next(), number);
    hand.answer(number, 1, 666);
    let call = thread::spawn(move || hall.guest().next(7));
    let number = hand.next();
    hand.answer(number, 1, 8);
    assert_eq!(call.join().unwrap().unwrap(), 8);
    is_unharmed(&other);
}

fn an_object_without_a_number_is_refused(transport: &str) {
    let (server, _, other) = hall(transport);
    let room = RoomClient::bind(&server.uris()[0]).unwrap();
    let (call, _answers, _calls) = room.callback(Offered(0));
    assert_eq!(call.wait().unwrap_err().ran(), Ran::No);
    for client in [0, 1, u64::MAX] {
        assert_eq!(room.join(Callback { client }).unwrap_err().ran(), Ran::No);
    }
    is_unharmed(&other);
}

fn an_object_of_another_interface_is_refused(transport: &str) {
    let (server, _, other) = hall(transport);
    let error = unlike::RoomClient::bind(&server.uris()[0]).unwrap_err();
    assert!(matches!(error, BindError::Mismatch { .. }), "{error:?}");
    is_unharmed(&other);
}

fn a_number_that_is_offered_again_takes_the_place_of_the_first(transport: &str) {
    let (server, hall, other) = hall(transport);
    let first = ByHand::offer(&server, 7);
    let of_first = hall.guest();
    let mut second = ByHand::offer(&server, 7);
    let error = of_first.next(7).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::ClientGone, _)), "{error}");
    let guest = hall.guest();
    let call = thread::spawn(move || guest.next(7));
    let number = second.next();
    second.answer(number, 1, 8);
    assert_eq!(call.join().unwrap().unwrap(), 8);
    drop(first);
    is_unharmed(&other);
}
