use super::*;
use stoop_seal::Opened;

fn key(first: u8) -> OwnKey {
    OwnKey::of_seed([first; 32])
}

fn keys(own: Option<OwnKey>) -> Keys {
    Keys { own, callers: None, servers: None, anonymous: false, log: None }
}

fn key_of_server() -> PublicKey {
    key(2).public
}

const N: BindingId = BindingId(BindingId::SEALED | 7);

/// A handshake that goes well up to the end of the caller.
fn ends(
    caller: &Keys,
    servers: Vec<PublicKey>,
    server: Keys,
) -> Result<(CallerHandshake, ServerHandshake), Failed> {
    let mut accepts = Acceptor::new(&Arc::new(server)).unwrap().begin();
    let mut asks = CallerHandshake::begin(caller, servers);
    assert!(accepts.input(&asks.output()));
    asks.input(&accepts.output())?;
    assert!(!asks.is_going_on());
    asks.write(b"bind");
    if !accepts.input(&asks.output()) {
        asks.input(&accepts.output())?;
        panic!("the caller learns why");
    }
    Ok((asks, accepts))
}

#[test]
fn both_ends_know_each_other_and_have_the_same_keys() {
    let (caller, server) = (keys(Some(key(1))), Keys { anonymous: true, ..keys(Some(key(2))) });
    let (mut asks, mut accepts) = ends(&caller, vec![key(2).public], server).unwrap();
    assert_eq!(accepts.caller(), Some(key(1).public));
    assert_eq!(accepts.read(), b"bind");
    accepts.write(b"bound");
    asks.input(&accepts.output()).unwrap();
    assert_eq!(asks.read(), b"bound");
    assert_eq!(asks.server(), Some(key(2).public));
    let (seals, opens) =
        (asks.keys(N).unwrap().seal(Side::Caller, 0), accepts.keys(N).unwrap().seal(Side::Server, 0));
    let mut packet = [1; 32 + 4 + 24];
    packet[3] = 0;
    assert!(seals.seal(&mut packet, 36));
    assert_ne!(packet[32..36], [1; 4]);
    assert_eq!(opens.open(0, &mut packet, 36), Opened::Yes);
    assert_eq!(packet[32..36], [1; 4]);
    let other = asks.keys(BindingId(N.0 + 1)).unwrap().seal(Side::Caller, 0);
    assert!(other.seal(&mut packet, 36));
    assert_eq!(opens.open(0, &mut packet, 36), Opened::No, "each binding has keys of its own");
}

#[test]
fn a_server_with_another_key_is_not_taken() {
    let failed = ends(&keys(None), vec![key(1).public], keys(Some(key(2)))).err();
    assert!(matches!(failed, Some(Failed::OtherServer(other)) if other == key(2).public));
}

#[test]
fn a_caller_with_another_key_or_none_is_not_served_and_learns_it() {
    for own in [Some(key(1)), None] {
        let failed = ends(&keys(own), vec![key(2).public], keys(Some(key(2)))).err();
        assert!(matches!(failed, Some(Failed::UnknownCaller)), "{failed:?}");
    }
}

#[test]
fn a_caller_with_the_key_of_the_server_is_served() {
    ends(&keys(Some(key(2))), vec![key(2).public], keys(Some(key(2)))).map(drop).unwrap();
}

#[test]
fn an_anonymous_caller_is_served_where_such_are() {
    let server = Keys { anonymous: true, ..keys(Some(key(2))) };
    let (_, accepts) = ends(&keys(None), vec![key(2).public], server).unwrap();
    assert!(accepts.caller().is_some_and(|key| key != key_of_server()));
}

#[test]
fn bytes_that_are_no_handshake_are_refused() {
    let mut accepts = Acceptor::new(&Arc::new(keys(Some(key(2))))).unwrap().begin();
    assert!(!accepts.input(&[0x55; 1000]));
    assert!(accepts.read().is_empty() && accepts.keys(N).is_none());
}
