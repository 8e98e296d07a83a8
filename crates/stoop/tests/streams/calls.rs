//! Calls and their results over byte streams.

use super::*;

#[test]
fn messages_around_the_length_of_a_fragment_travel() {
    let (_server, _, client) = lab();
    for around in [16 * 1024, STREAM_FRAGMENT, 2 * STREAM_FRAGMENT] {
        for len in around - 40..around + 8 {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
        }
    }
}

#[test]
fn callers_over_tcp_are_known_by_their_address() {
    let (_server, _, client) = lab();
    assert!(client.caller().unwrap().starts_with("network 127.0.0.1:"));
}
