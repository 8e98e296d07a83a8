//! Metadata stays with its call: when other threads answer, interceptors end it, it is dispatched twice, or there is no room.

use super::*;
use crate::harness::runtime::block_on;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
use stoop::{BindOptions, Deferred, Reply, deferred, wait_any};

claims! { all and lossy: [
    an_interceptor_that_ends_a_later_call_sees_the_metadata_of_that_call
    a_pair_of_an_interceptor_that_cannot_travel_fails_the_call
    pairs_of_a_servers_interceptor_come_back_with_long_out_arguments
    a_call_whose_pairs_leave_no_room_for_a_trace_is_made_without_it
    early_calls_carry_metadata
    a_result_that_leaves_no_room_for_its_block_fails_the_call
    calls_with_different_metadata_are_waited_for_together
    a_client_carries_nothing_of_a_call_whose_procedure_has_panicked
    a_thread_that_ends_makes_calls_with_metadata
] }

#[stoop::interface]
trait Shop {
    /// Is answered by `release`.
    fn hold(&self) -> Deferred<u32>;
    /// Answers a call of `hold`, if there is one.
    fn release(&self) -> bool;
    fn fill(&self, #[out] buffer: &mut [u8]);
    /// The number of pairs, asked from the server there by a call with so many own ones; and whether it has a trace.
    fn counted_through(&self, uri: &str, pairs: u32) -> (u32, bool);
    fn counted(&self) -> (u32, bool);
    async fn tenant(&self) -> Vec<u8>;
    fn bytes(&self, len: u32) -> Vec<u8>;
    /// Panics in the procedure of a call that it makes.
    fn panic_in(&self, uri: &str);
    fn panic(&self);
    /// The tenant in a call that the thread makes there, outside any procedure of its own.
    fn tenant_now(&self) -> Vec<u8>;
}

#[derive(Clone, Default)]
struct Counter(Arc<Mutex<Vec<Reply<u32>>>>);

fn connect(uri: &str) -> ShopClient {
    ShopClient::bind(uri).unwrap()
}

impl Shop for Counter {
    fn hold(&self) -> Deferred<u32> {
        let (reply, later) = deferred();
        call().set_answer_metadata(Metadata::new().set("held", here("tenant")));
        self.0.lock().unwrap().push(reply);
        later
    }
    fn release(&self) -> bool {
        let held = self.0.lock().unwrap().pop();
        held.is_some_and(|reply| reply.send(7).is_ok())
    }
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(9);
    }
    fn counted_through(&self, uri: &str, pairs: u32) -> (u32, bool) {
        let own = (0..pairs).fold(Metadata::new(), |own, n| own.set(&format!("n{n}"), b""));
        connect(uri).with_metadata(own).counted().unwrap()
    }
    fn counted(&self) -> (u32, bool) {
        let metadata = call().metadata();
        (metadata.iter().count() as u32, metadata.traced().is_some())
    }
    async fn tenant(&self) -> Vec<u8> {
        here("tenant")
    }
    fn bytes(&self, len: u32) -> Vec<u8> {
        vec![1; len as usize]
    }
    fn panic_in(&self, uri: &str) {
        connect(uri).panic().unwrap();
    }
    fn panic(&self) {
        panic!("expected");
    }
    fn tenant_now(&self) -> Vec<u8> {
        here("tenant")
    }
}

