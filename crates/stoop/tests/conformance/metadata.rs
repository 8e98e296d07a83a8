//! Metadata: pairs beside the arguments of calls and beside their results.

mod apart;
mod later;

use super::*;
use std::sync::Arc;
use std::sync::Mutex;
use stoop::{AnswerMetadata, CurrentCall, Metadata, MetadataError, TraceParent, current_call};

claims! { all and lossy: [
    metadata_arrives_with_a_blocking_call_and_with_its_result
    metadata_arrives_with_begun_calls_and_with_their_results
    metadata_arrives_with_one_way_calls
    metadata_arrives_with_long_calls_and_long_results
    calls_without_metadata_have_none_after_calls_with_some
    an_answer_without_metadata_brings_none
    metadata_of_every_length_arrives
    only_what_is_to_go_on_is_in_the_calls_that_a_procedure_makes
    metadata_of_a_nested_call_is_not_that_of_the_call_around_it
    metadata_that_cannot_travel_is_not_sent_and_says_why
    answer_metadata_that_cannot_travel_fails_the_call_and_says_why
    a_refused_or_failed_call_brings_no_metadata
    a_buffer_travels_beside_metadata
] }

#[stoop::interface]
trait Desk {
    /// The value of that name; empty if there is none.
    fn value(&self, name: &str) -> Vec<u8>;
    /// Answers with this, under the name `answer`.
    fn answer(&self, value: &[u8]);
    /// Gives back what it is given, and its metadata as that of the answer.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Fills the buffer with the first byte of `value`.
    fn fill(&self, #[out] buffer: &mut [u8]);
    /// The number of pairs.
    fn count(&self) -> u32;
    /// Asks the server there for that name, in a call that carries nothing of its own.
    fn value_through(&self, uri: &str, name: &str) -> Vec<u8>;
    /// The same, in a begun call.
    fn value_through_begun(&self, uri: &str, name: &str) -> Vec<u8>;
    /// The span that has called, asked from the server there.
    fn parent_through(&self, uri: &str) -> String;
    /// The same here.
    fn parent(&self) -> String;
    /// Remembers the value of `note`.
    #[one_way]
    fn note(&self);
    /// What was remembered.
    fn notes(&self) -> Vec<Vec<u8>>;
    /// Adds the first byte of `value` to each.
    fn shift(&self, buffer: &mut stoop::InPlace<u8>);
    fn panic(&self);
}

#[derive(Clone, Default)]
struct Clerk(Arc<Mutex<Vec<Vec<u8>>>>);

fn call() -> CurrentCall {
    current_call().expect("a procedure runs in a call")
}

fn here(name: &str) -> Vec<u8> {
    call().metadata().get(name).unwrap_or_default().to_vec()
}

impl Desk for Clerk {
    fn value(&self, name: &str) -> Vec<u8> {
        here(name)
    }
    fn answer(&self, value: &[u8]) {
        call().set_answer_metadata(Metadata::new().set("answer", value));
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        call().set_answer_metadata(call().metadata());
        bytes.to_vec()
    }
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(here("value")[0]);
        call().set_answer_metadata(Metadata::new().set("filled", b"yes"));
    }
    fn count(&self) -> u32 {
        call().metadata().iter().count() as u32
    }
    fn value_through(&self, uri: &str, name: &str) -> Vec<u8> {
        DeskClient::bind(uri).unwrap().value(name).unwrap()
    }
    fn value_through_begun(&self, uri: &str, name: &str) -> Vec<u8> {
        DeskClient::bind(uri).unwrap().begin().value(name).wait().unwrap()
    }
    fn parent_through(&self, uri: &str) -> String {
        DeskClient::bind(uri).unwrap().parent().unwrap()
    }
    fn parent(&self) -> String {
        call().metadata().traced().map(|parent| parent.to_string()).unwrap_or_default()
    }
    fn note(&self) {
        self.0.lock().unwrap().push(here("note"));
    }
    fn notes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }
    fn shift(&self, buffer: &mut stoop::InPlace<u8>) {
        let by = here("value")[0];
        for at in 0..buffer.len() {
            buffer.set(at, buffer.get(at) + by);
        }
    }
    fn panic(&self) {
        call().set_answer_metadata(Metadata::new().set("answer", b"too late"));
        panic!("expected");
    }
}

