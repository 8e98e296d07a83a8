//! Callbacks between ends of different revisions of the two interfaces.

use crate::harness::eventually;
use crate::harness::loopback;
use crate::harness::runtime::block_on;
use crate::harness::transports::{ListenThere, address};
use crate::*;
use stoop::RefusalCode;
use stoop::error::{EncodeError, SendError};
use stoop::{FailureCode, Ran};

claims! {[
    a_newer_server_tells_an_older_client_what_that_knows
    an_older_server_calls_the_object_of_a_newer_client
    a_procedure_that_gets_the_object_may_have_grown
    an_object_is_offered_again_to_a_server_of_another_revision
    an_interface_may_gain_callbacks
]}

/// Both interfaces at their first revision.
mod old {
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
    pub(crate) enum Mood {
        Calm,
    }

    #[stoop::interface]
    pub(crate) trait Watcher {
        fn show(&self, entry: &Entry) -> Entry;
        #[one_way]
        fn note(&self, entry: Entry);
        async fn mood(&self) -> Mood;
    }

    #[stoop::interface(callback = Watcher)]
    pub(crate) trait Shop {
        fn join(&self, #[callback] watcher: WatcherClient) -> Entry;
        async fn show(&self, entry: Entry, #[callback] watcher: WatcherClient) -> Entry;
    }

    pub(crate) fn entry(name: &str) -> Entry {
        Entry { name: name.into(), kind: Kind::File }
    }
}

/// Both at revision 2.
mod new {
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
        Link,
        #[stoop(otherwise)]
        Other,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) enum Mood {
        #[stoop(since = 2)]
        Wild,
        Calm,
    }

    #[stoop::interface(revision = 2)]
    pub(crate) trait Watcher {
        #[since(1)]
        fn forget(&self, name: &str) -> bool;
        fn show(&self, entry: &Entry, #[since(1)] loud: bool) -> Entry;
        #[since(2)]
        #[one_way]
        fn end(&self);
        #[one_way]
        fn note(&self, entry: Entry);
        async fn mood(&self) -> Mood;
    }

    #[stoop::interface(revision = 2, callback = Watcher)]
    pub(crate) trait Shop {
        #[since(1)]
        fn count(&self) -> u32;
        fn join(&self, #[since(2)] twice: bool, #[callback] watcher: WatcherClient) -> Entry;
        async fn show(&self, entry: Entry, #[callback] watcher: WatcherClient) -> Entry;
    }

    pub(crate) fn entry(name: &str) -> Entry {
        Entry { size: 7, name: name.into(), kind: Kind::File }
    }
}

/// What a server of each revision keeps, or the object of a client of each revision is told.
#[derive(Clone)]
struct Kept<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Kept<T> {
    fn add(&self, item: T) {
        self.0.lock().unwrap().push(item);
    }