fn open(transport: &str, server: Server, options: &BindOptions) -> (RunningServer, ShopClient) {
    let server = server.export(ShopServer::new(Counter::default()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = ShopClient::bind_with(&server.uris()[0], options).unwrap();
    (server, client)
}

/// Tells the tenant of each call that it ends, in a log and to the caller.
#[derive(Default)]
struct Audit(Mutex<Vec<(String, Vec<u8>)>>);

impl Intercept for Audit {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.add_metadata(&Metadata::new().set("admitted", b"yes"));
        Before::Go
    }
    fn after(&self, call: &CallInfo<'_>, _: &Ended<'_>) -> After {
        let tenant = call.metadata().get("tenant").unwrap_or_default().to_vec();
        self.0.lock().unwrap().push((call.procedure().into(), tenant));
        After::Return
    }
}

fn an_interceptor_that_ends_a_later_call_sees_the_metadata_of_that_call(transport: &str) {
    let audit = Arc::new(Audit::default());
    let server = Server::new().interceptor(Arc::clone(&audit));
    let (_server, client) = open(transport, server, &BindOptions::new());
    let (held, released) = (AnswerMetadata::new(), AnswerMetadata::new());
    let holding = client.with_metadata(tenant(b"blue")).with_answer_metadata(&held);
    let releasing = client.with_metadata(tenant(b"red")).with_answer_metadata(&released);
    let pending = holding.begin().hold();
    eventually(|| releasing.release().unwrap());
    assert_eq!(pending.wait().unwrap(), 7);
    assert_eq!(held.take(), Metadata::new().set("held", b"blue"), "the procedure has set others");
    assert_eq!(released.take().get("admitted"), Some(&b"yes"[..]));
    let log = audit.0.lock().unwrap();
    assert!(log.contains(&("hold".into(), b"blue".to_vec())), "{log:?}");
    assert!(!log.contains(&("hold".into(), b"red".to_vec())), "{log:?}");
}

/// Adds a pair with a name that none may have.
struct Misnames;

impl Intercept for Misnames {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.add_metadata(&Metadata::new().set("Token", b"secret"));
        Before::Go
    }
}

fn a_pair_of_an_interceptor_that_cannot_travel_fails_the_call(transport: &str) {
    let (_server, client) = open(transport, Server::new(), &BindOptions::new().interceptor(Misnames));
    for error in [client.bytes(1).unwrap_err(), client.begin().bytes(1).wait().unwrap_err()] {
        assert!(matches!(error, CallError::NotSent(SendError::Metadata(MetadataError::Name), _)), "{error}");
    }
    let (_server, client) = open(transport, Server::new().interceptor(Misnames), &BindOptions::new());
    assert_eq!(client.bytes(1).unwrap(), [1], "nothing asks for the metadata of the answer");
    let error = client.with_metadata(tenant(b"blue")).bytes(1).unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::Inexpressible),
        "{error}"
    );
}

fn pairs_of_a_servers_interceptor_come_back_with_long_out_arguments(transport: &str) {
    let server = Server::new().interceptor(Audit::default());
    let (_server, client) = open(transport, server, &BindOptions::new());
    let answer = AnswerMetadata::new();
    let asking = client.with_answer_metadata(&answer);
    for len in [100, 300_000, 1_000_000] {
        let mut buffer = vec![0; len];
        asking.fill(&mut buffer).unwrap();
        assert_eq!(answer.take().get("admitted"), Some(&b"yes"[..]), "{len}");
        assert_eq!(asking.begin().fill(len).wait().unwrap(), buffer, "{len}");
        assert_eq!(answer.take().get("admitted"), Some(&b"yes"[..]), "{len}");
    }
}

fn a_call_whose_pairs_leave_no_room_for_a_trace_is_made_without_it(transport: &str) {
    let (_server, client) = open(transport, Server::new(), &BindOptions::new());
    let (other, _) = open(transport, Server::new(), &BindOptions::new());
    let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let traced = client.with_metadata(Metadata::new().trace_parent(parent));
    for (pairs, expected) in [(0, (0, true)), (63, (63, true)), (64, (64, false))] {
        assert_eq!(traced.counted_through(&other.uris()[0], pairs).unwrap(), expected);
    }
}

fn early_calls_carry_metadata(transport: &str) {
    let (server, _) = open(transport, Server::new(), &BindOptions::new());
    let client = ShopClient::bind_with(&server.uris()[0], &BindOptions::new().lazy()).unwrap();
    let client = client.to_async().with_metadata(tenant(b"blue"));
    let (first, second) = (client.tenant(), client.tenant());
    assert_eq!(block_on(first).unwrap(), b"blue");
    assert_eq!(block_on(second).unwrap(), b"blue");
    let client = ShopClient::bind_with(&server.uris()[0], &BindOptions::new().lazy()).unwrap();
    assert_eq!(client.begin().with_metadata(tenant(b"red")).tenant().wait().unwrap(), b"red");
}

