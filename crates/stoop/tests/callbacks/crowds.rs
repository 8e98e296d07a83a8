//! Many objects, and many callbacks.

use crate::harness::eventually;
use crate::harness::transports::{ListenThere, address};
use crate::hostile::theirs::{Callback, RoomClient};
use crate::hostile::{ByHand, hall, is_unharmed};
use crate::{GuestClient, Hall, claims};
use std::thread;
use std::time::Duration;
use stoop::account::AccountOptions;
use stoop::error::SendError;
use stoop::{CallError, Limits, RefusalCode, Server};

claims! { @ tcp [
    a_client_that_answers_no_callback_has_so_many_of_them_and_no_more
    objects_count_in_the_share_of_their_client_and_the_account_shows_them
    kept_handles_of_objects_that_are_gone_hold_no_room_of_the_server
]}
claims! { @ shm [
    a_client_that_answers_no_callback_has_so_many_of_them_and_no_more
    objects_count_in_the_share_of_their_client_and_the_account_shows_them
    kept_handles_of_objects_that_are_gone_hold_no_room_of_the_server
]}
claims! { @ udp [
    a_client_that_answers_no_callback_has_so_many_of_them_and_no_more
    objects_count_in_the_share_of_their_client_and_the_account_shows_them
    kept_handles_of_objects_that_are_gone_hold_no_room_of_the_server
]}

fn a_client_that_answers_no_callback_has_so_many_of_them_and_no_more(transport: &str) {
    let (server, hall, other) = hall(transport);
    let mut hand = ByHand::offer(&server, 7);
    // None of them ends meanwhile.
    let guest = hall.guest().with_timeout(Duration::from_secs(3600));
    let reads = thread::spawn(move || while let Ok(Some(_)) = hand.calls.recv() {});
    let begin = guest.begin();
    let calls: Vec<_> = (0..16_400).map(|number| begin.next(number)).collect();
    drop(begin);
    assert!(calls.iter().filter(|call| call.is_ready()).count() >= 16);
    let error = guest.next(7).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::ClientBusy { .. }, _)), "{error}");
    assert_eq!(guest.binding().counters().calls, 16_384, "those that were refused are none");
    is_unharmed(&other);
    drop(calls);
    drop(server);
    reads.join().unwrap();
}

fn objects_count_in_the_share_of_their_client_and_the_account_shows_them(transport: &str) {
    let server = Server::new()
        .export(crate::RoomServer::new(Hall::default()))
        .limits(Limits::new().open_calls(8))
        .account(AccountOptions::new())
        .listen_there(&address(transport))
        .unwrap()
        .start()
        .unwrap();
    let room = RoomClient::bind(&server.uris()[0]).unwrap();
    let mut offered = Vec::new();
    let error = loop {
        match ByHand::offer_by(&room, offered.len() as u64 + 1) {
            Ok(object) => offered.push(object),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, CallError::Refused(why, _) if why.code == RefusalCode::Overloaded), "{error}");
    assert_eq!(offered.len(), 6);
    let running = || server.account().procedures.iter().find(|each| each.name == "callback").unwrap().running;
    assert_eq!(running(), 6);
    drop(offered.pop());
    eventually(|| running() == 5);
    eventually(|| ByHand::offer_by(&room, 9).is_ok());
}

fn kept_handles_of_objects_that_are_gone_hold_no_room_of_the_server(transport: &str) {
    let (server, hall, other) = hall(transport);
    let room = RoomClient::bind(&server.uris()[0]).unwrap();
    for client in 1..100 {
        let object = ByHand::offer_by(&room, client).unwrap();
        room.join(Callback { client }).unwrap();
        drop(object);
    }
    eventually(|| server.counters().open == 1 && server.counters().pipes == 2);
    assert_eq!(hall.len(), 100);
    let gone = |guest: &GuestClient| {
        guest.next(7).is_err_and(|why| matches!(why, CallError::NotSent(SendError::ClientGone, _)))
    };
    // A call leaves its room before its handle ends.
    eventually(|| hall.guests.lock().unwrap()[1..].iter().all(gone));
    is_unharmed(&other);
}
