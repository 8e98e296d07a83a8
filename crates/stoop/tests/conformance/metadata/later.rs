//! Metadata of calls that go through interceptors, are answered later, or are made by an asynchronous client.

use super::*;
use crate::harness::runtime::block_on;
use stoop::error::Refusal;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
use stoop::{BindOptions, Deferred, deferred};

claims! { all and lossy: [
    metadata_arrives_with_calls_that_are_answered_later
    metadata_arrives_with_the_calls_of_an_asynchronous_client
    answers_later_whose_metadata_cannot_travel_fail_and_say_why
    a_task_carries_on_what_goes_on_after_it_has_awaited
    interceptors_of_a_client_add_pairs_and_those_of_a_server_see_them
    interceptors_see_the_metadata_of_answers
    a_call_that_is_made_again_carries_its_metadata_again
] }

#[stoop::interface]
trait Later {
    async fn awaited(&self, name: &str) -> Vec<u8>;
    async fn through(&self, uri: &str, name: &str) -> Vec<u8>;
    fn deferred(&self, name: &str) -> Deferred<Vec<u8>>;
    fn len(&self, bytes: &[u8]) -> u32;
    async fn answer(&self, len: u32);
}

struct Office;

/// Is ready when it is polled for the second time.
async fn pause() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl Later for Office {
    async fn awaited(&self, name: &str) -> Vec<u8> {
        pause().await;
        call().set_answer_metadata(Metadata::new().set("answer", b"awaited"));
        here(name)
    }
    async fn through(&self, uri: &str, name: &str) -> Vec<u8> {
        pause().await;
        LaterAsync::bind(uri).await.unwrap().awaited(name).await.unwrap()
    }
    fn deferred(&self, name: &str) -> Deferred<Vec<u8>> {
        let (reply, later) = deferred();
        let value = here(name);
        call().set_answer_metadata(Metadata::new().set("answer", b"replaced"));
        std::thread::spawn(move || {
            reply.set_answer_metadata(Metadata::new().set("answer", b"deferred"));
            reply.send(value)
        });
        later
    }
    async fn answer(&self, len: u32) {
        pause().await;
        call().set_answer_metadata(Metadata::new().set("answer", vec![0; len as usize]));
    }
    fn len(&self, bytes: &[u8]) -> u32 {
        call().set_answer_metadata(Metadata::new().set("answer", b"at once"));
        bytes.len() as u32
    }
}

fn office(transport: &str, server: Server, options: &BindOptions) -> (RunningServer, LaterClient) {
    let server = server.export(LaterServer::new(Office));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = LaterClient::bind_with(&server.uris()[0], options).unwrap();
    (server, client)
}

fn metadata_arrives_with_calls_that_are_answered_later(transport: &str) {
    let (_server, client) = office(transport, Server::new(), &BindOptions::new());
    let answer = AnswerMetadata::new();
    let carrying = client.with_metadata(tenant(b"blue")).with_answer_metadata(&answer);
    for _ in 0..10 {
        assert_eq!(carrying.awaited("tenant").unwrap(), b"blue");
        assert_eq!(answer.take().get("answer"), Some(&b"awaited"[..]));
        assert_eq!(carrying.begin().deferred("tenant").wait().unwrap(), b"blue");
        assert_eq!(answer.take().get("answer"), Some(&b"deferred"[..]));
        assert_eq!(carrying.deferred("tenant").unwrap(), b"blue");
        assert_eq!(answer.take().get("answer"), Some(&b"deferred"[..]));
        assert_eq!(client.awaited("tenant").unwrap(), b"");
    }
}

fn answers_later_whose_metadata_cannot_travel_fail_and_say_why(transport: &str) {
    let (_server, client) = office(transport, Server::new(), &BindOptions::new());
    let carrying = client.with_metadata(tenant(b"blue"));
    for error in [carrying.answer(5000).unwrap_err(), carrying.begin().answer(5000).wait().unwrap_err()] {
        assert!(
            matches!(&error, CallError::Failed(why, ..) if why.code == FailureCode::Inexpressible),
            "{error}"
        );
        assert!(error.to_string().contains("4096 bytes"), "{error}");
    }
    carrying.answer(5).unwrap();
}

fn metadata_arrives_with_the_calls_of_an_asynchronous_client(transport: &str) {
    let (_server, client) = office(transport, Server::new(), &BindOptions::new());
    let answer = AnswerMetadata::new();
    let client = client.to_async().with_metadata(tenant(b"blue")).with_answer_metadata(&answer);
    assert_eq!(block_on(client.awaited("tenant")).unwrap(), b"blue");
    assert_eq!(answer.take().get("answer"), Some(&b"awaited"[..]));
}

