//! Lists of callers: which of them may call an interface or a procedure.

use crate::harness::transports::{ListenThere, address, all, is_there};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::reflection::{AskError, ask, interfaces};
use stoop::{
    BindError, BindOptions, CallError, ListenError, Metadata, Ran, RefusalCode, RunningServer, Server,
};

#[stoop::interface]
trait Gate {
    /// Calls of the others that have run.
    fn ran(&self) -> u32;
    fn shut(&self) -> u32;
    #[one_way]
    fn knock(&self);
    fn count(&self, numbers: &mut [u32]);
    #[idempotent]
    fn look(&self) -> u32;
}

#[stoop::interface(program = 0x2000_0311, version = 1)]
trait Secret {
    fn tell(&self) -> u32;
}

#[derive(Clone, Default)]
struct Iron(Arc<AtomicU32>);

impl Iron {
    fn run(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Gate for Iron {
    fn ran(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    fn shut(&self) -> u32 {
        self.run()
    }
    fn knock(&self) {
        self.run();
    }
    fn count(&self, numbers: &mut [u32]) {
        self.run();
        numbers.fill(1);
    }
    fn look(&self) -> u32 {
        self.run()
    }
}

impl Secret for Iron {
    fn tell(&self) -> u32 {
        self.run()
    }
}

const LISTED: [&str; 4] = ["Gate.shut", "Gate.knock", "Gate.count", "Gate.look"];

/// A server of which only these callers may call more than `ran`.
fn serve(transport: &str, names: &[String]) -> RunningServer {
    let gate = Iron::default();
    let server = Server::new().export(GateServer::new(gate.clone())).export(SecretServer::new(gate));
    let server = server.callers("Secret", names);
    let server = LISTED.iter().fold(server, |server, of| server.callers(of, names));
    server.listen_there(&address(transport)).unwrap().start().unwrap()
}

fn own_user() -> String {
    format!("uid:{}", rustix::process::geteuid().as_raw())
}

fn bind(server: &RunningServer) -> GateClient {
    let long = Duration::from_secs(60);
    GateClient::bind_with(&server.uris()[0], &BindOptions::new().timeout(long).bind_timeout(long)).unwrap()
}

#[track_caller]
fn assert_denied<T: std::fmt::Debug>(outcome: Result<T, CallError>) {
    let why = outcome.unwrap_err();
    let is_denial = matches!(&why, CallError::Refused(refusal, ..) if refusal.code == RefusalCode::Denied);
    assert!(is_denial && why.ran() == Ran::No, "{why}");
}

/// Runs `future`, whose calls end by themselves.
fn run<T>(future: impl Future<Output = T>) -> T {
    crate::harness::runtime::block_on(future)
}

#[test]
fn a_call_whose_caller_is_in_no_list_is_refused_before_it_runs_over_every_transport() {
    for transport in all().filter(|transport| *transport != "local" && is_there(transport)) {
        let server = serve(transport, &["alice".into(), "uid:4294967294".into()]);
        let client = bind(&server);
        for _ in 0..3 {
            assert_denied(client.shut());
            assert_denied(client.count(&mut [0; 3]));
            assert_denied(client.count(&mut vec![0; 100_000]));
            assert_denied(client.look());
            assert_denied(client.begin().shut().wait());
            assert_denied(client.with_metadata(Metadata::new().set("color", "red")).shut());
            assert_denied(run(client.to_async().shut()));
            client.knock().unwrap();
            assert_eq!(client.ran().unwrap(), 0, "{transport}");
        }
        drop(server);
    }
}

#[test]
fn a_caller_that_may_call_nothing_of_an_interface_is_not_bound_to_it_over_any_transport() {
    for transport in all().filter(|transport| *transport != "local" && is_there(transport)) {
        let server = serve(transport, &["alice".into()]);
        let uri = &server.uris()[0];
        let why = SecretClient::bind(uri).map(drop).unwrap_err();
        assert!(matches!(why, BindError::Denied { .. }), "{why}");
        let (is_user, why) = (["unix", "shm"].contains(&transport), why.to_string());
        let cure =
            if is_user { format!(".callers(\"Secret\", [\"{}\"])", own_user()) } else { "KEY@".into() };
        assert!(why.contains("Secret") && why.contains(&cure), "{why}");
        let later = SecretClient::bind_with(uri, &BindOptions::new().lazy()).unwrap();
        assert_eq!(later.tell().unwrap_err().ran(), Ran::No);
        assert_eq!(bind(&server).ran().unwrap(), 0);
    }
}

#[test]
fn a_caller_on_this_machine_that_is_in_the_list_calls() {
    for transport in ["unix", "shm"] {
        for names in [vec![own_user()], vec!["alice".into(), "uid:*".into()]] {
            let server = serve(transport, &names);
            let client = bind(&server);
            let mut numbers = [0; 3];
            client.count(&mut numbers).unwrap();
            assert_eq!(numbers, [1; 3]);
            client.knock().unwrap();
            assert_eq!((client.shut().unwrap(), client.look().unwrap()), (3, 4), "{transport}");
            assert_eq!((client.begin().shut().wait().unwrap(), client.ran().unwrap()), (5, 5));
        }
    }
}

#[test]
fn the_servers_own_process_may_call_everything() {
    let server = serve("local", &[]);
    let client = bind(&server);
    client.knock().unwrap();
    assert_eq!(client.shut().unwrap(), 2);
}

#[test]
fn the_list_of_a_procedure_counts_in_place_of_that_of_its_interface() {
    let server = Server::new().export(GateServer::new(Iron::default()));
    let server =
        server.callers("Gate", ["alice"]).callers("Gate.shut", ["bob"]).callers("Gate.shut", [own_user()]);
    let server = server.listen(&address("unix")).unwrap().start().unwrap();
    let client = bind(&server);
    assert_denied(client.ran());
    assert_eq!(client.shut().unwrap(), 1);
}

#[test]
fn a_refused_caller_learns_its_name_and_the_cure() {
    let server = serve("unix", &[]);
    let why = bind(&server).shut().unwrap_err().to_string();
    assert!(
        why.contains("Gate.shut") && why.contains(&own_user()) && why.contains("Server::callers"),
        "{why}"
    );
    let server = serve("udp", &[]);
    let why = bind(&server).shut().unwrap_err().to_string();
    assert!(why.contains("only callers with names") && why.contains("KEY@"), "{why}");
}

#[test]
fn a_caller_is_told_only_of_interfaces_that_it_may_call() {
    let options = BindOptions::new();
    for (names, told) in [(vec![own_user()], vec!["Gate", "Secret"]), (vec![], vec!["Gate"])] {
        let server = serve("unix", &names);
        let uri = &server.uris()[0];
        assert_eq!(interfaces(uri, &options).unwrap(), told);
        let asked = ask(uri, "Secret", &options);
        assert_eq!(matches!(asked, Err(AskError::NoSuchInterface(all)) if all == ["Gate"]), told.len() == 1);
    }
    // Nor does a server with lists tell its names to a caller that binds to another interface.
    let server = serve("udp", &[]);
    let why = other::OtherClient::bind(&server.uris()[0]).map(drop).unwrap_err();
    assert!(matches!(&why, BindError::NoSuchInterface { exported, .. } if exported.is_empty()), "{why}");
    assert!(!why.to_string().contains("Secret"), "{why}");
}

mod other {
    #[stoop::interface]
    pub(super) trait Other {
        fn tell(&self) -> u32;
    }
}

#[test]
fn callers_by_sun_rpc_call_no_interface_with_a_list() {
    for scheme in ["onc+udp", "onc+tcp"] {
        let server = Server::new().export(SecretServer::new(Iron::default())).callers("Secret", ["*"]);
        let server = server.listen(&format!("{scheme}://127.0.0.1")).unwrap().start().unwrap();
        let why = SecretClient::bind(&server.uris()[0]).unwrap().tell().unwrap_err();
        assert_eq!(why.ran(), Ran::No);
        assert!(why.to_string().contains("stronger authentication"), "{why}");
    }
}

#[test]
fn a_list_for_what_is_not_exported_is_an_error() {
    for of in ["Gates", "Gate.open", "gate"] {
        let server = Server::new().export(GateServer::new(Iron::default())).callers(of, ["alice"]);
        let why = server.listen(&address("unix")).unwrap().start().map(drop).unwrap_err();
        assert!(matches!(&why, ListenError::UnknownProcedure(name) if name == of), "{why}");
    }
    let server = Server::new().export(GateServer::new(Iron::default())).callers("StoopAccount", ["alice"]);
    assert!(server.listen(&address("unix")).unwrap().start().is_ok());
}
