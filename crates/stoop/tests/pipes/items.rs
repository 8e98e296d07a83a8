//! Items arrive once and in order, of every kind of type and length.

use super::*;

claims! { [
    items_arrive_once_and_in_order
    every_item_has_come_when_the_pipe_has_ended_and_the_result_comes_after
    items_of_all_lengths_come_back_as_they_were
    an_item_of_many_windows_arrives
    an_item_longer_than_a_message_is_refused_and_the_next_arrives
    items_come_before_the_typed_error
    items_come_before_the_end_of_a_procedure_that_panics
    many_calls_with_pipes_run_beside_each_other
] }

fn items_arrive_once_and_in_order(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, numbers) = client.count(5, 100_000);
    let mut next = 5;
    for number in numbers {
        assert_eq!(number.unwrap(), next);
        next += 1;
    }
    assert_eq!((next, call.wait().unwrap()), (100_000, 99_995));
}

fn every_item_has_come_when_the_pipe_has_ended_and_the_result_comes_after(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, parts) = client.put(u64::MAX);
    for len in 0..2000 {
        parts.send(&vec![1; len]).unwrap();
    }
    parts.finish();
    assert_eq!(call.wait().unwrap(), 1999 * 2000 / 2);
}

fn items_of_all_lengths_come_back_as_they_were(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, texts, mut back) = client.echo();
    for len in (0..64).chain([1000, 4095, 4096, 16_384, 65_520, 65_536, 100_000, 1 << 20]) {
        let text = "x".repeat(len);
        texts.send(&text).unwrap();
        assert_eq!(back.recv().unwrap().as_deref(), Some(&*text), "{len}");
    }
    texts.finish();
    assert_eq!(back.recv().unwrap(), None);
    assert_eq!(back.recv().unwrap(), None, "the end is told again");
    call.wait().unwrap();
}

fn an_item_of_many_windows_arrives(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, parts) = client.put(u64::MAX);
    let part = vec![7; 32 << 20];
    parts.send(&part).unwrap();
    parts.send(&part).unwrap();
    parts.finish();
    assert_eq!(call.wait().unwrap(), 64 << 20);
}

fn an_item_longer_than_a_message_is_refused_and_the_next_arrives(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, parts) = client.put(u64::MAX);
    let why = parts.send(&vec![7; 65 << 20]).unwrap_err();
    assert!(matches!(why, PipeError::TooLarge { .. }), "{why}");
    parts.send(&[1, 2, 3]).unwrap();
    parts.finish();
    assert_eq!(call.wait().unwrap(), 3);
}

fn items_come_before_the_typed_error(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, lines) = client.fail_after(1000);
    let lines: Vec<_> = lines.map(Result::unwrap).collect();
    assert_eq!((lines.len(), &lines[999]), (1000, &line(999)));
    assert!(matches!(call.wait(), Err(stoop::Error::Application(PutError::Full(1000)))));
}

fn items_come_before_the_end_of_a_procedure_that_panics(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, mut lines) = client.panic_after(100);
    for number in 0..100 {
        assert_eq!(lines.recv().unwrap(), Some(line(number)));
    }
    let why = lines.recv().unwrap_err();
    assert!(matches!(why, PipeError::Aborted), "{why}");
    assert_eq!(call.wait().unwrap_err().ran(), stoop::Ran::Yes);
}

fn many_calls_with_pipes_run_beside_each_other(transport: &str) {
    let (_server, _, client) = works(transport);
    let calls: Vec<_> = (0..50).map(|from| client.count(from, from + 3000)).collect();
    for (from, (call, numbers)) in calls.into_iter().enumerate() {
        let sum: u64 = numbers.map(Result::unwrap).sum();
        assert_eq!(sum, (from as u64..from as u64 + 3000).sum());
        assert_eq!(call.wait().unwrap(), 3000);
    }
}
