//! Four revisions of one interface, as four programs would have them.

use crate::harness::runtime::block_on;
use crate::harness::transports::ListenThere;
use stoop::{BindOptions, CallError, RunningServer, Server};

/// An entry with all that any revision knows of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Full {
    pub(super) name: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) owner: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    File,
    Link { to: String },
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mood {
    Calm,
    Wild,
}

impl Full {
    /// With the defaults of all that came later.
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), mode: 0o644, content: vec![1, 2, 3], kind: Kind::File, owner: None }
    }

    /// An entry with other values in all that a revision knows.
    pub(super) fn preset(revision: u32) -> Self {
        let full = Self { mode: 0o600, owner: Some("root".into()), ..Self::new("preset") };
        Self { kind: Kind::Link { to: "there".into() }, ..full }.known_at(revision)
    }

    /// What a program of a revision can have in it.
    fn known_at(self, revision: u32) -> Self {
        let plain = Self::new(&self.name);
        Self {
            mode: if revision >= 1 { self.mode } else { plain.mode },
            kind: if revision >= 2 { self.kind } else { plain.kind },
            owner: if revision >= 3 { self.owner } else { plain.owner },
            ..self
        }
    }

    /// What arrives of it at a caller when both ends know the types as at that revision.
    pub(super) fn at_revision(self, revision: u32) -> Self {
        let is_link = matches!(self.kind, Kind::Link { .. });
        let known = self.known_at(revision);
        if is_link && revision < 2 { Self { kind: Kind::Other, ..known } } else { known }
    }
}

/// A client of some revision.
pub(super) trait Store {
    fn get(&self, name: &str) -> Result<Option<Full>, CallError>;
    fn begun_get(&self, name: &str) -> Result<Option<Full>, CallError>;
    fn async_get(&self, name: &str) -> Result<Option<Full>, CallError>;
    fn all(&self) -> Result<Vec<Full>, CallError>;
    fn put(&self, full: &Full, overwrite: bool) -> Result<u32, CallError>;
    fn begun_put(&self, full: &Full) -> Result<u32, CallError>;
    fn note(&self, full: &Full) -> Result<(), CallError>;
    fn mood(&self, wild: bool) -> Result<Mood, CallError>;
    fn begun_mood(&self, wild: bool) -> Result<Mood, CallError>;
    fn later_mood(&self, wild: bool) -> Result<Mood, CallError>;
    fn remove(&self, name: &str) -> Result<bool, CallError>;
}

/// A revision of the interface.
pub(super) struct Version {
    pub(super) revision: u32,
    pub(super) serve: fn(&str) -> RunningServer,
    pub(super) bind: fn(&str, &BindOptions) -> Box<dyn Store>,
}

pub(super) fn all() -> [Version; 4] {
    [v0::VERSION, v1::VERSION, v2::VERSION, v3::VERSION]
}

