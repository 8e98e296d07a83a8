//! Pipes between ends of different revisions of an interface.

use super::*;
use crate::harness::runtime::block_on;
use stoop::error::EncodeError;
use stoop::{CallError, FailureCode, PipeError, Ran};

claims! { [
    an_older_caller_is_sent_items_as_it_knows_them
    an_older_caller_sends_items_to_a_newer_procedure
    a_newer_caller_sends_an_older_server_what_that_knows
    a_newer_caller_gets_defaults_from_an_older_server
    an_item_that_an_older_caller_cannot_be_told_ends_its_call
] }

/// The interface at its first revision.
mod old {
    use stoop::{Deferred, Receiver, Sender};

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub name: String,
        pub kind: Kind,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) enum Kind {
        File,
        Other,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) enum Event {
        Added(Entry),
    }

    #[stoop::interface]
    pub(crate) trait Shelf {
        /// Sends all entries.
        fn list(&self, entries: Sender<Entry>) -> Entry;
        /// Takes entries; the last of them.
        fn put(&self, entries: Receiver<Entry>) -> Option<Entry>;
        /// Gives back what it is given.
        async fn echo(&self, entries: Receiver<Entry>, back: Sender<Entry>) -> Option<Entry>;
        /// Sends events, in a thread of its own, in a task, and from elsewhere.
        fn events(&self, all: Sender<Event>) -> u32;
        async fn events_of_a_task(&self, all: Sender<Event>) -> u32;
        fn events_from_elsewhere(&self, all: Sender<Event>) -> Deferred<u32>;
    }
}

/// The interface at revision 2.
mod new {
    use stoop::{Deferred, Receiver, Sender};

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        #[stoop(since = 1, default = 7)]
        pub size: u64,
        pub name: String,
        pub kind: Kind,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) enum Kind {
        File,
        #[stoop(since = 2)]
        Link {
            to: String,
        },
        #[stoop(otherwise)]
        Other,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) enum Event {
        Added(Entry),
        #[stoop(since = 2)]
        Removed(String),
    }

    #[stoop::interface(revision = 2)]
    pub(crate) trait Shelf {
        /// Sends all entries.
        fn list(&self, entries: Sender<Entry>) -> Entry;
        /// Takes entries; the last of them.
        fn put(&self, entries: Receiver<Entry>, #[since(1)] reversed: bool) -> Option<Entry>;
        /// Gives back what it is given.
        async fn echo(&self, entries: Receiver<Entry>, back: Sender<Entry>) -> Option<Entry>;
        /// Sends events, in a thread of its own, in a task, and from elsewhere.
        fn events(&self, all: Sender<Event>) -> u32;
        async fn events_of_a_task(&self, all: Sender<Event>) -> u32;
        fn events_from_elsewhere(&self, all: Sender<Event>) -> Deferred<u32>;
    }

    pub(crate) fn entry(name: &str) -> Entry {
        Entry { size: 7, name: name.into(), kind: Kind::File }
    }
}

fn old_entry(name: &str) -> old::Entry {
    old::Entry { name: name.into(), kind: old::Kind::File }
}

/// Gives back the entries, and the last of them as the result.
macro_rules! echo {
    ($entries:ident, $back:ident) => {{
        let mut last = None;
        while let Ok(Some(entry)) = $entries.next().await {
            $back.send_async(&entry).await.unwrap();
            last = Some(entry);
        }
        last
    }};
}

struct OldShelf;

impl old::Shelf for OldShelf {
    fn list(&self, entries: Sender<old::Entry>) -> old::Entry {
        entries.send(&old_entry("one")).unwrap();
        entries.send(&old::Entry { kind: old::Kind::Other, ..old_entry("two") }).unwrap();
        old_entry("result")
    }
    fn put(&self, entries: Receiver<old::Entry>) -> Option<old::Entry> {
        entries.map(Result::unwrap).last()
    }
    async fn echo(&self, mut entries: Receiver<old::Entry>, back: Sender<old::Entry>) -> Option<old::Entry> {
        echo!(entries, back)
    }
    fn events(&self, all: Sender<old::Event>) -> u32 {
        all.send(&old::Event::Added(old_entry("one"))).unwrap();
        1
    }
    async fn events_of_a_task(&self, all: Sender<old::Event>) -> u32 {
        self.events(all)
    }
    fn events_from_elsewhere(&self, all: Sender<old::Event>) -> Deferred<u32> {
        let (reply, deferred) = stoop::deferred();
        reply.send(self.events(all)).unwrap();
        deferred
    }
}