fn a_result_that_leaves_no_room_for_its_block_fails_the_call(transport: &str) {
    const MOST: u32 = 10_000;
    let server = Server::new().max_message(MOST as usize);
    let (_server, client) = open(transport, server, &BindOptions::new().max_message(MOST as usize));
    let carrying = client.with_metadata(tenant(b"blue"));
    // The count of the bytes takes four, and the block four more.
    let longest = MOST - 8;
    assert_eq!(carrying.bytes(longest).unwrap().len(), longest as usize);
    for len in longest + 1..=longest + 4 {
        assert_eq!(client.bytes(len).unwrap().len(), len as usize);
        for error in [carrying.bytes(len).unwrap_err(), carrying.begin().bytes(len).wait().unwrap_err()] {
            assert_eq!(error.ran(), Ran::Yes, "{error}");
            assert!(
                matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::ResultTooLarge),
                "{error}"
            );
        }
    }
    assert_eq!(carrying.begin().bytes(longest).wait().unwrap().len(), longest as usize);
}

fn calls_with_different_metadata_are_waited_for_together(transport: &str) {
    let (_server, client) = open(transport, Server::new(), &BindOptions::new());
    let answers: Vec<_> = (0..8_u8).map(|_| AnswerMetadata::new()).collect();
    let mut pending: Vec<_> = (0..8_u8)
        .map(|n| {
            let carrying = client.with_metadata(tenant(&[n])).with_answer_metadata(&answers[usize::from(n)]);
            carrying.begin().hold()
        })
        .collect();
    while !pending.is_empty() {
        eventually(|| client.release().unwrap());
        let place = wait_any(&mut pending).unwrap();
        assert_eq!(pending.swap_remove(place).wait().unwrap(), 7);
    }
    for (n, answer) in (0..8_u8).zip(&answers) {
        assert_eq!(answer.take().get("held"), Some(&[n][..]));
    }
}

fn a_client_carries_nothing_of_a_call_whose_procedure_has_panicked(transport: &str) {
    let (server, client) = open(transport, Server::new().workers(1), &BindOptions::new());
    let (other, plain) = open(transport, Server::new().workers(1), &BindOptions::new());
    let carrying = client.with_metadata(tenant(b"blue").propagate());
    for _ in 0..3 {
        assert_eq!(carrying.panic().unwrap_err().ran(), Ran::Yes);
        assert_eq!(carrying.panic_in(&other.uris()[0]).unwrap_err().ran(), Ran::Yes);
        // Here the thread of this test may have run the procedures.
        assert_eq!(plain.tenant_now().unwrap(), b"");
        assert_eq!(client.tenant_now().unwrap(), b"");
        assert_eq!(client.begin().tenant_now().wait().unwrap(), b"");
        assert_eq!(connect(&server.uris()[0]).tenant_now().unwrap(), b"");
    }
}

/// Makes a call when it is dropped.
struct Last(ShopClient, Arc<Mutex<Vec<u8>>>);

impl Drop for Last {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = self.0.tenant_now().unwrap();
    }
}

fn a_thread_that_ends_makes_calls_with_metadata(transport: &str) {
    thread_local! {
        static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }
    let (_server, client) = open(transport, Server::new(), &BindOptions::new());
    let carrying = client.with_metadata(tenant(b"blue"));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let last = Last(carrying.clone(), Arc::clone(&seen));
    let thread = std::thread::spawn(move || {
        LAST.set(Some(last));
        assert_eq!(carrying.tenant_now().unwrap(), b"blue");
    });
    thread.join().unwrap();
    assert_eq!(*seen.lock().unwrap(), b"blue");
}
