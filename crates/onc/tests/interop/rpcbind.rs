//! Against rpcbind.

use crate::client::Client;
use crate::peer::{PEER, SQUARE};
use crate::{sandbox, server};
use std::net::SocketAddr;
use stoop_onc::auth::{Auth, AuthStatus, Flavor};
use stoop_onc::message::{Accepted, Denied, ProcedureId, VersionRange};
use stoop_onc::rpcbind::{
    CallIt, CallItResult, Entry, IPPROTO_UDP, Mapping, NetworkBuffer, RemoteCall, RemoteResult, Rpcb, SOCKET,
    Statistics, Version, parse_universal, procedure,
};
use stoop_xdr::{Chain, Opaque, from_slice, to_vec};

fn address() -> SocketAddr {
    "127.0.0.1:111".parse().expect("an address")
}

/// A caller over each transport.
fn clients() -> [Client; 4] {
    let six = "[::1]:111".parse().expect("an address");
    [Client::udp(address()), Client::tcp(address()), Client::udp(six), Client::unix(SOCKET)]
}

#[test]
fn rpcbind_answers_null_over_every_transport_and_version() {
    sandbox::run("rpcbind::rpcbind_answers_null_over_every_transport_and_version", || {
        for mut client in clients() {
            for version in [Version::Three, Version::Four] {
                client.call(version.procedure(procedure::NULL), &()).results::<()>();
            }
        }
        Client::udp(address()).call(Version::PortMapper.procedure(procedure::NULL), &()).results::<()>();
    });
}

#[test]
fn the_port_mapper_registers_and_forgets() {
    sandbox::run("rpcbind::the_port_mapper_registers_and_forgets", || {
        let mut client = Client::udp(address());
        let mut call = |number, mapping: &Mapping| {
            let answer = client.call(Version::PortMapper.procedure(number), mapping);
            answer.results::<u32>()
        };
        let mapping = Mapping { program: PEER, version: 1, protocol: IPPROTO_UDP, port: 4567 };
        assert_eq!(call(procedure::SET, &mapping), 1);
        assert_eq!(call(procedure::SET, &Mapping { port: 4568, ..mapping }), 0, "it is registered");
        assert_eq!(call(procedure::GETPORT, &Mapping { port: 0, ..mapping }), 4567);
        let answer = Client::tcp(address()).call(Version::PortMapper.procedure(procedure::DUMP), &());
        let dump: Chain<Mapping> = answer.results();
        assert!(dump.contains(&mapping), "{dump:?}");
        assert!(dump.contains(&Mapping { program: 100_000, version: 2, protocol: IPPROTO_UDP, port: 111 }));
        assert_eq!(call(procedure::UNSET, &mapping), 1);
        assert_eq!(call(procedure::GETPORT, &mapping), 0);
    });
}

#[test]
fn rpcbind_registers_and_forgets() {
    sandbox::run("rpcbind::rpcbind_registers_and_forgets", || {
        let mut client = Client::unix(SOCKET);
        let four = |number| Version::Four.procedure(number);
        let rpcb = Rpcb { program: PEER, version: 2, netid: "udp", address: "127.0.0.1.17.215", owner: "" };
        assert!(client.call(four(procedure::SET), &rpcb).results::<bool>());
        let answer = client.call(four(procedure::DUMP), &());
        let dump: Chain<Rpcb<'_>> = answer.results();
        assert!(dump.contains(&Rpcb { owner: "superuser", ..rpcb }), "{dump:?}");
        let mut udp = Client::udp(address());
        let asked = Rpcb { address: "", ..rpcb };
        let found = |client: &mut Client, number, asked: &Rpcb<'_>| {
            parse_universal(client.call(four(number), asked).results())
        };
        let expected = Some("127.0.0.1:4567".parse().expect("an address"));
        assert_eq!(found(&mut udp, procedure::GETADDR, &asked), expected);
        // The version is not registered: GETADDR has another one's address, GETVERSADDR none.
        let missing = Rpcb { version: 7, ..asked };
        assert_eq!(found(&mut udp, procedure::GETADDR, &missing), expected);
        assert_eq!(found(&mut udp, procedure::GETVERSADDR, &missing), None);
        let answer = udp.call(four(procedure::GETADDRLIST), &asked);
        let entries: Chain<Entry<'_>> = answer.results();
        let (netid, protocol_family, protocol) = ("udp", "inet", "udp");
        let entry = Entry { address: "127.0.0.1.17.215", netid, semantics: 1, protocol_family, protocol };
        assert_eq!(*entries, [entry]);
        assert!(client.call(four(procedure::UNSET), &Rpcb { netid: "", ..asked }).results::<bool>());
        assert_eq!(found(&mut udp, procedure::GETADDR, &asked), None);
    });
}

