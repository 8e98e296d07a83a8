//! What is sent and not taken is bounded, and waiting for room ends.

use super::*;
use std::thread;
use std::time::Duration;
use stoop::Window;

claims! { [
    a_sender_finds_no_room_while_nothing_is_taken_and_finds_it_again
    both_write_and_neither_reads_ends_with_an_error_that_names_the_reader
    the_result_needs_no_room
    a_call_is_answered_while_another_thread_sends_long_items
    the_rest_of_an_answered_call_comes_while_its_lane_has_other_calls
    a_slow_reader_delays_no_other_call
    the_newest_item_comes_after_a_pause_and_the_skipped_ones_are_counted
    one_thread_sends_and_receives_without_waiting_for_itself
    a_thread_that_waits_already_learns_the_deadline_that_begins_with_the_end_of_a_pipe
    a_total_time_ends_a_call_that_is_quiet
    threads_share_a_sender
] }

fn a_sender_finds_no_room_while_nothing_is_taken_and_finds_it_again(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.sum_later();
    let mut sent = 0_u64;
    while numbers.try_send(&1).unwrap() {
        sent += 1;
        assert!(sent < 1_000_000, "there is always room");
    }
    let short = Duration::from_secs(1);
    let (other, waiting) = client.with_timeout(short).sum_later();
    let why = loop {
        if let Err(why) = waiting.send(&1) {
            break why;
        }
    };
    assert!(matches!(why, PipeError::NoRoom { waited } if waited >= short), "{why}");
    assert!(!why.to_string().is_empty());
    drop((other, waiting));
    bench.gate.open();
    numbers.send(&1).unwrap();
    numbers.finish();
    assert_eq!(call.wait().unwrap(), sent + 1);
}

fn both_write_and_neither_reads_ends_with_an_error_that_names_the_reader(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers, mut out) = client.with_timeout(Duration::from_secs(1)).writes_first();
    let why = loop {
        if let Err(why) = numbers.send(&1) {
            break why;
        }
    };
    assert!(why.to_string().contains("reader"), "{why}");
    eventually(|| bench.noted() == ["\"full\""]);
    assert_eq!(client.next(1).unwrap(), 2, "other calls go on");
    while out.recv().unwrap() == Some(7) {}
    numbers.finish();
    assert!(call.wait().unwrap() > 0);
}

fn a_call_is_answered_while_another_thread_sends_long_items(transport: &str) {
    let (_server, _bench, client) = works(transport);
    for round in 0..300 {
        let len = 40_000 + round % 9 * 10_000;
        let (call, parts) = client.flood(len);
        parts.for_each(|part| assert_eq!(part.unwrap().len() as u64, len));
        assert_eq!(call.wait().unwrap(), len);
    }
}

fn a_thread_that_waits_already_learns_the_deadline_that_begins_with_the_end_of_a_pipe(transport: &str) {
    let (_server, bench, client) = works(transport);
    let _opens = bench.gate.open_on_drop();
    let step = Duration::from_millis(300);
    let client = client.with_timeout(step);
    for closes_late in [false, true] {
        let (call, numbers) = client.sum_later();
        let waiting = thread::spawn(move || call.wait());
        if closes_late {
            // The first step of both calls passes.
            let (other, _numbers) = client.sum_later();
            assert!(other.wait_timeout(2 * step).is_err());
        }
        numbers.finish();
        eventually(|| waiting.is_finished());
        assert!(waiting.join().unwrap().unwrap_err().is_timeout());
    }
}

fn the_result_needs_no_room(transport: &str) {
    let (_server, _, client) = works(transport);
    // Less than the first window, and nobody reads it before the result has come.
    let (call, numbers) = client.count(0, 100);
    assert_eq!(call.wait().unwrap(), 100);
    assert_eq!(numbers.map(Result::unwrap).sum::<u64>(), 99 * 100 / 2);
}

fn the_rest_of_an_answered_call_comes_while_its_lane_has_other_calls(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, texts, mut back) = client.echo();
    texts.send(&"x".repeat(1 << 20)).unwrap();
    texts.finish();
    call.wait().unwrap();
    for _ in 0..20 {
        let (call, parts) = client.put(u64::MAX);
        parts.send(&[1; 100]).unwrap();
        parts.finish();
        assert_eq!(call.wait().unwrap(), 100);
    }
    assert_eq!(back.recv_with(str::len).unwrap(), Some(1 << 20));
    assert_eq!(back.recv_with(str::len).unwrap(), None);
}

fn a_slow_reader_delays_no_other_call(transport: &str) {
    let (_server, _, client) = works(transport);
    let (_call, mut numbers) = client.send_until_stopped();
    for _ in 0..1000 {
        assert_eq!(client.next(1).unwrap(), 2);
    }
    let (call, others) = client.count(0, 50_000);
    assert_eq!(others.count(), 50_000);
    call.wait().unwrap();
    assert_eq!(numbers.recv().unwrap(), Some(0));
}

fn the_newest_item_comes_after_a_pause_and_the_skipped_ones_are_counted(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, mut numbers) = client.with_window(Window::Newest).watch(0);
    let (sender, reply) = bench.watcher();
    // The first item has used up the window; all of these are of one key.
    (1..=1000).for_each(|number| sender.send_latest(0, &number).unwrap());
    assert_eq!(numbers.recv().unwrap(), Some(0));
    assert_eq!((numbers.recv().unwrap(), numbers.skipped()), (Some(1000), 999));
    reply.send(Ok(1)).unwrap();
    assert_eq!(numbers.recv().unwrap(), None);
    call.wait().unwrap();
}

fn one_thread_sends_and_receives_without_waiting_for_itself(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, numbers, doubled) = client.double();
    let sum: u64 = doubled.fed_by(numbers, 0..100_000).map(Result::unwrap).sum();
    assert_eq!((sum, call.wait().unwrap()), (99_999 * 100_000, 100_000));
}

fn a_total_time_ends_a_call_that_is_quiet(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, mut numbers) = client.with_total(Duration::from_secs(1)).watch(3);
    assert_eq!(numbers.recv().unwrap(), Some(3));
    let why = numbers.recv().unwrap_err();
    assert!(is_lost(&why) || matches!(why, PipeError::Aborted), "{why}");
    assert!(call.wait().is_err());
}

fn threads_share_a_sender(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.sum_later();
    bench.gate.open();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5000).for_each(|number| numbers.send(&number).unwrap()));
        }
    });
    numbers.finish();
    assert_eq!(call.wait().unwrap(), 4 * 4999 * 5000 / 2);
}
