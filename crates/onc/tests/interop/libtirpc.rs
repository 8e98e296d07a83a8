//! Headers and rpcbind's messages are those of libtirpc: the same bytes for random values, and the same verdict on any
//! bytes, except where libtirpc is known to be lenient.
//!
//! Needs a C compiler and libtirpc (Debian: gcc, libtirpc-dev).

#[path = "../../../xdr/tests/oracle/mod.rs"]
mod oracle;

use oracle::{Oracle, hex, mutate, mutations};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use stoop_onc::Xid;
use stoop_onc::auth::{Auth, AuthStatus, AuthSys, Flavor, Groups};
use stoop_onc::message::{Accepted, BadCall, Call, Denied, ProcedureId, Reply, ReplyBody, VersionRange};
use stoop_onc::rpcbind::{AddressCount, Entry, Mapping, NetworkBuffer, RemoteCallCount, Rpcb, Statistics};
use stoop_xdr::{Chain, Decode, DecodeError, Encode, Fault, Reader, to_vec};

/// How we read bytes: how many belong to the value, and its form again.
type Read = fn(&[u8]) -> Result<(usize, Vec<u8>), DecodeError>;

fn read<'a, T: Decode<'a> + Encode>(bytes: &'a [u8]) -> Result<(usize, Vec<u8>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let value: T = reader.value()?;
    Ok((reader.position(), to_vec(&value).expect("it was read")))
}

fn read_call(bytes: &[u8]) -> Result<(usize, Vec<u8>), DecodeError> {
    match Call::parse(bytes) {
        Ok((call, arguments)) => Ok((arguments.position(), to_vec(&call).expect("it was read"))),
        Err(BadCall::Truncated(error)) => Err(error),
        Err(_) => Err(DecodeError { position: 0, fault: Fault::OverBudget }),
    }
}

fn read_reply(bytes: &[u8]) -> Result<(usize, Vec<u8>), DecodeError> {
    match Reply::parse(bytes) {
        Ok((reply, results)) => Ok((results.position(), to_vec(&reply).expect("it was read"))),
        Err(bad) => Err(bad.error),
    }
}

/// libtirpc takes any number for TRUE, does not know UTF-8, and takes unknown states of an accepted reply.
fn libtirpc_may_accept(fault: Fault) -> bool {
    matches!(fault, Fault::NotBool { .. } | Fault::NotUtf8 | Fault::UnknownArm { name: "accepted_reply", .. })
}

/// libtirpc cuts strings at a NUL: a type that has strings may get the form of another value, which is no longer.
fn may_be_cut(name: &str, ours: &[u8], theirs: &str) -> bool {
    ["sys", "rpcbs", "entries", "statistics"].contains(&name) && theirs.len() <= 2 * ours.len()
}

fn compare(oracle: &mut Oracle, name: &str, read: Read, bytes: &[u8]) -> Result<(), TestCaseError> {
    match (read(bytes), oracle.ask(name, bytes)) {
        (Ok((len, form)), Some((their_len, their_form))) => {
            prop_assert_eq!(len, their_len, "bytes read of {}", hex(bytes));
            let is_equal = hex(&form) == their_form;
            prop_assert!(
                is_equal || may_be_cut(name, &form, &their_form),
                "{} became {}",
                hex(bytes),
                their_form
            );
        }
        (Ok(_), None) => prop_assert!(false, "libtirpc refuses {name} {}", hex(bytes)),
        (Err(error), Some(_)) => {
            prop_assert!(libtirpc_may_accept(error.fault), "libtirpc accepts {name} {}: {error}", hex(bytes));
        }
        (Err(_), None) => {}
    }
    Ok(())
}

