//! The register/call layer: functions registered by numbers, called by numbers.

use crate::peer::PEER;
use crate::programs::{One, Two};
use crate::sandbox::{self, Process, rpcinfo, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use stoop::error::SendError;
use stoop::onc::rpcbind::Rpcbind;
use stoop::onc::{self, Client, VersionId};
use stoop::{CallError, ListenError, Ran, RunningServer};

const LOCAL: &str = "127.0.0.1";
const SQUARES: VersionId = VersionId { program: PEER, version: 2 };

/// The square of a number, by the function that is registered now.
fn square(number: u32) -> Result<u64, CallError> {
    onc::call(LOCAL, PEER, 2, 1, &number)
}

/// What rpcbind knows of [`SQUARES`] over UDP.
fn place() -> Option<String> {
    let entries = Rpcbind::local().unwrap().dump().unwrap();
    entries.into_iter().find(|e| e.version == SQUARES && e.netid == "udp").map(|entry| entry.address)
}

/// The address of a server over UDP as rpcbind has it.
fn of(server: &RunningServer) -> String {
    let uri = server.uris().iter().find(|uri| uri.starts_with("onc+udp:")).unwrap();
    let port: u16 = uri.rsplit_once(':').unwrap().1.parse().unwrap();
    format!("0.0.0.0.{}.{}", port >> 8, port & 0xff)
}

/// The square of a number, by bytes written by hand (RFC 5531 §9): AUTH_NONE, and a reply that is MSG_ACCEPTED and SUCCESS.
fn square_by_hand(server: SocketAddr, number: u32) -> u64 {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let (xid, call, reply, rpc_version) = (0x1234_5678, 0, 1, 2);
    let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
    socket.send_to(&words(&[xid, call, rpc_version, PEER, 2, 1, 0, 0, 0, 0, number]), server).unwrap();
    let mut received = [0; 100];
    let len = socket.recv(&mut received).unwrap();
    let (head, result) = received[..len].split_at(24);
    assert_eq!(head, words(&[xid, reply, 0, 0, 0, 0]));
    u64::from_be_bytes(result.try_into().unwrap())
}

#[test]
fn registered_function_is_called_by_number_from_here_from_libtirpc_and_by_hand() {
    sandbox::run(
        "register::registered_function_is_called_by_number_from_here_from_libtirpc_and_by_hand",
        || {
            let _one = onc::register(One::default()).unwrap();
            let _two = onc::register(Two).unwrap();
            assert_eq!(square(12).unwrap(), 144);
            assert_eq!(onc::call::<_, i32>(LOCAL, PEER, 1, 1, &[20, 22]).unwrap(), 42, "the other one's ADD");
            let program = PEER.to_string();
            for (transport, option) in [("udp", "-u"), ("tcp", "-t")] {
                let client = Client::bind(&format!("onc+{transport}://{LOCAL}/{SQUARES}")).unwrap();
                assert_eq!(client.call::<_, u64>(1, &9_u32).unwrap(), 81);
                assert!(rpcinfo(&[option, LOCAL, &program, "2"]), "libtirpc calls it over {transport}");
                assert!(!rpcinfo(&[option, LOCAL, &program, "3"]), "there is no such version");
            }
            let port = Client::bind(&format!("onc+udp://{LOCAL}/{SQUARES}")).unwrap().server().unwrap();
            assert_eq!(square_by_hand(port, 1 << 20), 1 << 40);
        },
    );
}

#[test]
fn function_that_is_registered_again_takes_the_place_of_the_first() {
    sandbox::run("register::function_that_is_registered_again_takes_the_place_of_the_first", || {
        let first = onc::register(Two).unwrap();
        assert_eq!(place(), Some(of(&first)));
        let second = onc::register(Two).unwrap();
        assert_eq!(place(), Some(of(&second)));
        // The first one ends behind that, as in a restart without interruption.
        first.shut_down();
        assert_eq!(place(), Some(of(&second)), "the entry is the second one's");
        assert_eq!(square(5).unwrap(), 25);
    });
}

#[test]
fn function_that_is_unregistered_is_not_found_and_can_be_registered_again() {
    sandbox::run("register::function_that_is_unregistered_is_not_found_and_can_be_registered_again", || {
        let server = onc::register(Two).unwrap();
        assert_eq!(square(3).unwrap(), 9);
        server.shut_down();
        assert_eq!(place(), None);
        let error = square(3).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
        let _again = onc::register(Two).unwrap();
        assert_eq!(square(4).unwrap(), 16);
    });
}

#[test]
fn calls_that_the_registered_function_cannot_serve_say_whether_it_ran() {
    sandbox::run("register::calls_that_the_registered_function_cannot_serve_say_whether_it_ran", || {
        let _server = onc::register(Two).unwrap();
        let error =
            |version, procedure| onc::call::<_, u64>(LOCAL, PEER, version, procedure, &7_u32).unwrap_err();
        for (version, procedure) in [(2, 99), (3, 1)] {
            let error = error(version, procedure);
            assert_eq!(error.ran(), Ran::No, "version {version}, procedure {procedure}: {error}");
        }
        // Without the number that it squares.
        let error = onc::call::<_, u64>(LOCAL, PEER, 2, 1, &()).unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        // Its result has eight bytes.
        let error = onc::call::<_, [u32; 4]>(LOCAL, PEER, 2, 1, &7_u32).unwrap_err();
        assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    });
}

#[test]
fn function_is_not_registered_where_no_rpcbind_runs() {
    sandbox::run("register::function_is_not_registered_where_no_rpcbind_runs", || {
        end_rpcbind();
        let error = onc::register(Two).map(drop).unwrap_err();
        assert!(matches!(error, ListenError::Rpcbind(_)), "{error}");
        let error = square(2).unwrap_err();
        assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
    });
}

#[test]
fn function_is_registered_again_with_a_rpcbind_that_starts_again() {
    sandbox::run("register::function_is_registered_again_with_a_rpcbind_that_starts_again", || {
        let server = onc::register(Two).unwrap();
        assert_eq!(place(), Some(of(&server)));
        let mut rpcbinds = Vec::new();
        for restart in 1..=2 {
            end_rpcbind();
            // Without the option to keep what it knows.
            rpcbinds.push(Process::spawn(Command::new("rpcbind").args(["-f", "-r"])));
            wait_until("rpcbind answers", || rpcinfo(&["-u", LOCAL, "100000", "4"]));
            wait_until("it knows the server", || place() == Some(of(&server)));
            assert_eq!(square(12).unwrap(), 144, "restart {restart}");
            wait_until("libtirpc finds it over TCP", || rpcinfo(&["-t", LOCAL, &PEER.to_string(), "2"]));
        }
        server.shut_down();
        assert_eq!(place(), None);
    });
}

/// Kills the rpcbind of the sandbox.
pub(crate) fn end_rpcbind() {
    let rpcbind = processes().find(|(_, name)| name == "rpcbind").expect("the sandbox has one").0;
    kill_process(rpcbind, Signal::KILL).unwrap();
    wait_until("rpcbind has ended", || ended(rpcbind));
}

/// The processes of the sandbox, with their names.
fn processes() -> impl Iterator<Item = (Pid, String)> {
    let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    entries
        .filter_map(|number| {
            let number: i32 = number.to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
            Some((Pid::from_raw(number)?, name.trim_end().to_owned()))
        })
        .filter(|(process, _)| !ended(*process))
}

/// Whether a process is a zombie, or gone.
fn ended(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    status.map_or(true, |status| status.contains(") Z "))
}
