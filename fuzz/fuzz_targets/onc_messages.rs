//! Messages of Sun RPC: calls, replies, credentials, and the arguments and results of rpcbind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_onc::auth::{AuthSys, BODY_MAX};
use stoop_onc::message::{Call, Reply};
use stoop_onc::rpcbind::{
    CallIt, CallItResult, Entry, Mapping, NetworkBuffer, RemoteCall, RemoteResult, Rpcb, Statistics,
    parse_universal, universal,
};
use stoop_onc::{Xid, message};
use stoop_xdr::limits::allocation_budget;
use stoop_xdr::{Chain, Decode, Encode, Reader, to_vec};

/// Read, written and read again it is the same.
fn check<'a, T: Decode<'a> + Encode>(message: &'a [u8]) {
    let mut reader = Reader::new(message);
    let Ok(value) = reader.value::<T>() else { return };
    let bytes = to_vec(&value).expect("what was read can be written");
    assert_eq!(bytes.len(), reader.position(), "it takes as many bytes as were read");
}

/// A reader of the second form has the budget of the first message.
fn check_again<T: Encode + for<'b> Decode<'b>>(message: &[u8]) {
    let mut reader = Reader::new(message);
    let Ok(value) = reader.value::<T>() else { return };
    let bytes = to_vec(&value).expect("what was read can be written");
    let again = Reader::with_budget(&bytes, allocation_budget(message.len())).value::<T>();
    assert_eq!(again.map(|value| to_vec(&value)), Ok(Ok(bytes)));
}

fn check_call(bytes: &[u8]) {
    match Call::parse(bytes) {
        Ok((call, arguments)) => {
            assert_eq!(Some(call.xid), Xid::of(bytes));
            let mut again = Vec::new();
            message::append(&call, &(), &mut again).expect("what was read can be written");
            assert_eq!(again.len(), arguments.position());
            assert_eq!(Call::parse(&again).map(|(call, _)| call), Ok(call));
            if let Ok(identity) = AuthSys::from_body(call.credential.body) {
                let mut room = [0; BODY_MAX];
                let credential = identity.credential(&mut room).expect("what was read can be written");
                assert_eq!(AuthSys::from_body(credential.body), Ok(identity));
            }
        }
        Err(bad) => {
            if let Some(reply) = bad.reply() {
                let bytes = to_vec(&reply).expect("a reply has a form");
                assert_eq!(Reply::parse(&bytes).map(|(reply, _)| reply), Ok(reply));
            }
        }
    }
}

fn check_reply(bytes: &[u8]) {
    match Reply::parse(bytes) {
        Ok((reply, results)) => {
            let again = to_vec(&reply).expect("what was read can be written");
            assert_eq!(again.len(), results.position());
            assert_eq!(Reply::parse(&again).map(|(reply, _)| reply), Ok(reply));
        }
        Err(bad) => assert_eq!(bad.xid, Xid::of(bytes)),
    }
}

fn check_address(text: &[u8]) {
    if let Ok(text) = std::str::from_utf8(text)
        && let Some(address) = parse_universal(text)
    {
        assert_eq!(parse_universal(&universal(address)), Some(address));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, message)) = input.split_first() else { return };
    match kind % 12 {
        0..=2 => check_call(message),
        3 | 4 => check_reply(message),
        5 => check_address(message),
        6 => check_again::<Chain<Mapping>>(message),
        7 => check::<Chain<Rpcb<'_>>>(message),
        8 => check::<Chain<Entry<'_>>>(message),
        9 => check::<[Statistics<'_>; 3]>(message),
        10 => {
            check::<CallIt<'_>>(message);
            check::<RemoteCall<'_>>(message);
        }
        _ => {
            check::<CallItResult<'_>>(message);
            check::<RemoteResult<'_>>(message);
            check::<NetworkBuffer<'_>>(message);
        }
    }
});