/// A program with the interface at a revision. In parentheses what differs between the revisions: parameters and arguments of `put`, and
/// procedures.
macro_rules! version {
    (
        $module:ident $revision:literal { $($items:tt)* }
        put($($parameter:tt)*) ($($passed:expr),*) ($added:expr)
        { $($more_served:tt)* }
        |$full:ident, $own:ident| ($to_kind:expr) ($from_kind:expr) ($to_entry:expr) ($from_entry:expr)
        |$wild:ident| ($own_mood:expr) ($from_mood:expr)
        |$client:ident, $name:ident, $overwrite:ident| ($put:expr) ($removed:expr)
    ) => {
        pub(super) mod $module {
            use super::*;
            use std::sync::Mutex;

            $($items)*

            struct Shelf(Mutex<Vec<Entry>>);

            impl Shelf {
                fn add(&self, entry: Entry) {
                    let mut all = self.0.lock().unwrap();
                    all.retain(|other| other.name != entry.name);
                    all.push(entry);
                }

                fn own_mood(&self, $wild: bool) -> Mood { $own_mood }
            }

            impl Growing for Shelf {
                fn get(&self, name: &str) -> Option<Entry> {
                    self.0.lock().unwrap().iter().find(|entry| entry.name == name).cloned()
                }
                fn all(&self) -> Vec<Entry> { self.0.lock().unwrap().clone() }
                fn put(&self, entry: &Entry, $($parameter)*) -> u32 {
                    self.add(entry.clone());
                    entry.name.len() as u32 + $added
                }
                fn note(&self, entry: Entry) { self.add(entry); }
                fn mood(&self, wild: bool) -> Mood { self.own_mood(wild) }
                fn later_mood(&self, wild: bool) -> stoop::Deferred<Mood> {
                    let (reply, deferred) = stoop::deferred();
                    let mood = self.own_mood(wild);
                    std::thread::spawn(move || reply.send(mood));
                    deferred
                }
                fn ping(&self, number: u32) -> u32 { number }
                $($more_served)*
            }

            fn to_kind($full: super::Kind) -> Kind { $to_kind }
            fn from_kind($own: Kind) -> super::Kind { $from_kind }
            pub(crate) fn to_entry($full: Full) -> Entry { $to_entry }
            pub(crate) fn from_entry($own: Entry) -> Full { $from_entry }
            fn from_mood($own: Mood) -> super::Mood { $from_mood }

            impl Store for GrowingClient {
                fn get(&self, name: &str) -> Result<Option<Full>, CallError> {
                    Ok(GrowingClient::get(self, name)?.map(from_entry))
                }
                fn begun_get(&self, name: &str) -> Result<Option<Full>, CallError> {
                    Ok(self.begin().get(name).wait()?.map(from_entry))
                }
                fn async_get(&self, name: &str) -> Result<Option<Full>, CallError> {
                    Ok(block_on(self.to_async().get(name))?.map(from_entry))
                }
                fn all(&self) -> Result<Vec<Full>, CallError> {
                    Ok(GrowingClient::all(self)?.into_iter().map(from_entry).collect())
                }
                fn put(&self, full: &Full, $overwrite: bool) -> Result<u32, CallError> {
                    let _ = $overwrite;
                    let (entry, $client) = (&to_entry(full.clone()), self);
                    let put: fn(&GrowingClient, &Entry, bool) -> Result<u32, CallError> = $put;
                    put($client, entry, $overwrite)
                }
                fn begun_put(&self, full: &Full) -> Result<u32, CallError> {
                    self.begin().put(&to_entry(full.clone()), $($passed),*).wait()
                }
                fn note(&self, full: &Full) -> Result<(), CallError> {
                    GrowingClient::note(self, to_entry(full.clone()))
                }
                fn mood(&self, wild: bool) -> Result<super::Mood, CallError> {
                    GrowingClient::mood(self, wild).map(from_mood)
                }
                fn begun_mood(&self, wild: bool) -> Result<super::Mood, CallError> {
                    self.begin().mood(wild).wait().map(from_mood)
                }
                fn later_mood(&self, wild: bool) -> Result<super::Mood, CallError> {
                    GrowingClient::later_mood(self, wild).map(from_mood)
                }
                fn remove(&self, $name: &str) -> Result<bool, CallError> {
                    let removed: fn(&GrowingClient, &str) -> Result<bool, CallError> = $removed;
                    removed(self, $name)
                }
            }

            fn serve(uri: &str) -> RunningServer {
                let shelf = Shelf(Mutex::new(vec![to_entry(Full::preset($revision))]));
                let server = Server::new().export(GrowingServer::new(shelf)).listen_there(uri).unwrap();
                server.start().unwrap()
            }

            fn bind(uri: &str, options: &BindOptions) -> Box<dyn Store> {
                Box::new(GrowingClient::bind_with(uri, options).unwrap())
            }

            pub(crate) const VERSION: Version = Version { revision: $revision, serve, bind };
        }
    };
}

version! {
    v0 0 {
        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) struct Entry { pub name: String, pub content: Vec<u8>, pub kind: Kind }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Kind { File, Other }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Mood { Calm }

        #[stoop::interface]
        pub(crate) trait Growing {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[idempotent]
        fn all(&self) -> Vec<Entry>;
        #[idempotent]
        fn put(&self, entry: &Entry) -> u32;
        #[one_way]
        fn note(&self, entry: Entry);
        fn mood(&self, wild: bool) -> Mood;
        fn later_mood(&self, wild: bool) -> stoop::Deferred<Mood>;
        fn ping(&self, number: u32) -> u32;
        }
    }
    put() () (0)
    {  }
    |full, own|
        (match full { super::Kind::File => Kind::File, super::Kind::Other => Kind::Other, _ => unreachable!() })
        (match own { Kind::File => super::Kind::File, Kind::Other => super::Kind::Other })
        (Entry { name: full.name, content: full.content, kind: to_kind(full.kind) })
        (Full { content: own.content, kind: from_kind(own.kind), ..Full::new(&own.name) })
    |wild| ({ let _ = wild; Mood::Calm }) (match own { Mood::Calm => super::Mood::Calm })
    |client, name, overwrite|
        (|client, entry, _| client.put(entry))
        (|_, _| unreachable!())
}

version! {
    v1 1 {
        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) struct Entry { pub name: String,
        #[stoop(since = 1, default = 0o644)]
        pub mode: u32,
        pub content: Vec<u8>,
        pub kind: Kind }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Kind { File, #[stoop(otherwise)] Other }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Mood { Calm }

        #[stoop::interface(revision = 1)]
        pub(crate) trait Growing {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[idempotent]
        fn all(&self) -> Vec<Entry>;
        #[idempotent]
        fn put(&self, entry: &Entry) -> u32;
        #[one_way]
        fn note(&self, entry: Entry);
        fn mood(&self, wild: bool) -> Mood;
        fn later_mood(&self, wild: bool) -> stoop::Deferred<Mood>;
        fn ping(&self, number: u32) -> u32;
        #[since(1)] fn remove(&self, name: &str) -> bool;
        }
    }
    put() () (0)
    { fn remove(&self, name: &str) -> bool { self.get(name).is_some() } }
    |full, own|
        (match full { super::Kind::File => Kind::File, super::Kind::Other => Kind::Other, _ => unreachable!() })
        (match own { Kind::File => super::Kind::File, Kind::Other => super::Kind::Other })
        (Entry { name: full.name, mode: full.mode, content: full.content, kind: to_kind(full.kind) })
        (Full { mode: own.mode, content: own.content, kind: from_kind(own.kind), ..Full::new(&own.name) })
    |wild| ({ let _ = wild; Mood::Calm }) (match own { Mood::Calm => super::Mood::Calm })
    |client, name, overwrite|
        (|client, entry, _| client.put(entry))
        (|client, name| client.remove(name))
}

