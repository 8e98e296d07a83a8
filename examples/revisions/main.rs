//! An interface that grows over three revisions: programs of each call each other, as `docs/evolution.md` says.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;
use stoop::error::SendError;
use stoop::{CallError, Ran, RunningServer, Server};

/// The interface as it was at first.
mod first {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub name: String,
        pub content: Vec<u8>,
    }

    #[stoop::interface]
    pub trait Store {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        fn put(&self, entry: &Entry);
    }
}

/// A field and a procedure have been added.
mod second {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub name: String,
        #[stoop(since = 1, default = 0o644)]
        pub mode: u32,
        pub content: Vec<u8>,
    }

    #[stoop::interface(revision = 1)]
    pub trait Store {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[since(1)]
        fn remove(&self, name: &str) -> bool;
        fn put(&self, entry: &Entry);
    }
}

/// A kind of entries and a parameter have been added.
mod third {
    #[derive(Clone, Debug, Default, PartialEq, stoop::Data)]
    pub(crate) enum Kind {
        #[default]
        File,
        #[stoop(otherwise)]
        Other,
    }

    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub name: String,
        #[stoop(since = 1, default = 0o644)]
        pub mode: u32,
        #[stoop(since = 2)]
        pub kind: Kind,
        pub content: Vec<u8>,
    }

    #[stoop::interface(revision = 2)]
    pub trait Store {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[since(1)]
        fn remove(&self, name: &str) -> bool;
        fn put(&self, entry: &Entry, #[since(2)] overwrite: bool);
    }
}

struct Shelf<E>(Mutex<BTreeMap<String, E>>);

impl<E: Clone> Shelf<E> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, name: &str) -> Option<E> {
        self.0.lock().unwrap().get(name).cloned()
    }
}

impl first::Store for Shelf<first::Entry> {
    fn get(&self, name: &str) -> Option<first::Entry> {
        self.get(name)
    }
    fn put(&self, entry: &first::Entry) {
        self.0.lock().unwrap().insert(entry.name.clone(), entry.clone());
    }
}

impl third::Store for Shelf<third::Entry> {
    fn get(&self, name: &str) -> Option<third::Entry> {
        self.get(name)
    }
    fn remove(&self, name: &str) -> bool {
        self.0.lock().unwrap().remove(name).is_some()
    }
    fn put(&self, entry: &third::Entry, overwrite: bool) {
        let mut all = self.0.lock().unwrap();
        if overwrite || !all.contains_key(&entry.name) {
            all.insert(entry.name.clone(), entry.clone());
        }
    }
}

fn serve(server: Server) -> Result<RunningServer, Box<dyn Error>> {
    Ok(server.listen("udp://127.0.0.1:0")?.start()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    // Callers of all revisions at a server of the third.
    let newest = serve(Server::new().export(third::StoreServer::new(Shelf::<third::Entry>::new())))?;
    let uri = &newest.uris()[0];
    let oldest_client = first::StoreClient::bind(uri)?;
    oldest_client.put(&first::Entry { name: "a".into(), content: b"one".to_vec() })?;
    let newest_client = third::StoreClient::bind(uri)?;
    let seen = newest_client.get("a")?.expect("it has just been put");
    println!("the newest sees what the oldest has put: {seen:?}");
    assert_eq!((seen.mode, seen.kind), (0o644, third::Kind::File));

    let second_client = second::StoreClient::bind(uri)?;
    second_client.put(&second::Entry { name: "b".into(), mode: 0o600, content: b"two".to_vec() })?;
    let seen = oldest_client.get("b")?;
    println!("the oldest sees what the second has put: {seen:?}");
    assert!(second_client.remove("b")?);

    // A client of the third revision at a server of the first.
    let oldest = serve(Server::new().export(first::StoreServer::new(Shelf::<first::Entry>::new())))?;
    let client = third::StoreClient::bind(&oldest.uris()[0])?;
    let entry =
        third::Entry { name: "c".into(), mode: 0o644, kind: third::Kind::File, content: b"three".to_vec() };
    client.put(&entry, false)?;
    assert_eq!(client.get("c")?.as_ref(), Some(&entry));

    let error = client.put(&third::Entry { mode: 0o600, ..entry }, false).unwrap_err();
    println!("{error}");
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_), ..)));
    let error = client.remove("c").unwrap_err();
    println!("{error}");
    assert_eq!(error.ran(), Ran::No);
    Ok(())
}
