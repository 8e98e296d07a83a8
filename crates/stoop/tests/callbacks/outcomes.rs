//! How callbacks end, and what they carry.

use crate::harness::eventually;
use crate::*;
use std::thread;
use stoop::error::{SendError, UnknownCause};
use stoop::{AnswerMetadata, FailureCode, Ran, RefusalCode};

claims! {[
    a_panic_in_a_callback_is_a_failure_without_its_message
    a_callback_ends_at_its_deadline_and_those_behind_it_go_on
    a_callback_has_the_time_of_the_call_for_which_it_is_made
    a_callback_that_runs_when_its_client_goes_may_have_run
    metadata_travels_with_a_callback_and_back
    a_callback_may_be_answered_later_and_by_a_task
    a_client_that_offers_no_object_is_refused_before_the_procedure_runs
    a_client_that_takes_nothing_is_waited_for_once_and_harms_no_other
    of_unsent_one_way_callbacks_with_one_key_the_latest_arrives_and_the_others_are_counted
    a_cancelled_callback_does_not_run_if_it_has_not_begun
    a_callback_whose_answer_comes_later_learns_that_it_is_cancelled
    a_long_argument_and_a_long_result_travel
]}

fn a_panic_in_a_callback_is_a_failure_without_its_message(transport: &str) {
    let (_server, hall, _, _room) = joined(transport);
    let error = hall.guest().panic().unwrap_err();
    assert!(matches!(&error, CallError::Failed(why, _) if why.code == FailureCode::Panicked), "{error}");
    let text = error.to_string();
    assert!(
        error.ran() == Ran::Yes && !["secret", "panic_texts"].iter().any(|no| text.contains(no)),
        "{text}"
    );
    assert_eq!(hall.guest().next(7).unwrap(), 8);
}

fn a_callback_ends_at_its_deadline_and_those_behind_it_go_on(transport: &str) {
    let (_server, hall, screen, _room) = joined(transport);
    let _opens = screen.gate.open_on_drop();
    let hurried = hall.guest().with_timeout(Duration::from_millis(20));
    // Within a process a blocking callback ends when it returns.
    let error = match transport {
        "local" => hurried.begin().next_later(7).wait().unwrap_err(),
        _ => hurried.next_later(7).unwrap_err(),
    };
    assert!(matches!(&error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }), "{error}");
    assert_eq!(error.ran(), Ran::Perhaps);
    // One that nobody waits for ends, too.
    let begun = hurried.begin().next_later(7);
    eventually(|| begun.is_ready());
    assert_eq!(begun.wait().unwrap_err().ran(), Ran::Perhaps);
    let awaited = crate::harness::runtime::block_on(hurried.to_async().next_later(7));
    assert_eq!(awaited.unwrap_err().ran(), Ran::Perhaps);
    screen.gate.open();
    assert_eq!(hall.guest().next(7).unwrap(), 8);
}

fn a_callback_has_the_time_of_the_call_for_which_it_is_made(transport: &str) {
    let (_server, hall, _, room) = joined(transport);
    let limit = Duration::from_secs(5);
    assert!(room.with_timeout(limit).time_of_caller().unwrap() <= 5_000);
    assert!(hall.guest().time_left().unwrap() > 5_000);
    assert!(hall.guest().with_timeout(limit).time_left().unwrap() <= 5_000);
}

fn a_callback_that_runs_when_its_client_goes_may_have_run(transport: &str) {
    let (_server, hall, screen, room) = joined(transport);
    let _opens = screen.gate.open_on_drop();
    let guest = hall.guest();
    let call = thread::spawn(move || guest.begin().next_later(7).wait());
    screen.gate.await_inside(1);
    drop(room);
    let error = call.join().unwrap().unwrap_err();
    assert!(error.ran() == Ran::Perhaps && matches!(error, CallError::Unknown { .. }), "{error}");
    assert_eq!(hall.guest().next(7).unwrap_err().ran(), Ran::No);
}

fn metadata_travels_with_a_callback_and_back(transport: &str) {
    let (_server, hall, _, _room) = joined(transport);
    let answer = AnswerMetadata::new();
    let guest =
        hall.guest().with_metadata(Metadata::new().set("tenant", "blue")).with_answer_metadata(&answer);
    assert_eq!(guest.tenant().unwrap(), "blue");
    assert_eq!(answer.take().get("seen"), Some(&b"yes"[..]));
    assert_eq!(guest.begin().tenant().wait().unwrap(), "blue");
    assert_eq!(answer.take().get("seen"), Some(&b"yes"[..]));
    guest.said("with metadata").unwrap();
    assert_eq!(hall.guest().tenant().unwrap(), "");
}

fn a_callback_may_be_answered_later_and_by_a_task(transport: &str) {
    let (_server, hall, screen, _room) = joined(transport);
    let _opens = screen.gate.open_on_drop();
    let guest = hall.guest();
    let begin = guest.begin();
    let later = begin.deferred(7);
    drop(begin);
    screen.gate.await_inside(1);
    // It holds no thread of the client.
    assert_eq!(guest.awaited(1).unwrap(), 2);
    screen.gate.open();
    assert_eq!(later.wait().unwrap(), 8);
}