version! {
    v2 2 {
        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) struct Entry { pub name: String,
        #[stoop(since = 1, default = 0o644)]
        pub mode: u32,
        pub content: Vec<u8>,
        pub kind: Kind }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Kind { File, #[stoop(since = 2)] Link { to: String }, #[stoop(otherwise)] Other }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Mood { Calm }

        #[stoop::interface(revision = 2)]
        pub(crate) trait Growing {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[idempotent]
        fn all(&self) -> Vec<Entry>;
        #[idempotent]
        fn put(&self, entry: &Entry, #[since(2)] overwrite: bool) -> u32;
        #[one_way]
        fn note(&self, entry: Entry);
        fn mood(&self, wild: bool) -> Mood;
        fn later_mood(&self, wild: bool) -> stoop::Deferred<Mood>;
        fn ping(&self, number: u32) -> u32;
        #[since(1)] fn remove(&self, name: &str) -> bool;
        }
    }
    put(overwrite: bool) (false) (100 * u32::from(overwrite))
    { fn remove(&self, name: &str) -> bool { self.get(name).is_some() } }
    |full, own|
        (match full {
            super::Kind::File => Kind::File,
            super::Kind::Link { to } => Kind::Link { to },
            super::Kind::Other => Kind::Other,
        })
        (match own {
            Kind::File => super::Kind::File,
            Kind::Link { to } => super::Kind::Link { to },
            Kind::Other => super::Kind::Other,
        })
        (Entry { name: full.name, mode: full.mode, content: full.content, kind: to_kind(full.kind) })
        (Full { mode: own.mode, content: own.content, kind: from_kind(own.kind), ..Full::new(&own.name) })
    |wild| ({ let _ = wild; Mood::Calm }) (match own { Mood::Calm => super::Mood::Calm })
    |client, name, overwrite|
        (|client, entry, overwrite| client.put(entry, overwrite))
        (|client, name| client.remove(name))
}

version! {
    v3 3 {
        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) struct Entry { #[stoop(since = 3)]
        pub owner: Option<String>,
        pub name: String,
        #[stoop(since = 1, default = 0o644)]
        pub mode: u32,
        pub content: Vec<u8>,
        pub kind: Kind }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Kind { File, #[stoop(since = 2)] Link { to: String }, #[stoop(otherwise)] Other }

        #[derive(Clone, Debug, PartialEq, stoop::Data)]
        pub(crate) enum Mood { Calm, #[stoop(since = 3)] Wild }

        #[stoop::interface(revision = 3)]
        pub(crate) trait Growing {
        #[idempotent]
        fn get(&self, name: &str) -> Option<Entry>;
        #[idempotent]
        fn all(&self) -> Vec<Entry>;
        #[idempotent]
        fn put(&self, entry: &Entry, #[since(2)] overwrite: bool) -> u32;
        #[one_way]
        fn note(&self, entry: Entry);
        fn mood(&self, wild: bool) -> Mood;
        fn later_mood(&self, wild: bool) -> stoop::Deferred<Mood>;
        fn ping(&self, number: u32) -> u32;
        #[since(1)] fn remove(&self, name: &str) -> bool;
        }
    }
    put(overwrite: bool) (false) (100 * u32::from(overwrite))
    { fn remove(&self, name: &str) -> bool { self.get(name).is_some() } }
    |full, own|
        (match full {
            super::Kind::File => Kind::File,
            super::Kind::Link { to } => Kind::Link { to },
            super::Kind::Other => Kind::Other,
        })
        (match own {
            Kind::File => super::Kind::File,
            Kind::Link { to } => super::Kind::Link { to },
            Kind::Other => super::Kind::Other,
        })
        (Entry {
            owner: full.owner,
            name: full.name,
            mode: full.mode,
            content: full.content,
            kind: to_kind(full.kind),
        })
        (Full {
            owner: own.owner,
            mode: own.mode,
            content: own.content,
            kind: from_kind(own.kind),
            ..Full::new(&own.name)
        })
    |wild| (if wild { Mood::Wild } else { Mood::Calm })
        (match own { Mood::Calm => super::Mood::Calm, Mood::Wild => super::Mood::Wild })
    |client, name, overwrite|
        (|client, entry, overwrite| client.put(entry, overwrite))
        (|client, name| client.remove(name))
}
