//! Against programs that rpcgen and libtirpc make from `peer.x`.

use crate::client::Client;
use crate::peer::{self, ADD, Blob, COUNT, LIST, Outcome, PEER, REVERSE, SQUARE, WHO, one};
use crate::sandbox::{self, Process, rpcinfo, wait_until};
use crate::server;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use stoop_onc::auth::{Auth, AuthSys, BODY_MAX, Groups};
use stoop_onc::message::{Accepted, ProcedureId, VersionRange};
use stoop_onc::rpcbind::{IPPROTO_TCP, IPPROTO_UDP, Mapping, Version, procedure};
use stoop_xdr::{Encode, Layout, Opaque, Writer, Xdr};

/// Two arguments: rpcgen -N writes them one after the other.
struct Both(i32, i32);

impl Xdr for Both {
    const LAYOUT: Layout = Layout::fixed(8);
}

impl Encode for Both {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.0);
        writer.value(&self.1);
    }
}

/// Where the program listens, according to rpcbind.
fn port(protocol: u32) -> u16 {
    let mut rpcbind = Client::udp("127.0.0.1:111".parse().expect("an address"));
    let mapping = Mapping { program: PEER, version: 1, protocol, port: 0 };
    let answer = rpcbind.call(Version::PortMapper.procedure(procedure::GETPORT), &mapping);
    answer.results::<u32>() as u16
}

fn local(port: u16) -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, port).into()
}

fn check_results(client: &mut Client, blob_max: usize) {
    client.call(one(0), &()).results::<()>();
    assert_eq!(client.call(ADD, &Both(5, -7)).results::<i32>(), -2);
    assert_eq!(client.call(SQUARE, &4_000_000_000_u32).results::<u64>(), 16_000_000_000_000_000_000);
    for count in [100, 0, -1, -99] {
        assert_eq!(client.call(LIST, &count).results::<Outcome>(), peer::list(count));
    }
    for len in [0, 1, 3, 4, 8001, 1_000_003] {
        if len <= blob_max {
            let blob: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let expected = peer::reverse(&blob);
            assert_eq!(client.call(REVERSE, &Opaque(blob)).results::<Blob>(), Opaque(expected));
        }
    }
}

fn check_identity(client: &mut Client) {
    assert_eq!(client.call(WHO, &()).results::<&str>(), "nobody");
    let gids = Groups::first_of(&[7, 8, 9]);
    let sys = AuthSys { stamp: 1, machine_name: b"host.lab", uid: 1001, gid: 100, gids };
    let room = Box::leak(Box::new([0; BODY_MAX]));
    client.credential = sys.credential(room).expect("the name is short");
    assert_eq!(client.call(WHO, &()).results::<&str>(), "host.lab 1001 100 3");
    client.credential = Auth::NONE;
}

fn check_refusals(client: &mut Client) {
    let mismatch = Accepted::ProgramMismatch(VersionRange { low: 1, high: 2 });
    let version_three = ProcedureId { version: 3, ..ADD };
    assert_eq!(client.call(version_three, &()).accepted(), mismatch);
    assert_eq!(client.call(one(77), &()).accepted(), Accepted::ProcedureUnavailable);
}

/// Starts the C server and calls all its procedures.
pub(crate) fn call_c_server(folder: &Path) {
    let _server = Process::start(&folder.join("server"));
    wait_until("the server has registered", || port(IPPROTO_UDP) != 0 && port(IPPROTO_TCP) != 0);
    let mut udp = Client::udp(local(port(IPPROTO_UDP)));
    check_results(&mut udp, 8001);
    check_identity(&mut udp);
    check_refusals(&mut udp);
    let mut tcp = Client::tcp(local(port(IPPROTO_TCP)));
    check_results(&mut tcp, usize::MAX);
    check_identity(&mut tcp);
    check_refusals(&mut tcp);
    // libtirpc's server decodes the bytes of earlier datagrams here, so this is for TCP alone.
    assert_eq!(tcp.call(ADD, &5_i32).accepted(), Accepted::GarbageArguments);
}

#[test]
fn our_caller_gets_the_results_of_a_c_server() {
    sandbox::run("c_peers::our_caller_gets_the_results_of_a_c_server", || {
        call_c_server(&sandbox::c_programs("our_caller"));
    });
}

#[test]
fn a_c_server_answers_pipelined_calls_by_their_xids() {
    sandbox::run("c_peers::a_c_server_answers_pipelined_calls_by_their_xids", || {
        let folder = sandbox::c_programs("pipelined");
        let _server = Process::start(&folder.join("server"));
        wait_until("the server has registered", || port(IPPROTO_TCP) != 0);
        let mut client = Client::udp(local(port(IPPROTO_UDP)));
        let mut expected: HashMap<_, _> =
            (0..20).map(|number| (client.begin(ADD, &Both(number, 1)), number + 1)).collect();
        while !expected.is_empty() {
            let (xid, answer) = client.receive();
            assert_eq!(expected.remove(&xid), Some(answer.results::<i32>()));
        }
    });
}

/// Runs the C program that calls every procedure and checks the results.
pub(crate) fn run_client(folder: &Path, transport: &str) {
    let status = Command::new(folder.join("client")).args(["127.0.0.1", transport, "1"]).status();
    assert!(
        status.expect("the client starts").success(),
        "the client found something wrong over {transport}"
    );
}

#[test]
fn a_c_caller_over_udp_gets_our_results_and_lost_replies_again() {
    sandbox::run("c_peers::a_c_caller_over_udp_gets_our_results_and_lost_replies_again", || {
        server::start(1);
        run_client(&sandbox::c_programs("udp_client"), "udp");
        // The client has seen 1 and 2, although the first reply was lost.
        let mut client = Client::udp(local(port(IPPROTO_UDP)));
        assert_eq!(client.call(COUNT, &()).results::<u32>(), 3);
    });
}

#[test]
fn a_c_caller_over_tcp_gets_our_results() {
    sandbox::run("c_peers::a_c_caller_over_tcp_gets_our_results", || {
        server::start(0);
        run_client(&sandbox::c_programs("tcp_client"), "tcp");
    });
}

#[test]
fn rpcinfo_calls_our_server() {
    sandbox::run("c_peers::rpcinfo_calls_our_server", || {
        server::start(0);
        let program = PEER.to_string();
        for transport in ["-u", "-t"] {
            assert!(rpcinfo(&[transport, "127.0.0.1", &program, "1"]));
            assert!(rpcinfo(&[transport, "127.0.0.1", &program]), "all versions");
            assert!(!rpcinfo(&[transport, "127.0.0.1", &program, "3"]));
        }
    });
}