fn serve(transport: &str) -> (RunningServer, DeskClient) {
    let server = Server::new().export(DeskServer::new(Clerk::default()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = DeskClient::bind(&server.uris()[0]).unwrap();
    (server, client)
}

fn tenant(value: &[u8]) -> Metadata {
    Metadata::new().set("tenant", value)
}

fn metadata_arrives_with_a_blocking_call_and_with_its_result(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let carrying = client.with_metadata(tenant(b"blue")).with_answer_metadata(&answer);
    for round in 0..20 {
        assert_eq!(carrying.value("tenant").unwrap(), b"blue");
        assert!(answer.take().is_empty());
        carrying.answer(&[round; 5]).unwrap();
        assert_eq!(answer.take().get("answer"), Some(&[round; 5][..]));
        assert!(answer.take().is_empty(), "it has been taken");
    }
    assert_eq!(client.with_answer_metadata(&answer).value("tenant").unwrap(), b"");
}

fn metadata_arrives_with_begun_calls_and_with_their_results(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let calls = client.begin();
    let before: Vec<_> = (0..10).map(|_| calls.value("tenant")).collect();
    let calls = calls.with_metadata(tenant(b"blue")).with_answer_metadata(&answer);
    let after: Vec<_> = (0..50).map(|_| calls.value("tenant")).collect();
    let echo = calls.echo(b"bytes");
    drop(calls);
    before.into_iter().for_each(|pending| assert_eq!(pending.wait().unwrap(), b""));
    after.into_iter().for_each(|pending| assert_eq!(pending.wait().unwrap(), b"blue"));
    assert!(answer.take().is_empty());
    assert_eq!(echo.wait().unwrap(), b"bytes");
    assert_eq!(answer.take(), tenant(b"blue"));
    let carrying = client.with_metadata(tenant(b"red")).with_answer_metadata(&answer);
    let filled = carrying.with_metadata(Metadata::new().set("value", [7])).begin().fill(5000).wait().unwrap();
    assert_eq!((filled, answer.take().get("filled")), (vec![7; 5000], Some(&b"yes"[..])));
    assert_eq!(carrying.begin().value("tenant").wait().unwrap(), b"red");
}

fn metadata_arrives_with_one_way_calls(transport: &str) {
    let (_server, client) = serve(transport);
    let carrying = client.with_metadata(Metadata::new().set("note", b"first"));
    carrying.note().unwrap();
    assert_eq!(client.notes().unwrap(), [b"first"], "the other client's call waits for it");
    carrying.begin().with_metadata(Metadata::new().set("note", b"second")).note().detach();
    client.binding().flush(harness::LIMIT).unwrap();
    assert_eq!(carrying.notes().unwrap(), [&b"first"[..], b"second"]);
}

fn metadata_arrives_with_long_calls_and_long_results(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let metadata = tenant(b"blue").set("more", vec![3; 3000]);
    let carrying = client.with_metadata(metadata.clone()).with_answer_metadata(&answer);
    for len in [0, 1, 1300, 1400, 1420, 1440, 4000, 4096, 5000, 65_500, 70_000, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        assert_eq!(carrying.echo(&bytes).unwrap(), bytes, "{len}");
        assert_eq!(answer.take(), metadata, "{len}");
        assert_eq!(carrying.begin().echo(&bytes).wait().unwrap(), bytes, "{len}");
        assert_eq!(answer.take(), metadata, "{len}");
        let mut buffer = vec![0; len];
        carrying.with_metadata(Metadata::new().set("value", [9])).fill(&mut buffer).unwrap();
        assert_eq!(buffer, vec![9; len], "{len}");
        assert_eq!(answer.take().get("filled"), Some(&b"yes"[..]));
    }
}

fn calls_without_metadata_have_none_after_calls_with_some(transport: &str) {
    let (_server, client) = serve(transport);
    let carrying = client.with_metadata(tenant(b"blue"));
    for _ in 0..10 {
        assert_eq!(carrying.value("tenant").unwrap(), b"blue");
        assert_eq!(client.value("tenant").unwrap(), b"");
        assert_eq!(carrying.with_metadata(Metadata::new()).value("tenant").unwrap(), b"");
        assert_eq!(client.begin().value("tenant").wait().unwrap(), b"");
    }
    assert!(current_call().is_none());
}

fn an_answer_without_metadata_brings_none(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let carrying = client.with_answer_metadata(&answer);
    carrying.answer(b"one").unwrap();
    carrying.value("").unwrap();
    assert!(answer.take().is_empty(), "each result replaces what another has brought");
    // Its caller does not ask.
    client.answer(b"two").unwrap();
    assert!(answer.take().is_empty());
}

fn metadata_of_every_length_arrives(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let client = client.with_answer_metadata(&answer);
    let lens = (0..64).chain([1400, 1410, 1420, 1430, 4000]).chain(4070..=4082);
    for len in lens {
        let metadata = tenant(&vec![1; len]);
        assert_eq!(client.with_metadata(metadata.clone()).echo(b"").unwrap(), b"", "{len}");
        assert_eq!(answer.take(), metadata, "{len}");
    }
}

fn only_what_is_to_go_on_is_in_the_calls_that_a_procedure_makes(transport: &str) {
    let (first, client) = serve(transport);
    let (second, _) = serve(transport);
    let uri = &second.uris()[0];
    let carrying = client.with_metadata(
        Metadata::new().set("token", b"secret").set("tenant", b"blue").propagate().set("tracestate", b"a=b"),
    );
    for (name, value) in [("token", &b""[..]), ("tenant", b"blue"), ("tracestate", b"a=b")] {
        assert_eq!(carrying.value_through(uri, name).unwrap(), value, "{name}");
        assert_eq!(carrying.value_through_begun(uri, name).unwrap(), value, "{name}");
        assert_eq!(client.value_through(uri, name).unwrap(), b"", "{name}");
    }
    let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let traced = client.with_metadata(Metadata::new().trace_parent(parent));
    assert_eq!(traced.parent().unwrap(), parent.to_string());
    assert_eq!(traced.parent_through(uri).unwrap(), parent.to_string());
    drop(first);
}

fn metadata_of_a_nested_call_is_not_that_of_the_call_around_it(transport: &str) {
    let (server, client) = serve(transport);
    let uri = &server.uris()[0];
    let carrying = client.with_metadata(tenant(b"blue").set("value", [1]));
    assert_eq!(carrying.value_through(uri, "tenant").unwrap(), b"");
    assert_eq!(carrying.count().unwrap(), 2, "nothing is left of the nested call");
}

fn metadata_that_cannot_travel_is_not_sent_and_says_why(transport: &str) {
    let (_server, client) = serve(transport);
    for (metadata, why) in [
        (tenant(&[0; 4097]), MetadataError::TooLong { most: 4096 }),
        (Metadata::new().set("Tenant", b""), MetadataError::Name),
        (Metadata::new().set("traceparent", b"none"), MetadataError::TraceContext),
    ] {
        let client = client.with_metadata(metadata);
        let outcomes =
            [client.value("").map(|_| ()), client.note(), client.begin().value("").wait().map(|_| ())];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert_eq!(error.ran(), Ran::No);
            assert!(
                matches!(&error, CallError::NotSent(SendError::Metadata(found), ..) if *found == why),
                "{error}"
            );
            assert!(error.to_string().contains(&why.to_string()), "{error}");
        }
    }
    assert_eq!(client.notes().unwrap().len(), 0);
    client.value("").unwrap();
}

fn answer_metadata_that_cannot_travel_fails_the_call_and_says_why(transport: &str) {
    let (_server, client) = serve(transport);
    let carrying = client.with_metadata(tenant(b"blue"));
    for error in
        [carrying.answer(&[0; 5000]).unwrap_err(), carrying.begin().answer(&[0; 5000]).wait().unwrap_err()]
    {
        assert_eq!(error.ran(), Ran::Yes);
        assert!(
            matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::Inexpressible),
            "{error}"
        );
        assert!(error.to_string().contains("4096 bytes"), "{error}");
    }
    carrying.answer(b"short").unwrap();
}

fn a_refused_or_failed_call_brings_no_metadata(transport: &str) {
    let (_server, client) = serve(transport);
    let answer = AnswerMetadata::new();
    let carrying = client.with_metadata(tenant(b"blue")).with_answer_metadata(&answer);
    assert!(matches!(carrying.panic(), Err(CallError::Failed(..))));
    assert!(answer.take().is_empty());
    assert_eq!(carrying.value("tenant").unwrap(), b"blue");
    assert_eq!(client.value("tenant").unwrap(), b"");
}

fn a_buffer_travels_beside_metadata(transport: &str) {
    let (_server, client) = serve(transport);
    let carrying = client.with_metadata(Metadata::new().set("value", [2]));
    let mut buffer = client.in_place(10_000).unwrap();
    buffer.write(0, &[1; 10_000]);
    carrying.shift(&mut buffer).unwrap();
    assert_eq!(buffer.to_vec(), vec![3; 10_000]);
}
