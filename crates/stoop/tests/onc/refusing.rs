//! Servers made from interface files and traits: they see who calls, deny callers, and need not implement every procedure.

use crate::server::{Stream, accepted, call_with, denied, exchange, record, udp};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{AuthStatus, AuthSys, Credential, Identity, VersionId, deny};
use stoop::onc::{Client, ClientOptions, Server};
use stoop::{BindOptions, CallError, Ran, RefusalCode, RunningServer, current_call};
use stoop_onc::auth::{Auth, BODY_MAX, Groups};
use stoop_onc::message::{Accepted, Denied, ProcedureId, Reply};
use stoop_xdr::Encode;

mod file {
    stoop::x! {
        program DOORS {
            version DOORS_ONE {
                void NOTHING(void) = 0;
                int OPEN(int) = 1;
                string WHO(void) = 2;
                int NEVER(void) = 3;
            } = 1;
        } = 0x20000083;
    }
}

use file::{DoorsOne, DoorsOneClient, DoorsOneServer};

/// The same procedures in Rust.
#[stoop::interface(program = 0x2000_0084, version = 1)]
trait Gate {
    fn open(&self, number: i32) -> i32;
    fn who(&self) -> String;
    fn never(&self) -> i32 {
        stoop::onc::unavailable()
    }
    /// Denies, in a call by a client in its own process.
    fn nested(&self, server: &str) -> Result<String, String>;
}

struct Guard;

fn open(number: i32) -> i32 {
    match current_call().expect("a procedure runs in a call").identity() {
        Identity::None => deny(AuthStatus::TOO_WEAK),
        Identity::Sys(user) if user.uid == 13 => deny(AuthStatus::REJECTED_CREDENTIAL),
        Identity::Sys(_) => number + 1,
    }
}

fn who() -> String {
    match current_call().expect("a procedure runs in a call").identity() {
        Identity::None => "nobody".into(),
        Identity::Sys(AuthSys { machine_name, uid, gid, gids, .. }) => {
            format!("{} {uid} {gid} {:?}", String::from_utf8_lossy(machine_name), &gids[..])
        }
    }
}

impl DoorsOne for Guard {
    fn open(&self, number: i32) -> i32 {
        open(number)
    }

    fn who(&self) -> String {
        who()
    }
}

impl Gate for Guard {
    fn open(&self, number: i32) -> i32 {
        open(number)
    }

    fn who(&self) -> String {
        who()
    }

    fn nested(&self, server: &str) -> Result<String, String> {
        let client = GateClient::bind(server).map_err(|why| why.to_string())?;
        let inner = client.who().map_err(|why| why.to_string())?;
        Ok(format!("{inner}, {}", who()))
    }
}

const PROGRAMS: [u32; 2] = [0x2000_0083, 0x2000_0084];

fn start() -> (RunningServer, [SocketAddr; 2]) {
    let server = Server::new().export(DoorsOneServer::new(Guard)).export(GateServer::new(Guard));
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    let native = format!("local:refusing-{:?}", std::thread::current().id());
    let server = server.listen(&native).unwrap().listen("tcp://127.0.0.1:0").unwrap();
    let server = server.listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let address = |at: usize| server.uris()[at].rsplit_once('/').unwrap().1.parse().unwrap();
    let addresses = [address(0), address(1)];
    (server, addresses)
}

fn sys(uid: u32, gids: &[u32]) -> Credential {
    let gids = Groups::first_of(gids);
    Credential::sys(&AuthSys { stamp: 1, machine_name: b"host.lab", uid, gid: 100, gids })
}

/// The reply to a call over UDP, which is the same over TCP.
fn reply<A: Encode>(
    addresses: [SocketAddr; 2],
    program: u32,
    procedure: u32,
    uid: Option<u32>,
    arguments: &A,
) -> Vec<u8> {
    let procedure = ProcedureId { program, version: 1, procedure };
    let gids = Groups::first_of(&[7, 8, 9]);
    let mut room = [0; BODY_MAX];
    let credential = uid.map_or(Auth::NONE, |uid| {
        let user = AuthSys { stamp: 1, machine_name: b"host.lab", uid, gid: 100, gids };
        user.credential(&mut room).unwrap()
    });
    let message = call_with(7, procedure, credential, arguments);
    let over_udp = exchange(&udp(addresses[0]), &message);
    let mut stream = Stream::connect(addresses[1]);
    stream.send(&record(&message));
    assert_eq!(stream.next(), over_udp);
    over_udp
}

#[test]
fn a_procedure_sees_the_identity_that_its_caller_claims() {
    let (_server, addresses) = start();
    for program in PROGRAMS {
        let who = |uid| {
            let reply = reply(addresses, program, 2, uid, &());
            Reply::parse(&reply).unwrap().1.text(100).unwrap().to_owned()
        };
        assert_eq!(who(Some(1001)), "host.lab 1001 100 [7, 8, 9]");
        // The same workers, with no identity and with others.
        assert_eq!(who(None), "nobody");
        assert_eq!(who(Some(0)), "host.lab 0 100 [7, 8, 9]");
    }
}

#[test]
fn a_denial_is_an_auth_error_with_the_procedures_status() {
    let (_server, addresses) = start();
    for program in PROGRAMS {
        let status = |uid| denied(&reply(addresses, program, 1, uid, &20_i32));
        assert_eq!(status(None), Denied::Auth(AuthStatus::TOO_WEAK));
        assert_eq!(status(Some(13)), Denied::Auth(AuthStatus::REJECTED_CREDENTIAL));
        assert_eq!(accepted(&reply(addresses, program, 1, Some(1001), &20_i32)), Accepted::Success);
        // The workers go on.
        assert_eq!(status(None), Denied::Auth(AuthStatus::TOO_WEAK));
    }
}

