//! A server that is replaced again and again by one of another revision of its interface, up and back, under load of callers of both.

use crate::harness::passed_sockets;
use crate::harness::passed_sockets::{Sockets, patient};
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran, Server};

mod old {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(super) struct Entry {
        pub(super) number: u64,
        pub(super) text: String,
    }

    #[stoop::interface]
    pub(super) trait Journal {
        #[idempotent]
        fn echo(&self, entry: &Entry) -> Entry;
        /// Records the number, and returns it.
        fn record(&self, file: &str, entry: &Entry) -> u64;
    }
}

mod new {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(super) struct Entry {
        #[stoop(since = 1)]
        pub(super) tags: Vec<String>,
        pub(super) number: u64,
        pub(super) text: String,
    }

    #[stoop::interface(revision = 1)]
    pub(super) trait Journal {
        #[since(1)]
        fn count(&self) -> u64;
        #[idempotent]
        fn echo(&self, entry: &Entry) -> Entry;
        fn record(&self, file: &str, entry: &Entry) -> u64;
    }
}

struct Book;

fn write(file: &str, number: u64) -> u64 {
    let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(&number.to_le_bytes()).unwrap();
    number
}

impl old::Journal for Book {
    fn echo(&self, entry: &old::Entry) -> old::Entry {
        entry.clone()
    }
    fn record(&self, file: &str, entry: &old::Entry) -> u64 {
        write(file, entry.number)
    }
}

impl new::Journal for Book {
    fn count(&self) -> u64 {
        1
    }
    fn echo(&self, entry: &new::Entry) -> new::Entry {
        entry.clone()
    }
    fn record(&self, file: &str, entry: &new::Entry) -> u64 {
        write(file, entry.number)
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, addresses: &str) -> bool {
    let server = match role {
        "serve-old-journal" => Server::new().export(old::JournalServer::new(Book)),
        "serve-new-journal" => Server::new().export(new::JournalServer::new(Book)),
        _ => return false,
    };
    passed_sockets::serve(|| {
        addresses.split(' ').try_fold(server, |server, uri| server.listen(uri))?.start()
    });
    true
}

/// Callers, until they are told to end.
struct Load<'a> {
    old: old::JournalClient,
    new: new::JournalClient,
    file: &'a str,
    next: AtomicU64,
    made: AtomicU64,
    /// Rounds of idempotent calls that have ended.
    echoed: AtomicU64,
    ends: AtomicBool,
    /// Packets can be lost: what becomes of a call that is not idempotent may be unknown.
    is_lossy: bool,
}

impl Load<'_> {
    fn each(&self, call: impl Fn(u64)) {
        while !self.ends.load(Ordering::Relaxed) {
            call(self.next.fetch_add(1, Ordering::Relaxed));
            self.made.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn old_entry(number: u64) -> old::Entry {
        old::Entry { number, text: format!("entry {number}") }
    }

    fn new_entry(number: u64) -> new::Entry {
        new::Entry { tags: Vec::new(), number, text: format!("entry {number}") }
    }

    /// Blocking idempotent calls: none may fail.
    fn echo(&self) {
        self.each(|number| {
            let (old, new) = (Self::old_entry(number), Self::new_entry(number));
            assert_eq!(self.old.echo(&old).unwrap(), old);
            assert_eq!(self.new.echo(&new).unwrap(), new);
            self.echoed.fetch_add(1, Ordering::Relaxed);
        });
    }

    fn check(&self, number: u64, outcome: Result<u64, CallError>) {
        match outcome {
            Ok(recorded) => assert_eq!(recorded, number),
            Err(error) => assert!(error.ran() == Ran::No || self.is_lossy, "{error}"),
        }
    }

    /// Blocking and begun calls that are not idempotent: those that fail have not run.
    fn record(&self) {
        self.each(|number| {
            self.check(number, self.new.record(self.file, &Self::new_entry(number)));
        });
    }

    fn begin(&self) {
        self.each(|number| {
            let pending = self.new.begin().record(self.file, &Self::new_entry(number));
            self.check(number, pending.wait());
        });
    }

    /// Calls of what only the newer server has.
    fn count(&self) {
        self.each(|_| match self.new.count() {
            Ok(count) => assert_eq!(count, 1),
            Err(error) => assert!(error.ran() == Ran::No || self.is_lossy, "{error}"),
        });
    }
}

fn replace_under_load(options: &BindOptions, is_lossy: bool, choose: impl Fn(&Sockets) -> String) {
    let sockets = Sockets::new();
    let uri = choose(&sockets);
    let serve = |role: &str| {
        let (process, said) = sockets.serve(role, &uri);
        assert!(said.starts_with("ready"), "{said}");
        process
    };
    let mut process = serve("serve-old-journal");
    let file = sockets.path.with_extension("journal");
    fs::write(&file, "").unwrap();
    let load = Load {
        old: old::JournalClient::bind_with(&uri, options).unwrap(),
        new: new::JournalClient::bind_with(&uri, options).unwrap(),
        file: file.to_str().unwrap(),
        next: AtomicU64::new(0),
        made: AtomicU64::new(0),
        echoed: AtomicU64::new(0),
        ends: AtomicBool::new(false),
        is_lossy,
    };
    thread::scope(|scope| {
        let callers = [
            scope.spawn(|| load.echo()),
            scope.spawn(|| load.record()),
            scope.spawn(|| load.begin()),
            scope.spawn(|| load.count()),
        ];
        let go_on = || {
            let enough = load.made.load(Ordering::Relaxed) + 200;
            // An idempotent call may lose two sessions: on a busy machine the others are fast enough for it to lose more.
            let echoes = load.echoed.load(Ordering::Relaxed) + 1;
            let is_enough = || {
                load.made.load(Ordering::Relaxed) >= enough && load.echoed.load(Ordering::Relaxed) >= echoes
            };
            while !is_enough() && !callers.iter().any(|each| each.is_finished()) {
                thread::yield_now();
            }
        };
        for role in ["serve-new-journal", "serve-old-journal", "serve-new-journal", "serve-old-journal"] {
            go_on();
            let next = serve(role);
            process.end();
            process = next;
        }
        go_on();
        load.ends.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    drop((load.old, load.new));
    process.end();
    let bytes = fs::read(&file).unwrap();
    let mut ran: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    ran.sort_unstable();
    assert!(ran.is_sorted_by(|one, next| one < next), "no call has run twice");
    fs::remove_file(file).unwrap();
}

#[test]
fn a_restart_with_another_revision_fails_no_idempotent_call_over_tcp() {
    replace_under_load(&patient(), false, |sockets| sockets.uris()[0].clone());
}

#[test]
fn a_restart_with_another_revision_fails_no_idempotent_call_over_unix_sockets() {
    replace_under_load(&patient(), false, |sockets| sockets.uris()[2].clone());
}

#[test]
fn a_restart_with_another_revision_fails_no_idempotent_call_over_shared_memory() {
    replace_under_load(&patient(), false, |sockets| sockets.uris()[2].replace("unix:", "shm:"));
}

#[test]
fn a_restart_with_another_revision_fails_no_idempotent_call_over_udp() {
    let waits = patient().wait_for_server(Duration::from_secs(60));
    replace_under_load(&waits, true, |sockets| sockets.uris()[1].clone());
}