    fn last(&self) -> Option<T> {
        self.0.lock().unwrap().last().cloned()
    }
}

impl old::Watcher for Kept<old::Entry> {
    fn show(&self, entry: &old::Entry) -> old::Entry {
        self.add(entry.clone());
        old::Entry { kind: old::Kind::Other, ..entry.clone() }
    }
    fn note(&self, entry: old::Entry) {
        self.add(entry);
    }
    async fn mood(&self) -> old::Mood {
        old::Mood::Calm
    }
}

impl new::Watcher for Kept<new::Entry> {
    fn forget(&self, _: &str) -> bool {
        self.0.lock().unwrap().pop().is_some()
    }
    fn show(&self, entry: &new::Entry, loud: bool) -> new::Entry {
        self.add(entry.clone());
        new::Entry { size: 9, kind: if loud { new::Kind::File } else { new::Kind::Link }, ..entry.clone() }
    }
    fn end(&self) {
        self.add(new::entry("end"));
    }
    fn note(&self, entry: new::Entry) {
        self.add(entry);
    }
    async fn mood(&self) -> new::Mood {
        if self.last().is_some_and(|last| last.name == "calm") { new::Mood::Calm } else { new::Mood::Wild }
    }
}

impl old::Shop for Kept<old::WatcherClient> {
    fn join(&self, watcher: old::WatcherClient) -> old::Entry {
        self.add(watcher);
        old::entry("joined")
    }
    async fn show(&self, entry: old::Entry, watcher: old::WatcherClient) -> old::Entry {
        watcher.to_async().show(&entry).await.unwrap()
    }
}

impl new::Shop for Kept<new::WatcherClient> {
    fn count(&self) -> u32 {
        self.0.lock().unwrap().len() as u32
    }
    fn join(&self, twice: bool, watcher: new::WatcherClient) -> new::Entry {
        self.add(watcher);
        new::Entry { size: u64::from(twice), ..new::entry("joined") }
    }
    async fn show(&self, entry: new::Entry, watcher: new::WatcherClient) -> new::Entry {
        watcher.to_async().show(&entry, false).await.unwrap()
    }
}

fn serve(server: Server, uri: &str) -> (RunningServer, String) {
    loopback::await_free(uri);
    let server = server.listen_there(uri).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    (server, uri)
}

fn old_server(uri: &str) -> (RunningServer, String, Kept<old::WatcherClient>) {
    let shop = Kept::default();
    let (server, uri) = serve(Server::new().export(old::ShopServer::new(shop.clone())), uri);
    (server, uri, shop)
}

fn new_server(uri: &str) -> (RunningServer, String, Kept<new::WatcherClient>) {
    let shop = Kept::default();
    let (server, uri) = serve(Server::new().export(new::ShopServer::new(shop.clone())), uri);
    (server, uri, shop)
}

fn old_client(uri: &str) -> (old::ShopClient, Kept<old::Entry>) {
    let told = Kept::default();
    let options = BindOptions::new().callback(old::WatcherServer::new(told.clone()));
    (old::ShopClient::bind_with(uri, &options).unwrap(), told)
}

fn new_client(uri: &str) -> (new::ShopClient, Kept<new::Entry>) {
    let told = Kept::default();
    let options = BindOptions::new()
        .callback(new::WatcherServer::new(told.clone()))
        .after_bind(|shop: &new::ShopClient| shop.join(false).map(|_| ()));
    (new::ShopClient::bind_with(uri, &options).unwrap(), told)
}

/// A callback that says what the other end does not know has not run, and the error names that.
#[track_caller]
fn is_inexpressible(told: Result<(), CallError>, named: &str) {
    let error = told.unwrap_err();
    let CallError::NotSent(SendError::Arguments(EncodeError::Inexpressible { item, .. }), ..) = &error else {
        panic!("{error}");
    };
    assert_eq!((*item, error.ran()), (named, Ran::No));
}

#[track_caller]
fn is_unknown(told: Result<(), CallError>) {
    let error = told.unwrap_err();
    assert!(
        matches!(&error, CallError::Refused(why, ..) if why.code == RefusalCode::UnknownProcedure),
        "{error}"
    );
    assert_eq!(error.ran(), Ran::No);
}

fn a_newer_server_tells_an_older_client_what_that_knows(transport: &str) {
    let (_server, uri, shop) = new_server(&address(transport));
    let (client, told) = old_client(&uri);
    client.join().unwrap();
    let watcher = shop.last().unwrap();

    let (plain, other) = (new::entry("a"), new::Entry { kind: new::Kind::Other, ..new::entry("a") });
    assert_eq!(watcher.show(&plain, false).unwrap(), other);
    assert_eq!(watcher.begin().show(&plain, false).wait().unwrap(), other);
    assert_eq!(block_on(watcher.to_async().show(&plain, false)).unwrap(), other);
    assert_eq!(watcher.with_metadata(Metadata::new().set("a", "b")).show(&plain, false).unwrap(), other);
    assert_eq!(watcher.mood().unwrap(), new::Mood::Calm);
    watcher.note(new::entry("noted")).unwrap();
    eventually(|| told.last() == Some(old::entry("noted")));

    let (large, link) =
        (new::Entry { size: 8, ..plain.clone() }, new::Entry { kind: new::Kind::Link, ..plain.clone() });
    for (entry, loud, named) in
        [(&large, false, "Entry.size"), (&link, false, "Kind::Link"), (&plain, true, "loud")]
    {
        is_inexpressible(watcher.show(entry, loud).map(|_| ()), named);
        is_inexpressible(watcher.begin().show(entry, loud).wait().map(|_| ()), named);
        if !loud {
            is_inexpressible(watcher.note(entry.clone()), named);
        }
    }
    is_unknown(watcher.forget("a").map(|_| ()));
    is_unknown(watcher.begin().forget("a").wait().map(|_| ()));
    is_unknown(watcher.end());
    let described = watcher.binding().describe();
    assert!(
        described.contains("the client is older: it has no `forget`, `show` as at revision 0"),
        "{described}"
    );
}

fn an_older_server_calls_the_object_of_a_newer_client(transport: &str) {
    let (_server, uri, shop) = old_server(&address(transport));
    let (client, told) = new_client(&uri);
    let watcher = shop.last().unwrap();
    let described = client.binding().describe();
    assert!(described.contains("`callback` as at revision 0"), "{described}");

    let (plain, other) = (old::entry("a"), old::Entry { kind: old::Kind::Other, ..old::entry("a") });
    assert_eq!(watcher.show(&plain).unwrap(), other);
    assert_eq!(told.last(), Some(new::entry("a")));
    assert_eq!(watcher.begin().show(&plain).wait().unwrap(), other);
    assert_eq!(watcher.with_metadata(Metadata::new().set("a", "b")).show(&plain).unwrap(), other);
    let error = watcher.mood().unwrap_err();
    let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
    assert_eq!((failure.code, error.ran()), (FailureCode::Inexpressible, Ran::Yes));
    watcher.note(old::entry("calm")).unwrap();
    eventually(|| told.last() == Some(new::entry("calm")));
    assert_eq!(watcher.mood().unwrap(), old::Mood::Calm);
    assert!(!watcher.binding().describe().contains("older"));
}

fn a_procedure_that_gets_the_object_may_have_grown(transport: &str) {
    let (_older, uri, _) = old_server(&address(transport));
    let (client, _) = new_client(&uri);
    assert_eq!(client.join(false).unwrap(), new::entry("joined"));
    is_inexpressible(client.join(true).map(|_| ()), "twice");
    is_inexpressible(client.begin().join(true).wait().map(|_| ()), "twice");
    assert_eq!(client.show(new::entry("a")).unwrap().kind, new::Kind::Other);

    let (_newer, uri, _) = new_server(&address(transport));
    let (client, _) = old_client(&uri);
    assert_eq!(client.join().unwrap(), old::entry("joined"));
    assert_eq!(client.show(old::entry("a")).unwrap().kind, old::Kind::Other);
    let (client, _) = new_client(&uri);
    assert_eq!(client.join(true).unwrap().size, 1);
    assert_eq!(client.show(new::entry("a")).unwrap().kind, new::Kind::Link);
}

fn an_object_is_offered_again_to_a_server_of_another_revision(transport: &str) {
    let (older, uri, shop) = old_server(&address(transport));
    let (client, told) = new_client(&uri);
    shop.last().unwrap().show(&old::entry("before")).unwrap();
    assert_eq!(told.last(), Some(new::entry("before")));
    older.shut_down();
    drop(older);

    let (newer, _, shop) = new_server(&uri);
    eventually(|| {
        shop.last().is_some_and(|watcher| watcher.forget("before").is_ok_and(|was_there| was_there))
    });
    let large = new::Entry { size: 8, ..new::entry("after") };
    assert_eq!(shop.last().unwrap().show(&large, true).unwrap().size, 9);
    newer.shut_down();
    drop(newer);

    let (_older, _, shop) = old_server(&uri);
    eventually(|| shop.last().is_some_and(|watcher| watcher.show(&old::entry("again")).is_ok()));
    assert_eq!(told.last(), Some(new::entry("again")));
    assert!(client.binding().describe().contains("the server is older"));
}

/// The shop before callers could offer objects, and after.
mod gaining {
    pub(crate) mod before {
        #[stoop::interface]
        pub(crate) trait Stall {
            fn number(&self) -> u32;
        }
    }