#[test]
fn rpcbind_tells_time_statistics_and_addresses() {
    sandbox::run("rpcbind::rpcbind_tells_time_statistics_and_addresses", || {
        let mut client = Client::tcp(address());
        let four = |number| Version::Four.procedure(number);
        assert!(client.call(four(procedure::GETTIME), &()).results::<u32>() > 1_700_000_000);
        let answer = client.call(four(procedure::UADDR2TADDR), "127.0.0.1.0.111");
        let buffer: NetworkBuffer<'_> = answer.results();
        // A sockaddr_in: its family in the order of the machine, port and address in that of the network.
        assert_eq!(buffer.address[2..8], [0, 111, 127, 0, 0, 1]);
        let answer = client.call(four(procedure::TADDR2UADDR), &buffer);
        assert_eq!(answer.results::<&str>(), "127.0.0.1.0.111");
        let answer = client.call(four(procedure::GETSTAT), &());
        let [_, _, of_four]: [Statistics<'_>; 3] = answer.results();
        assert_eq!(of_four.calls[procedure::GETTIME as usize], 1, "{of_four:?}");
    });
}

#[test]
fn rpcbind_calls_a_program_of_its_machine() {
    sandbox::run("rpcbind::rpcbind_calls_a_program_of_its_machine", || {
        server::start(0);
        // rpcbind replies from another port than the one asked, so the socket must not be connected.
        let mut client = Client::unconnected(address());
        let (program, version, number) = (PEER, SQUARE.version, SQUARE.procedure);
        let arguments = to_vec(&9_u32).expect("a number has a form");
        let call = RemoteCall { program, version, procedure: number, arguments: Opaque(&arguments[..]) };
        let answer = client.call(Version::Four.procedure(procedure::INDIRECT), &call);
        let result: RemoteResult<'_> = answer.results();
        assert_eq!(from_slice(result.results.0), Ok(81_u64));
        assert!(parse_universal(result.address).is_some(), "{result:?}");
        // Errors are replies, too, though not the errors of the program.
        let unknown = RemoteCall { procedure: 77, ..call };
        let answer = client.call(Version::Four.procedure(procedure::INDIRECT), &unknown);
        assert_eq!(answer.accepted(), Accepted::SystemError);
        let answer =
            client.call(Version::Four.procedure(procedure::INDIRECT), &RemoteCall { program: 7, ..call });
        assert_eq!(answer.accepted(), Accepted::ProgramUnavailable);
        let call = CallIt { program, version, procedure: number, arguments: &arguments };
        let answer = client.call(Version::PortMapper.procedure(procedure::CALLIT), &call);
        let result: CallItResult<'_> = answer.results();
        assert_eq!(from_slice(result.results), Ok(81_u64));
        assert!(result.port > 0);
    });
}

#[test]
fn rpcbind_refuses_as_it_is_known_to() {
    sandbox::run("rpcbind::rpcbind_refuses_as_it_is_known_to", || {
        for mut client in clients() {
            let id = |program, version, procedure| ProcedureId { program, version, procedure };
            let mut accepted = |id| client.call(id, &()).accepted();
            assert_eq!(accepted(id(PEER, 1, 0)), Accepted::ProgramUnavailable);
            let Accepted::ProgramMismatch(VersionRange { high: 4, .. }) = accepted(id(100_000, 7, 0)) else {
                panic!("version 7 does not exist");
            };
            assert_eq!(accepted(id(100_000, 4, 77)), Accepted::ProcedureUnavailable);
            client.credential = Auth { flavor: Flavor(77), body: &[] };
            let denied = client.call(Version::Four.procedure(procedure::GETTIME), &()).denied();
            assert_eq!(denied, Denied::Auth(AuthStatus::REJECTED_CREDENTIAL));
        }
        let answer = Client::tcp(address()).call(Version::Four.procedure(procedure::GETADDR), &());
        assert_eq!(answer.accepted(), Accepted::GarbageArguments);
    });
}