fn a_task_carries_on_what_goes_on_after_it_has_awaited(transport: &str) {
    let (_server, client) = office(transport, Server::new(), &BindOptions::new());
    let (last, _) = office(transport, Server::new(), &BindOptions::new());
    let uri = &last.uris()[0];
    let carrying = client.with_metadata(tenant(b"blue").propagate().set("token", b"secret"));
    assert_eq!(carrying.through(uri, "tenant").unwrap(), b"blue");
    assert_eq!(carrying.through(uri, "token").unwrap(), b"");
}

/// Adds a pair to each call, and remembers what answers have brought.
#[derive(Default)]
struct Adds(Mutex<Vec<Vec<u8>>>);

impl Intercept for Adds {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.add_metadata(&Metadata::new().set("added", b"yes"));
        Before::Go
    }
    fn after(&self, call: &CallInfo<'_>, _: &Ended<'_>) -> After {
        let answer = call.answer_metadata().get("answer").unwrap_or_default().to_vec();
        self.0.lock().unwrap().push(answer);
        After::Return
    }
}

/// Refuses the calls without the pair, and the first of those with it.
#[derive(Default)]
struct Wants(Mutex<Vec<Option<Vec<u8>>>>);

impl Intercept for Wants {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        let metadata = call.metadata();
        self.0.lock().unwrap().push(metadata.get("tenant").map(<[u8]>::to_vec));
        match metadata.get("added") {
            Some(b"yes") => Before::Go,
            _ => Before::Refuse(Refusal::denied("it has no pair")),
        }
    }
}

fn interceptors_of_a_client_add_pairs_and_those_of_a_server_see_them(transport: &str) {
    let wants = Arc::new(Wants::default());
    let server = Server::new().interceptor(Arc::clone(&wants));
    let (server, client) = office(transport, server, &BindOptions::new().interceptor(Adds::default()));
    let plain = LaterClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(plain.len(b"").unwrap_err().ran(), Ran::No);
    // Long arguments are gathered from the memory of the caller.
    for len in [0, 100, 5_000, 100_000] {
        assert_eq!(client.len(&vec![1; len]).unwrap(), len as u32);
        assert_eq!(client.begin().len(&vec![1; len]).wait().unwrap(), len as u32);
        assert_eq!(client.with_metadata(tenant(b"blue")).len(&vec![1; len]).unwrap(), len as u32);
        assert_eq!(
            client.begin().with_metadata(tenant(b"red")).len(&vec![1; len]).wait().unwrap(),
            len as u32
        );
    }
    let seen = std::mem::take(&mut *wants.0.lock().unwrap());
    let tenants = [None, None, Some(b"blue".to_vec()), Some(b"red".to_vec())];
    assert_eq!(seen[1..], std::iter::repeat_n(tenants, 4).flatten().collect::<Vec<_>>());
}

fn interceptors_see_the_metadata_of_answers(transport: &str) {
    let adds = Arc::new(Adds::default());
    let (_server, client) =
        office(transport, Server::new(), &BindOptions::new().interceptor(Arc::clone(&adds)));
    let answer = AnswerMetadata::new();
    let asking = client.with_answer_metadata(&answer);
    client.len(b"").unwrap();
    client.begin().len(b"").wait().unwrap();
    assert!(answer.take().is_empty());
    asking.len(b"").unwrap();
    assert_eq!(answer.take().get("answer"), Some(&b"at once"[..]));
    asking.begin().awaited("").wait().unwrap();
    assert_eq!(answer.take().get("answer"), Some(&b"awaited"[..]));
    let seen: Vec<_> = std::mem::take(&mut *adds.0.lock().unwrap());
    assert_eq!(seen, [&b"at once"[..], b"at once", b"at once", b"awaited"]);
}

/// Refuses the first call, and lets a client make it again.
#[derive(Default)]
struct Twice(Mutex<u32>);

impl Intercept for Twice {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        if call.caller().is_none() {
            return Before::Go;
        }
        let mut calls = self.0.lock().unwrap();
        *calls += 1;
        match *calls {
            1 => Before::Refuse(Refusal::denied("once more")),
            _ => Before::Go,
        }
    }
    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        match call.caller().is_none() && ended.ran() == Ran::No {
            true => After::Again(std::time::Duration::ZERO),
            false => After::Return,
        }
    }
}

fn a_call_that_is_made_again_carries_its_metadata_again(transport: &str) {
    let server = Server::new().interceptor(Twice::default());
    let (_server, client) = office(transport, server, &BindOptions::new().interceptor(Twice::default()));
    assert_eq!(client.with_metadata(tenant(b"blue")).awaited("tenant").unwrap(), b"blue");
}