#[test]
fn a_procedure_that_a_server_does_not_implement_is_unavailable_and_procedure_0_is_there() {
    let (_server, addresses) = start();
    for program in PROGRAMS {
        assert_eq!(accepted(&reply(addresses, program, 3, None, &())), Accepted::ProcedureUnavailable);
        assert_eq!(accepted(&reply(addresses, program, 0, None, &())), Accepted::Success);
    }
}

#[test]
fn an_error_says_which_version_was_asked_and_that_versions_between_may_be_missing() {
    struct Squares(u32);
    impl Program for Squares {
        fn version(&self) -> VersionId {
            VersionId { program: 0x2000_0003, version: self.0 }
        }

        fn dispatch(&self, _: &mut IncomingCall<'_>) -> Result<(), NoResult> {
            Err(NoResult::ProcedureUnavailable)
        }
    }
    let says = |versions: &[u32], asked: u32| {
        let server = versions.iter().fold(Server::new(), |server, version| server.program(Squares(*version)));
        let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
        let server = server.start().unwrap();
        let mut texts = server.uris().iter().flat_map(|uri| {
            let client = Client::bind(&format!("{uri}/{}:{asked}", 0x2000_0003)).unwrap();
            let begun = client.begin::<_, ()>(0, &()).wait();
            // Behind the procedure and the server.
            let why = |error: CallError| error.to_string().split_once(": ").unwrap().1.to_owned();
            [why(client.null().unwrap_err()), why(begun.unwrap_err())]
        });
        let first = texts.next().unwrap();
        assert!(texts.all(|text| text == first), "the same over UDP and TCP, and of begun calls");
        first
    };
    let text = says(&[1, 3], 2);
    let expected = "does not have version 2 of the program: its lowest is 1 and its highest 3, and versions between them may be missing";
    assert!(text.contains(expected), "{text}");
    let text = says(&[4], 2);
    assert!(text.contains("does not have version 2 of the program, but version 4"), "{text}");
}

#[test]
fn typed_clients_learn_of_a_denial_and_of_a_missing_procedure_that_nothing_has_run() {
    let (server, _) = start();
    for uri in &server.uris()[..2] {
        let options = BindOptions::new().with(ClientOptions::new().authentication(sys(1001, &[5])));
        let client = DoorsOneClient::bind_with(uri, &options).unwrap();
        assert_eq!((client.open(1).unwrap(), client.who().unwrap()), (2, "host.lab 1001 100 [5]".into()));
        let nobody = DoorsOneClient::bind(uri).unwrap();
        for why in [nobody.open(1).unwrap_err(), nobody.never().unwrap_err()] {
            assert_eq!(why.ran(), Ran::No, "{why}");
        }
        assert!(nobody.open(1).unwrap_err().to_string().contains("stronger authentication"));
    }
    // By Stoop's own protocol nobody claims an identity.
    for uri in &server.uris()[2..] {
        let client = DoorsOneClient::bind(uri).unwrap();
        assert_eq!(client.who().unwrap(), "nobody");
        let codes =
            [client.open(1), client.never(), client.begin().open(1).wait(), client.begin().never().wait()];
        let codes = codes.map(|outcome| match outcome {
            Err(CallError::Refused(refusal, ..)) => refusal.code,
            other => panic!("{uri}: {other:?}"),
        });
        let (denied, unknown) = (RefusalCode::Denied, RefusalCode::UnknownProcedure);
        assert_eq!(codes, [denied, unknown, denied, unknown], "{uri}");
        assert_eq!(client.who().unwrap(), "nobody");
    }
}

#[test]
fn a_call_within_a_call_has_no_identity_and_leaves_the_outer_one_its_own() {
    let (server, _) = start();
    let local = server.uris().iter().find(|uri| uri.starts_with("local:")).unwrap();
    let options = BindOptions::new().with(ClientOptions::new().authentication(sys(1001, &[])));
    let client = GateClient::bind_with(&server.uris()[1], &options).unwrap();
    assert_eq!(client.nested(local).unwrap(), "nobody, host.lab 1001 100 []");
}

#[test]
#[should_panic = "there is no call to refuse"]
fn nothing_is_refused_outside_of_a_procedure() {
    deny(AuthStatus::TOO_WEAK)
}

#[test]
fn libtirpc_understands_denials_and_missing_procedures() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused_client");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onc/refusing/client.c");
    let made = Command::new("cc")
        .args(["-O1", "-w", "-I/usr/include/tirpc", "-o"])
        .args([&program, &source])
        .arg("-ltirpc")
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return println!("SKIPPED: it needs a C compiler and libtirpc (Debian: gcc, libtirpc-dev)");
    }
    let (_server, addresses) = start();
    for number in PROGRAMS {
        for (transport, address) in ["udp", "tcp"].iter().zip(addresses) {
            let arguments = [(*transport).to_owned(), address.port().to_string(), number.to_string()];
            let output = Command::new(&program).args(arguments).output().unwrap();
            let lines = String::from_utf8(output.stdout).unwrap();
            // AUTH_TOOWEAK is 5, AUTH_REJECTEDCRED 2.
            let expected = " -1 auth.5 [nobody] unavailable.0\n \
                            -1 21 [host.lab 1001 100 [7, 8, 9]] unavailable.0\n \
                            -1 auth.2 [host.lab 13 100 []] unavailable.0\n";
            assert_eq!(lines, expected, "{number} over {transport}");
        }
    }
}