/// It notes why an event could not be sent.
#[derive(Clone, Default)]
struct NewShelf(Arc<Mutex<Vec<PipeError>>>);

impl NewShelf {
    fn send_events(&self, all: &Sender<new::Event>) -> u32 {
        all.send(&new::Event::Added(new::entry("one"))).unwrap();
        if let Err(why) = all.send(&new::Event::Removed("one".into())) {
            self.0.lock().unwrap().push(why);
        }
        2
    }
}

impl new::Shelf for NewShelf {
    fn list(&self, entries: Sender<new::Entry>) -> new::Entry {
        entries.send(&new::Entry { size: 9, ..new::entry("one") }).unwrap();
        entries.send(&new::Entry { kind: new::Kind::Link { to: "x".into() }, ..new::entry("two") }).unwrap();
        new::Entry { size: 8, ..new::entry("result") }
    }
    fn put(&self, entries: Receiver<new::Entry>, reversed: bool) -> Option<new::Entry> {
        let mut entries = entries.map(Result::unwrap);
        if reversed { entries.next() } else { entries.last() }
    }
    async fn echo(&self, mut entries: Receiver<new::Entry>, back: Sender<new::Entry>) -> Option<new::Entry> {
        echo!(entries, back)
    }
    fn events(&self, all: Sender<new::Event>) -> u32 {
        self.send_events(&all)
    }
    async fn events_of_a_task(&self, all: Sender<new::Event>) -> u32 {
        self.send_events(&all)
    }
    fn events_from_elsewhere(&self, all: Sender<new::Event>) -> Deferred<u32> {
        let ((reply, deferred), shelf) = (stoop::deferred(), self.clone());
        std::thread::spawn(move || {
            let sent = shelf.send_events(&all);
            // The call of an older caller has ended.
            let _ = reply.send(sent);
        });
        deferred
    }
}

fn old_server(transport: &str) -> RunningServer {
    let server = Server::new().export(old::ShelfServer::new(OldShelf));
    server.listen_there(&address(transport)).unwrap().start().unwrap()
}

fn new_server(transport: &str) -> (RunningServer, NewShelf) {
    let shelf = NewShelf::default();
    let server = Server::new().export(new::ShelfServer::new(shelf.clone()));
    (server.listen_there(&address(transport)).unwrap().start().unwrap(), shelf)
}

fn all<T, E: std::fmt::Debug>(items: impl Iterator<Item = Result<T, E>>) -> Vec<T> {
    items.map(Result::unwrap).collect()
}

fn an_older_caller_is_sent_items_as_it_knows_them(transport: &str) {
    let (server, _) = new_server(transport);
    let client = old::ShelfClient::bind(&server.uris()[0]).unwrap();
    for _ in 0..2 {
        let (call, entries) = client.list();
        let two = old::Entry { kind: old::Kind::Other, ..old_entry("two") };
        assert_eq!(all(entries), [old_entry("one"), two]);
        assert_eq!(call.wait().unwrap(), old_entry("result"));
    }
}

fn an_older_caller_sends_items_to_a_newer_procedure(transport: &str) {
    let (server, _) = new_server(transport);
    let client = old::ShelfClient::bind(&server.uris()[0]).unwrap();
    let (call, entries) = client.put();
    entries.send_all([old_entry("one"), old_entry("two")]).unwrap();
    entries.finish();
    assert_eq!(call.wait().unwrap(), Some(old_entry("two")));
    let (call, entries, back) = client.echo();
    let sent: Vec<_> = (0..1000).map(|number| old_entry(&number.to_string())).collect();
    assert_eq!(all(back.fed_by(entries, &sent)), sent);
    assert_eq!(call.wait().unwrap(), sent.last().cloned());
}