/// Compares random values, and their changed bytes.
fn check(oracle: &RefCell<Oracle>, name: &str, read: Read, forms: BoxedStrategy<Vec<u8>>) {
    let mut runner = TestRunner::new(Config::with_cases(400));
    let outcome = runner.run(&(forms, mutations()), |(mut bytes, mutations)| {
        let oracle = &mut *oracle.borrow_mut();
        let ours = read(&bytes).map(|(_, form)| form);
        prop_assert_eq!(ours.as_ref(), Ok(&bytes));
        prop_assert_eq!(oracle.ask(name, &bytes), Some((bytes.len(), hex(&bytes))));
        mutate(&mut bytes, &mutations);
        compare(oracle, name, read, &bytes)
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn form(value: &impl Encode) -> Vec<u8> {
    to_vec(value).expect("the value has a form")
}

fn auth() -> impl Strategy<Value = (u32, Vec<u8>)> {
    (any::<u32>(), prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 390..=400)])
}

fn calls() -> BoxedStrategy<Vec<u8>> {
    (any::<[u32; 4]>(), auth(), auth())
        .prop_map(|([xid, program, version, procedure], credential, verifier)| {
            let auth = |(flavor, body)| Auth { flavor: Flavor(flavor), body };
            form(&Call {
                xid: Xid(xid),
                procedure: ProcedureId { program, version, procedure },
                credential: auth((credential.0, &credential.1)),
                verifier: auth((verifier.0, &verifier.1)),
            })
        })
        .boxed()
}

fn replies() -> BoxedStrategy<Vec<u8>> {
    (any::<[u32; 3]>(), 0..8u8, auth())
        .prop_map(|([xid, low, high], state, (flavor, body))| {
            let verifier = Auth { flavor: Flavor(flavor), body: &body };
            let range = VersionRange { low, high };
            let accepted = |status| ReplyBody::Accepted { verifier, status };
            let body = match state {
                0 => accepted(Accepted::Success),
                1 => accepted(Accepted::ProgramUnavailable),
                2 => accepted(Accepted::ProgramMismatch(range)),
                3 => accepted(Accepted::ProcedureUnavailable),
                4 => accepted(Accepted::GarbageArguments),
                5 => accepted(Accepted::SystemError),
                6 => ReplyBody::Denied(Denied::RpcMismatch(range)),
                _ => ReplyBody::Denied(Denied::Auth(AuthStatus(low))),
            };
            form(&Reply { xid: Xid(xid), body })
        })
        .boxed()
}

fn credentials() -> BoxedStrategy<Vec<u8>> {
    (any::<[u32; 3]>(), vec(1..=255u8, 0..=255), vec(any::<u32>(), 0..=16))
        .prop_map(|([stamp, uid, gid], name, gids)| {
            form(&AuthSys { stamp, machine_name: &name, uid, gid, gids: Groups::first_of(&gids) })
        })
        .boxed()
}

fn mappings() -> BoxedStrategy<Vec<u8>> {
    let mapping = any::<[u32; 4]>().prop_map(|[program, version, protocol, port]| Mapping {
        program,
        version,
        protocol,
        port,
    });
    vec(mapping, 0..9).prop_map(|mappings| form(&Chain(mappings))).boxed()
}

fn rpcbs() -> BoxedStrategy<Vec<u8>> {
    vec((any::<[u32; 2]>(), "[a-z0-9]{0,6}", "[0-9.:é]{0,9}", "[a-z]{0,5}"), 0..9)
        .prop_map(|all| {
            let rpcb = |([program, version], netid, address, owner): &([u32; 2], String, String, String)| {
                form(&Rpcb { program: *program, version: *version, netid, address, owner })
            };
            chain(all.iter().map(rpcb))
        })
        .boxed()
}

fn entries() -> BoxedStrategy<Vec<u8>> {
    vec(("[0-9.:]{0,9}", "[a-z0-9]{0,6}", any::<u32>(), "[a-z0-9]{0,6}"), 0..9)
        .prop_map(|all| {
            let entry = |(address, netid, semantics, family): &(String, String, u32, String)| {
                let (semantics, protocol) = (*semantics, netid);
                form(&Entry { address, netid, semantics, protocol_family: family, protocol })
            };
            chain(all.iter().map(entry))
        })
        .boxed()
}

/// A list of nodes in their forms.
fn chain(nodes: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    nodes.flat_map(|node| [vec![0, 0, 0, 1], node]).chain([vec![0; 4]]).flatten().collect()
}

fn statistics() -> BoxedStrategy<Vec<u8>> {
    (any::<[i32; 13]>(), any::<[i32; 4]>(), any::<[u32; 3]>(), "[a-z0-9]{0,6}", 0..3usize)
        .prop_map(
            |(calls, [sets, unsets, successes, failures], [program, version, procedure], netid, len)| {
                let netid = &*netid;
                let address = AddressCount { program, version, successes, failures, netid };
                let call = RemoteCallCount {
                    program,
                    version,
                    procedure,
                    successes,
                    failures,
                    is_indirect: sets,
                    netid,
                };
                let (addresses, remote_calls) = (Chain(vec![address; len]), Chain(vec![call; 2 - len]));
                form(&vec![Statistics { calls, sets, unsets, addresses, remote_calls }; 3])[4..].to_vec()
            },
        )
        .boxed()
}

fn buffers() -> BoxedStrategy<Vec<u8>> {
    (vec(any::<u8>(), 0..40), 0..9u32)
        .prop_map(|(address, more)| {
            form(&NetworkBuffer { room: address.len() as u32 + more, address: &address })
        })
        .boxed()
}

#[test]
fn headers_and_rpcbinds_messages_are_those_of_libtirpc() {
    let oracle = match Oracle::start("headers") {
        Ok(oracle) => RefCell::new(oracle),
        Err(why) => return println!("SKIPPED: headers_and_rpcbinds_messages_are_those_of_libtirpc: {why}"),
    };
    check(&oracle, "call", read_call, calls());
    check(&oracle, "reply", read_reply, replies());
    check(&oracle, "sys", |bytes| read::<AuthSys<'_>>(bytes), credentials());
    check(&oracle, "mappings", |bytes| read::<Chain<Mapping>>(bytes), mappings());
    check(&oracle, "rpcbs", |bytes| read::<Chain<Rpcb<'_>>>(bytes), rpcbs());
    check(&oracle, "entries", |bytes| read::<Chain<Entry<'_>>>(bytes), entries());
    check(&oracle, "statistics", |bytes| read::<[Statistics<'_>; 3]>(bytes), statistics());
    check(&oracle, "buffer", |bytes| read::<NetworkBuffer<'_>>(bytes), buffers());
}
