//! Our client against the C server of `peer.x`.

use crate::peer::{self, Blob, Outcome, PEER};
use crate::sandbox::{self, Process, wait_until};
use std::thread;
use std::time::Duration;
use stoop::error::{SendError, SunError, SunFault};
use stoop::onc::stub::Arguments;
use stoop::onc::xdr::{Opaque, Writer};
use stoop::onc::{AuthSys, Client, ClientOptions, Credential, Groups, VersionRange};
use stoop::{BindError, CallError, Ran, Waiting};

const LOCAL: &str = "127.0.0.1";

fn client(scheme: &str, version: u32, options: &ClientOptions) -> Client {
    Client::bind_with(&format!("{scheme}://{LOCAL}/{PEER}:{version}"), options)
        .expect("the server is registered")
}

fn add(client: &Client, a: i32, b: i32) -> Result<i32, CallError> {
    let arguments = Arguments(|writer: &mut Writer<'_>| {
        writer.value(&a);
        writer.value(&b);
    });
    client.call(1, &arguments)
}

fn is_registered() -> bool {
    ["onc+udp", "onc+tcp"].iter().all(|scheme| Client::bind(&format!("{scheme}://{LOCAL}/{PEER}:2")).is_ok())
}

fn start(test: &str) -> Process {
    let server = Process::start(&sandbox::c_programs(test).join("server"));
    wait_until("the server has registered", is_registered);
    server
}

fn refusal(outcome: Result<i32, CallError>) -> SunFault {
    match outcome {
        Err(CallError::Sun(SunError { fault, transmissions: 1 }, ..)) => fault,
        other => panic!("a refusal: {other:?}"),
    }
}

fn check(scheme: &str, waiting: Waiting, blob_max: usize) {
    let options = ClientOptions::new().waiting(waiting);
    let (one, two) = (client(scheme, 1, &options), client(scheme, 2, &options));
    one.null().expect("it answers");
    assert_eq!(add(&one, 5, -7).unwrap(), -2);
    assert_eq!(two.call::<_, u64>(1, &4_000_000_000_u32).unwrap(), 16_000_000_000_000_000_000);
    for count in [100, 0, -1, -99] {
        assert_eq!(one.call::<_, Outcome>(2, &count).unwrap(), peer::list(count));
    }
    for len in [0, 1, 3, 4, 8001, 1_000_003] {
        if len <= blob_max {
            let blob: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let expected = peer::reverse(&blob);
            assert_eq!(one.call::<_, Blob>(3, &Opaque(blob)).unwrap(), Opaque(expected));
        }
    }
    assert_eq!(one.call::<_, String>(5, &()).unwrap(), "nobody");
    let gids = Groups::first_of(&[7, 8, 9]);
    let alice = AuthSys { stamp: 1, machine_name: b"host.lab", uid: 1001, gid: 100, gids };
    let alice = one.with_authentication(Credential::sys(&alice));
    assert_eq!(alice.call::<_, String>(5, &()).unwrap(), "host.lab 1001 100 3");
    assert_eq!(refusal(one.call(77, &())), SunFault::ProcedureUnavailable);
    let outcome = one.call::<_, i32>(2, &1);
    assert!(matches!(outcome, Ok(0)), "bytes behind the result are ignored: {outcome:?}");
    let error = one.call::<_, u64>(4, &()).unwrap_err();
    assert!(matches!(error, CallError::Sun(SunError { fault: SunFault::BadResult(_), .. }, ..)), "{error}");
    assert_eq!(error.ran(), Ran::Perhaps);
}

#[test]
fn a_c_server_answers_over_udp_and_tcp() {
    sandbox::run("c_server::a_c_server_answers_over_udp_and_tcp", || {
        let _server = start("run_time_calls");
        for waiting in [Waiting::Adaptive, Waiting::Block] {
            check("onc+udp", waiting, 8001);
            check("onc+tcp", waiting, usize::MAX);
        }
        // libtirpc's server decodes the bytes of earlier datagrams here, so this is for TCP alone.
        let one = client("onc+tcp", 1, &ClientOptions::new());
        assert_eq!(refusal(one.call(1, &5_i32)), SunFault::BadArguments);
    });
}

#[test]
fn versions_that_are_not_there_are_told_by_rpcbind_and_by_the_server() {
    sandbox::run("c_server::versions_that_are_not_there_are_told_by_rpcbind_and_by_the_server", || {
        let _server = start("run_time_versions");
        for scheme in ["onc+udp", "onc+tcp"] {
            let error = Client::bind(&format!("{scheme}://{LOCAL}/{PEER}:3")).unwrap_err();
            assert!(matches!(error, BindError::NotRegistered { .. }), "{error}");
            let server = client(scheme, 1, &ClientOptions::new()).server().unwrap();
            let three = Client::bind(&format!("{scheme}://{server}/{PEER}:3")).unwrap();
            let error = three.null().unwrap_err();
            let CallError::Sun(SunError { fault, .. }, ..) = error else { panic!("{error}") };
            assert_eq!(
                fault,
                SunFault::VersionUnavailable { asked: 3, range: VersionRange { low: 1, high: 2 } }
            );
            let other = Client::bind(&format!("{scheme}://{server}/77:1")).unwrap();
            let error = other.null().unwrap_err();
            assert!(error.to_string().contains("does not have the program"), "{error}");
            assert_eq!(error.ran(), Ran::No);
        }
    });
}

#[test]
fn many_threads_share_a_connection() {
    sandbox::run("c_server::many_threads_share_a_connection", || {
        let _server = start("run_time_threads");
        for scheme in ["onc+udp", "onc+tcp"] {
            let one = client(scheme, 1, &ClientOptions::new());
            thread::scope(|scope| {
                for thread in 0..16 {
                    let one = &one;
                    scope.spawn(move || {
                        for number in 0..200 {
                            assert_eq!(add(one, number, thread).unwrap(), number + thread);
                        }
                    });
                }
            });
            assert_eq!(one.unmatched_replies(), 0);
        }
    });
}

#[test]
fn a_server_that_was_killed_and_started_again_is_found_again() {
    sandbox::run("c_server::a_server_that_was_killed_and_started_again_is_found_again", || {
        let server = start("run_time_restart");
        let folder = sandbox::c_programs("run_time_restart");
        let options = ClientOptions::new().timeout(Duration::from_secs(5));
        let clients = ["onc+udp", "onc+tcp"].map(|scheme| client(scheme, 1, &options));
        let before = clients.each_ref().map(|client| client.server());
        clients.iter().for_each(|client| assert_eq!(add(client, 1, 2).unwrap(), 3));
        drop(server);
        for client in &clients {
            let error = add(client, 1, 2).unwrap_err();
            assert_ne!(error.ran(), Ran::Yes, "{error}");
        }
        let error = add(&clients[0], 1, 2).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
        // rpcbind still knows the dead server until the new one has registered.
        let _server = Process::start(&folder.join("server"));
        for client in &clients {
            wait_until("the server is found again", || add(client, 1, 2).is_ok());
        }
        assert!(clients.iter().zip(before).all(|(client, before)| client.server() != before));
    });
}