fn a_client_that_offers_no_object_is_refused_before_the_procedure_runs(transport: &str) {
    let (server, hall, _, _room) = joined(transport);
    let other = RoomClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(other.version().unwrap(), 7);
    let error = other.join().unwrap_err();
    assert!(matches!(&error, CallError::Refused(why, _) if why.code == RefusalCode::NoCallback), "{error}");
    assert!(error.ran() == Ran::No && error.to_string().contains("BindOptions::callback"), "{error}");
    assert_eq!(hall.len(), 1);
}

fn a_client_that_takes_nothing_is_waited_for_once_and_harms_no_other(transport: &str) {
    let (server, hall, slow, _room) = joined(transport);
    let _opens = slow.gate.open_on_drop();
    let guest = hall.guest();
    let screen = Screen::default();
    let other = RoomClient::bind_with(&server.uris()[0], &screen.options()).unwrap();
    other.join().unwrap();
    let text = "x".repeat(1000);
    let hurried = guest.with_timeout(Duration::from_millis(50));
    let mut told = 0;
    let error = loop {
        match hurried.said_later(&text) {
            Ok(()) => told += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, CallError::NotSent(SendError::ClientBusy { .. }, _)), "{error}");
    // The next one does not wait, however much time it has.
    let error = guest.said(&text).unwrap_err();
    let waited = match &error {
        CallError::NotSent(SendError::ClientBusy { waited }, _) => *waited,
        _ => panic!("{error}"),
    };
    assert!(waited < Duration::from_secs(30), "{waited:?}");
    assert_eq!(error.ran(), Ran::No);
    assert_eq!(hall.guest().next(7).unwrap(), 8);
    slow.gate.open();
    // All that were sent arrive, and it can be called again.
    eventually(|| slow.lines().len() == told);
    eventually(|| guest.next(7).is_ok_and(|number| number == 8));
}

fn of_unsent_one_way_callbacks_with_one_key_the_latest_arrives_and_the_others_are_counted(transport: &str) {
    const TOLD: usize = 2000;
    let (_server, hall, screen, room) = joined(transport);
    let _opens = screen.gate.open_on_drop();
    let guest = hall.guest();
    let holds = guest.begin().next_later(7);
    screen.gate.await_inside(1);
    let text = |number: usize| format!("{number:1000}");
    let (latest, other) = (guest.with_latest(1), guest.with_latest(2));
    for number in 0..TOLD {
        latest.said(&text(number)).unwrap();
        if number == TOLD / 2 {
            other.said("other").unwrap();
        }
    }
    screen.gate.open();
    assert_eq!(holds.wait().unwrap(), 8);
    eventually(|| screen.lines().contains(&text(TOLD - 1)));
    eventually(|| screen.lines().contains(&"other".into()));
    // A call with a result is none that is replaced, and comes behind them.
    assert_eq!(latest.next(7).unwrap(), 8);
    let mut lines = screen.lines();
    lines.retain(|line| line != "other");
    assert!(lines.is_sorted() && lines.len() < TOLD, "{}", lines.len());
    assert_eq!(lines.len() as u64 + room.binding().counters().skipped_callbacks, TOLD as u64);
}

fn a_cancelled_callback_does_not_run_if_it_has_not_begun(transport: &str) {
    // The cancel is on its way when the one before has ended, and may come too late.
    eventually(|| {
        let (_server, hall, screen, room) = joined(transport);
        let _opens = screen.gate.open_on_drop();
        let guest = hall.guest();
        let begin = guest.begin();
        let (first, second) = (begin.next_later(1), begin.next_later(2));
        drop(begin);
        screen.gate.await_inside(1);
        drop(second);
        assert_eq!(room.version().unwrap(), 7);
        screen.gate.open();
        assert_eq!(first.wait().unwrap(), 2);
        assert_eq!(guest.next(7).unwrap(), 8);
        *screen.asked.lock().unwrap() == [1]
    });
}

fn a_callback_whose_answer_comes_later_learns_that_it_is_cancelled(transport: &str) {
    let (_server, hall, screen, _room) = joined(transport);
    let guest = hall.guest();
    let call = guest.begin().until_cancelled();
    eventually(|| screen.unanswered.lock().unwrap().is_some());
    let reply = screen.unanswered.lock().unwrap().take().unwrap();
    assert_eq!(guest.next(7).unwrap(), 8);
    assert!(!reply.is_cancelled());
    drop(call);
    eventually(|| reply.is_cancelled());
    assert!(reply.send(()).is_err());
    assert_eq!(guest.next(7).unwrap(), 8);
}

fn a_long_argument_and_a_long_result_travel(transport: &str) {
    let (_server, hall, screen, _room) = joined(transport);
    let text = "long ".repeat(200_000);
    hall.guest().said(&text).unwrap();
    eventually(|| screen.lines().len() == 1);
    assert_eq!(screen.lines()[0], text);
    let tenant = "y".repeat(3000);
    let guest = hall.guest().with_metadata(Metadata::new().set("tenant", tenant.clone()));
    assert_eq!(guest.tenant().unwrap(), tenant);
}
