//! The same trait over Stoop's protocol and over Sun RPC: one implementation, one client type.

#![cfg(feature = "onc")]

use crate::harness::eventually;
use crate::harness::gate::Gate;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::error::SendError;
use stoop::onc::{Client, ClientOptions, ConnectionLimits, Credential, ReplyCacheLimits};
use stoop::{BindError, BindOptions, CallError, Error, Ran, RunningServer, Server, wait_all};

#[derive(Clone, Debug, Default, PartialEq, stoop::Data, stoop::Xdr)]
struct Entry {
    #[xdr(max = 255)]
    name: String,
    content: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, stoop::Data, stoop::Xdr)]
enum Refused {
    Missing { name: String },
    Full,
}

#[stoop::interface(program = 0x2000_0077, version = 3)]
trait Store {
    fn put(&self, entry: &Entry) -> Result<u32, Refused>;
    fn get(&self, name: &str) -> Result<Entry, Refused>;
    /// Turns the bytes round, and says how many there are.
    #[idempotent]
    fn turn(&self, data: &mut [u8], #[out] count: &mut u32) -> bool;
    #[one_way(unordered)]
    fn note(&self, number: u32);
    fn noted(&self) -> u32;
    /// Waits at the gate.
    fn wait(&self);
}

#[derive(Default)]
struct Shelf {
    entries: std::sync::Mutex<Vec<Entry>>,
    noted: AtomicU32,
    gate: Gate,
}

impl Store for Shelf {
    fn put(&self, entry: &Entry) -> Result<u32, Refused> {
        let mut entries = self.entries.lock().unwrap();
        if entries.len() == 2 {
            return Err(Refused::Full);
        }
        entries.push(entry.clone());
        Ok(entries.len() as u32)
    }

    fn get(&self, name: &str) -> Result<Entry, Refused> {
        let entries = self.entries.lock().unwrap();
        let found = entries.iter().find(|entry| entry.name == name);
        found.cloned().ok_or(Refused::Missing { name: name.into() })
    }

    fn turn(&self, data: &mut [u8], count: &mut u32) -> bool {
        data.reverse();
        *count = data.len() as u32;
        true
    }

    fn note(&self, number: u32) {
        self.noted.fetch_add(number, Ordering::Relaxed);
    }

    fn noted(&self) -> u32 {
        self.noted.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        self.gate.pass();
    }
}

/// One server of one implementation, for callers of both protocols, and its addresses.
fn serve() -> (RunningServer, Vec<String>) {
    serve_shelf(Shelf::default())
}

fn serve_shelf(shelf: Shelf) -> (RunningServer, Vec<String>) {
    let path = format!("@stoop-two-protocols-{}-{:?}", std::process::id(), std::thread::current().id());
    let server = Server::new().export(StoreServer::new(shelf));
    let server = server.listen("udp://127.0.0.1:0").unwrap().listen("tcp://127.0.0.1:0").unwrap();
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    let server = server.listen(&format!("onc+unix:{path}")).unwrap().start().unwrap();
    let uris = server.uris().to_vec();
    (server, uris)
}

#[test]
fn the_same_client_calls_the_same_implementation_by_either_protocol() {
    let (_server, uris) = serve();
    assert_eq!(uris.len(), 5, "{uris:?}");
    let entry = Entry { name: "a".into(), content: vec![1, 2, 3] };
    let first = StoreClient::bind(&uris[0]).unwrap();
    assert_eq!(first.put(&entry).unwrap(), 1);
    for uri in &uris {
        let client = StoreClient::bind(uri).unwrap();
        assert_eq!(client.get("a").unwrap(), entry, "{uri}");
        let missing = client.get("b").unwrap_err();
        assert!(
            matches!(&missing, Error::Application(Refused::Missing { name }) if name == "b"),
            "{missing:?}"
        );
        let (mut data, mut count) = ([1, 2, 3, 4, 5], 0);
        assert!(client.turn(&mut data, &mut count).unwrap());
        assert_eq!((data, count), ([5, 4, 3, 2, 1], 5), "{uri}");
        assert!(client.binding().describe().starts_with(uri), "{}", client.binding().describe());
    }
    assert_eq!(StoreClient::bind(&uris[3]).unwrap().put(&entry).unwrap(), 2);
    assert!(matches!(first.put(&entry), Err(Error::Application(Refused::Full))));
}

#[test]
fn begun_calls_give_the_same_handles_by_either_protocol() {
    let (_server, uris) = serve();
    for uri in &uris {
        let client = StoreClient::bind(uri).unwrap();
        let begin = client.begin();
        let turned: Vec<_> = (0..100_u8).map(|number| begin.turn(&[number, 7])).collect();
        let missing = begin.get("c");
        drop(begin);
        for (number, outcome) in (0..).zip(wait_all(turned)) {
            assert_eq!(outcome.unwrap(), (true, vec![7, number], 2), "{uri}");
        }
        assert!(matches!(missing.wait(), Err(Error::Application(Refused::Missing { .. }))));
    }
}

#[test]
fn one_way_calls_run_by_either_protocol() {
    let (_server, uris) = serve();
    let client = StoreClient::bind(&uris[0]).unwrap();
    for (position, uri) in uris.iter().enumerate() {
        let teller = StoreClient::bind(uri).unwrap();
        teller.note(1).unwrap();
        teller.begin().note(1).wait().unwrap();
        eventually(|| client.noted().unwrap() >= 2 * (position as u32 + 1));
    }
}

#[test]
fn a_call_by_sun_rpc_ends_by_its_deadline_and_says_that_it_may_have_run() {
    let gate = Gate::default();
    let (_server, uris) = serve_shelf(Shelf { gate: gate.clone(), ..Shelf::default() });
    let _opens = gate.open_on_drop();
    for uri in &uris[2..] {
        let client = StoreClient::bind(uri).unwrap().with_timeout(Duration::from_millis(50));
        let error = client.wait().unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error:?}");
        assert_eq!(error.ran(), Ran::Perhaps);
    }
}