fn a_newer_caller_sends_an_older_server_what_that_knows(transport: &str) {
    let server = old_server(transport);
    let client = new::ShelfClient::bind(&server.uris()[0]).unwrap();
    let (call, entries) = client.put(false);
    entries.send(&new::entry("one")).unwrap();
    for (item, named) in [
        (new::Entry { size: 9, ..new::entry("large") }, ("Entry.size", 1)),
        (new::Entry { kind: new::Kind::Link { to: "x".into() }, ..new::entry("link") }, ("Kind::Link", 2)),
    ] {
        let Err(PipeError::Encode(EncodeError::Inexpressible { item, since })) = entries.send(&item) else {
            panic!("{item:?} was sent");
        };
        assert_eq!((item, since), named);
        // It says something of one item.
        entries.send(&new::entry("two")).unwrap();
    }
    assert!(matches!(
        entries.try_send(&new::Entry { size: 9, ..new::entry("large") }),
        Err(PipeError::Encode(EncodeError::Inexpressible { .. }))
    ));
    entries.finish();
    assert_eq!(call.wait().unwrap(), Some(new::entry("two")));

    // A parameter that the server does not know.
    let (call, entries) = client.put(true);
    let why = call.wait().unwrap_err();
    assert!(matches!(why, CallError::NotSent(..)) && why.ran() == Ran::No, "{why}");
    assert!(matches!(entries.send(&new::entry("one")), Err(PipeError::Lost(_))));
}

fn a_newer_caller_gets_defaults_from_an_older_server(transport: &str) {
    let server = old_server(transport);
    let client = new::ShelfClient::bind(&server.uris()[0]).unwrap();
    let (call, entries) = client.list();
    let two = new::Entry { kind: new::Kind::Other, ..new::entry("two") };
    assert_eq!(all(entries), [new::entry("one"), two]);
    assert_eq!(call.wait().unwrap(), new::entry("result"));
    let client = client.to_async();
    block_on(async {
        let (call, entries, mut back) = client.echo();
        for name in ["a", "b"] {
            entries.send_async(&new::entry(name)).await.unwrap();
            assert_eq!(back.next().await.unwrap(), Some(new::entry(name)));
        }
        entries.finish();
        assert_eq!(back.next().await.unwrap(), None);
        assert_eq!(call.await.unwrap(), Some(new::entry("b")));
    });
    for (call, events) in [client.events(), client.events_of_a_task(), client.events_from_elsewhere()] {
        assert_eq!(all(events), [new::Event::Added(new::entry("one"))]);
        assert_eq!(call.wait().unwrap(), 1);
    }
}

fn an_item_that_an_older_caller_cannot_be_told_ends_its_call(transport: &str) {
    let (server, shelf) = new_server(transport);
    let older = old::ShelfClient::bind(&server.uris()[0]).unwrap();
    for (call, mut events) in [older.events(), older.events_of_a_task(), older.events_from_elsewhere()] {
        assert_eq!(events.recv().unwrap(), Some(old::Event::Added(old_entry("one"))));
        assert!(events.recv().is_err(), "a pipe that lacks an item has not ended");
        let error = call.wait().unwrap_err();
        let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
        assert_eq!((failure.code, error.ran()), (FailureCode::Inexpressible, Ran::Yes));
        assert!(failure.detail.contains("`Event::Removed`"), "{error}");
        eventually(|| !shelf.0.lock().unwrap().is_empty());
        let why = shelf.0.lock().unwrap().pop().expect("the procedure has been told, too");
        let PipeError::Encode(EncodeError::Inexpressible { item, since }) = why else { panic!("{why}") };
        assert_eq!((item, since), ("Event::Removed", 2));
    }
    // A caller of the same revision is told all of it.
    let newer = new::ShelfClient::bind(&server.uris()[0]).unwrap();
    for (call, events) in [newer.events(), newer.events_of_a_task(), newer.events_from_elsewhere()] {
        assert_eq!(all(events), [new::Event::Added(new::entry("one")), new::Event::Removed("one".into())]);
        assert_eq!(call.wait().unwrap(), 2);
    }
}

#[test]
fn a_vector_is_no_slice_as_an_item() {
    mod slices {
        #[stoop::interface]
        pub(crate) trait Bytes {
            fn put(&self, parts: stoop::Receiver<[u8]>);
        }
    }
    mod vectors {
        #[stoop::interface]
        pub(crate) trait Bytes {
            fn put(&self, parts: stoop::Receiver<Vec<u8>>);
        }
    }
    struct Nothing;
    impl slices::Bytes for Nothing {
        fn put(&self, _: Receiver<[u8]>) {}
    }
    let server = Server::new().export(slices::BytesServer::new(Nothing)).listen("tcp://127.0.0.1:0").unwrap();
    let server = server.start().unwrap();
    slices::BytesClient::bind(&server.uris()[0]).unwrap();
    let why = vectors::BytesClient::bind(&server.uris()[0]).map(drop).unwrap_err();
    assert!(matches!(why, stoop::BindError::Mismatch { .. }), "{why}");
}
