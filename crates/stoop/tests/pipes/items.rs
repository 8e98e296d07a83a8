//! Items arrive once and in order, of every kind of type and length.

use super::*;

claims! { [
    items_arrive_once_and_in_order
    every_item_has_come_when_the_pipe_has_ended_and_the_result_comes_after
    items_of_all_lengths_come_back_as_they_were
    calls_are_answered_while_items_go_there_and_back
    an_item_of_many_windows_arrives
    an_item_longer_than_a_message_is_refused_and_the_next_arrives
    items_come_before_the_typed_error
    items_come_before_the_end_of_a_procedure_that_panics
    many_calls_with_pipes_run_beside_each_other
] }

mod with_an_account {
    use super::*;
    use std::time::Duration;
    use stoop::BindOptions;
    use stoop::account::{AccountOptions, PipedItems};

    claims! { @ tcp [items_and_waits_are_counted_at_both_ends] }
    claims! { @ shm [items_and_waits_are_counted_at_both_ends] }
    claims! { @ udp [items_and_waits_are_counted_at_both_ends] }

    fn items_and_waits_are_counted_at_both_ends(transport: &str) {
        let server = Server::new().export(WorksServer::new(Bench::default())).account(AccountOptions::new());
        let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
        let options = BindOptions::new().account(AccountOptions::new());
        let client = WorksClient::bind_with(&server.uris()[0], &options).unwrap();
        let (call, texts, mut back) = client.echo();
        for text in ["a", "b", "c"] {
            texts.send(text).unwrap();
            assert_eq!(back.recv().unwrap().as_deref(), Some(text), "one after the other, so that both wait");
        }
        texts.finish();
        assert_eq!(back.recv().unwrap(), None);
        call.wait().unwrap();
        // A task.
        let (call, numbers, doubled) = client.double();
        assert_eq!(doubled.fed_by(numbers, 0..1000).map(Result::unwrap).count(), 1000);
        assert_eq!(call.wait().unwrap(), 1000);
        let of_client = client.binding().account();
        let of_server = server.account();
        let at_server = |name: &str| of_server.procedures.iter().find(|it| it.name == name).unwrap().pipes;
        let ends = |name: &str| [of_client.procedure(name).unwrap().pipes, at_server(name)];
        let counts = |it: PipedItems| (it.sent, it.received);
        assert_eq!(ends("echo").map(counts), [(3, 3); 2]);
        assert_eq!(ends("double").map(counts), [(1000, 1000); 2]);
        let waits = ends("echo");
        assert!(
            waits.iter().any(|it| it.waits_for_items > 0 && it.waited_for_items > Duration::ZERO),
            "{waits:?}"
        );
        let text = of_client.prometheus().to_string();
        let labels = "interface=\"Works\",procedure=\"echo\",way=\"sent\"";
        assert!(text.contains(&format!("stoop_pipe_items_total{{{labels}}} 3\n")), "{text}");
    }
}

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

fn calls_are_answered_while_items_go_there_and_back(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, texts, mut back) = client.echo();
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| (0..300).map(|number| client.next(number).unwrap()).sum::<u64>());
        while !calls.is_finished() {
            for _ in 0..20 {
                texts.send("there").unwrap();
                assert_eq!(back.recv().unwrap().as_deref(), Some("there"));
            }
        }
        assert_eq!(calls.join().unwrap(), (1..=300).sum());
    });
    texts.finish();
    assert_eq!(back.recv().unwrap(), None);
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
    let mut calls: Vec<_> = (0..50).map(|from| client.count(from, from + 3000)).collect();
    // In turn: no procedure waits long for its reader.
    for number in 0..3000 {
        for (from, (_, numbers)) in (0..).zip(&mut calls) {
            assert_eq!(numbers.recv().unwrap(), Some(from + number));
        }
    }
    for (call, mut numbers) in calls {
        assert_eq!(numbers.recv().unwrap(), None);
        assert_eq!(call.wait().unwrap(), 3000);
    }
}