#[test]
fn a_typed_client_takes_the_options_of_sun_rpc() {
    let (_server, uris) = serve();
    let own = ClientOptions::new().authentication(Credential::own());
    let client = StoreClient::bind_with(&uris[3], &BindOptions::new().with(own.clone())).unwrap();
    assert_eq!(client.noted().unwrap(), 0);
    let sun = Client::bind_with(&format!("{}/0x20000077:3", uris[2]), &own).unwrap();
    assert_eq!(StoreClient::over(sun).noted().unwrap(), 0);
}

#[test]
fn another_version_is_refused_and_its_call_did_not_run() {
    let (_server, uris) = serve();
    let client = StoreClient::bind(&format!("{}/0x20000077:4", uris[3])).unwrap();
    let error = client.noted().unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
    assert!(error.to_string().contains("not have version 4 of the program, but version 3"), "{error}");
}

#[test]
fn binding_waits_for_a_server_of_sun_rpc_that_is_not_there_yet() {
    let path = format!("onc+unix:@stoop-two-protocols-late-{}", std::process::id());
    let refused = StoreClient::bind(&path).unwrap_err();
    assert!(matches!(refused, BindError::Unreachable { .. }), "{refused:?}");
    let options = BindOptions::new().wait_for_server(Duration::from_secs(60));
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || StoreClient::bind_with(&path, &options).unwrap().noted().unwrap()
    });
    let server = Server::new().export(StoreServer::new(Shelf::default()));
    let _server = server.listen(&path).unwrap().start().unwrap();
    assert_eq!(waiting.join().unwrap(), 0);
}

#[test]
fn one_server_counts_and_shuts_down_the_calls_of_both_protocols() {
    let (server, uris) = serve();
    let clients: Vec<_> = uris.iter().map(|uri| StoreClient::bind(uri).unwrap()).collect();
    clients.iter().for_each(|client| assert_eq!(client.noted().unwrap(), 0));
    assert_eq!(server.counters().calls, 5);
    server.shut_down();
    for client in clients {
        let client = client.with_timeout(Duration::from_millis(100));
        assert!(client.noted().is_err(), "{client:?}");
    }
}

#[test]
fn a_lazy_client_of_sun_rpc_binds_with_its_first_call() {
    let path = format!("onc+unix:@stoop-two-protocols-lazy-{}", std::process::id());
    let lazy = StoreClient::bind_with(&path, &BindOptions::new().lazy()).unwrap();
    let error = lazy.noted().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error:?}");
    assert_eq!(lazy.begin().noted().wait().unwrap_err().ran(), Ran::No);
    let wrong = StoreClient::bind_with("onc+udp:nowhere", &BindOptions::new().lazy());
    assert!(matches!(wrong, Err(BindError::Uri(_))));
    let server = Server::new().export(StoreServer::new(Shelf::default()));
    let _server = server.listen(&path).unwrap().start().unwrap();
    assert_eq!(lazy.noted().unwrap(), 0);
}

#[test]
fn a_binding_by_sun_rpc_keeps_to_its_longest_message() {
    let (_server, uris) = serve();
    let client = StoreClient::bind_with(&uris[3], &BindOptions::new().max_message(1000)).unwrap();
    let long = Entry { name: "long".into(), content: vec![0; 2000] };
    let error = client.put(&long).unwrap_err();
    assert!(matches!(error, Error::Call(CallError::NotSent(..))), "{error:?}");
    StoreClient::bind(&uris[3]).unwrap().put(&long).unwrap();
    let error = client.get("long").unwrap_err();
    assert_eq!(error.ran(), Ran::Perhaps, "{error:?}");
}

#[test]
fn a_server_that_could_not_serve_one_of_its_addresses_does_not_start() {
    #[stoop::interface]
    trait Plain {
        fn null(&self);
    }
    struct Nothing;
    impl Plain for Nothing {
        fn null(&self) {}
    }
    #[stoop::interface]
    trait Piped {
        fn tail(&self, lines: stoop::Sender<str>);
    }
    impl Piped for Nothing {
        fn tail(&self, _: stoop::Sender<str>) {}
    }
    let why = |server: Server| server.start().map(drop).unwrap_err().to_string();
    let piped = Server::new().export(PipedServer::new(Nothing)).listen("onc+tcp://127.0.0.1").unwrap();
    assert!(
        why(piped)
            .contains("no pipes, and an interface that it exports has some; listen at addresses of other")
    );
    let why_not_bound = PipedClient::bind("onc+tcp://127.0.0.1").unwrap_err().to_string();
    assert!(why_not_bound.contains("no pipes, are called by Sun RPC; write an address of another transport"));
    let plain = || Server::new().export(PlainServer::new(Nothing));
    assert!(why(plain().listen("onc+udp://127.0.0.1").unwrap()).contains("has no program"));
    assert!(why(plain().listen("udp://127.0.0.1:0").unwrap().register()).contains("no address of Sun RPC"));
    let store = || Server::new().export(StoreServer::new(Shelf::default()));
    let unused = store().with(ReplyCacheLimits::default()).listen("onc+tcp://127.0.0.1").unwrap();
    assert!(why(unused).contains("ReplyCacheLimits"));
    let unused = store().listen("onc+tcp://127.0.0.1").unwrap().with(ConnectionLimits::default());
    assert!(why(unused).contains("ConnectionLimits"));
}