    #[stoop::interface(revision = 2, callback = Watcher)]
    pub(crate) trait Stall {
        #[since(2)]
        fn join(&self, #[callback] watcher: WatcherClient) -> bool;
        fn number(&self) -> u32;
    }

    use super::new::WatcherClient;
}

struct Stall;

impl gaining::before::Stall for Stall {
    fn number(&self) -> u32 {
        0
    }
}

impl gaining::Stall for Stall {
    fn join(&self, watcher: new::WatcherClient) -> bool {
        watcher.forget("").unwrap()
    }
    fn number(&self) -> u32 {
        1
    }
}

fn an_interface_may_gain_callbacks(transport: &str) {
    let options = || BindOptions::new().callback(new::WatcherServer::new(Kept::default()));
    let (_older, uri) =
        serve(Server::new().export(gaining::before::StallServer::new(Stall)), &address(transport));
    let client = gaining::StallClient::bind(&uri).unwrap();
    assert_eq!(client.number().unwrap(), 0);
    is_unknown(client.join().map(|_| ()));
    let error = gaining::StallClient::bind_with(&uri, &options()).unwrap_err().to_string();
    assert!(error.contains("another revision") || error.contains("no such procedure"), "{error}");

    let (_newer, uri) = serve(Server::new().export(gaining::StallServer::new(Stall)), &address(transport));
    assert_eq!(gaining::before::StallClient::bind(&uri).unwrap().number().unwrap(), 1);
    assert!(!gaining::StallClient::bind_with(&uri, &options()).unwrap().join().unwrap());
}
