//! Which calls take the fast path.

use super::*;

claims! { remote: [
    calls_of_one_packet_take_the_fast_path_and_longer_ones_do_not
    begun_calls_of_one_packet_take_the_fast_path_and_longer_ones_do_not
    calls_that_fill_a_packet_take_the_fast_path
] }

/// Bytes of arguments or results, and whether the call takes the fast path.
const LENGTHS: [(usize, u64); 4] = [(0, 1), (1400, 1), (100_000, 0), (1_000_000, 0)];

/// How many of the calls that this makes took the fast path, of one call.
///
/// On a busy machine a packet may be sent again. Then a call that should have taken the fast path is made once more. A call that should
/// not is never repeated: of its many packets one may be lost each time.
fn fast(client: &LabClient, expected: u64, mut call: impl FnMut()) -> u64 {
    loop {
        let before = client.binding().counters();
        call();
        let after = client.binding().counters();
        assert_eq!(after.calls - before.calls, 1);
        if after.packet == before.packet || expected == 0 {
            return after.fast - before.fast;
        }
    }
}

fn calls_of_one_packet_take_the_fast_path_and_longer_ones_do_not(transport: &str) {
    let (_server, _, client) = lab(transport);
    client.null().unwrap();
    for (len, expected) in LENGTHS {
        let bytes = vec![1; len];
        let arguments = fast(&client, expected, || assert_eq!(client.sum(&bytes).unwrap(), len as u64));
        let result = fast(&client, expected, || assert_eq!(client.bytes(len as u32, 1).unwrap().len(), len));
        assert_eq!((arguments, result), (expected, expected), "{len} bytes");
    }
}

fn begun_calls_of_one_packet_take_the_fast_path_and_longer_ones_do_not(transport: &str) {
    let (_server, _, client) = lab(transport);
    client.null().unwrap();
    for (len, expected) in LENGTHS {
        let bytes = vec![1; len];
        let arguments =
            fast(&client, expected, || assert_eq!(client.begin().sum(&bytes).wait().unwrap(), len as u64));
        let result = fast(&client, expected, || {
            assert_eq!(client.begin().bytes(len as u32, 1).wait().unwrap().len(), len)
        });
        assert_eq!((arguments, result), (expected, expected), "{len} bytes");
    }
}

fn calls_that_fill_a_packet_take_the_fast_path(transport: &str) {
    if ["udp_sealed", "ether_sealed"].contains(&transport) {
        // A sealed packet has 24 bytes less of data.
        return;
    }
    let (_server, _, client) = lab(transport);
    client.null().unwrap();
    let mut bytes = [0; 1440];
    assert_eq!(fast(&client, 1, || client.full_call(&[1; 1440]).unwrap()), 1);
    assert_eq!(fast(&client, 1, || client.begin().full_call(&[1; 1440]).wait().unwrap()), 1);
    assert_eq!(fast(&client, 1, || client.full_result(&mut bytes).unwrap()), 1);
    assert_eq!(bytes[1439], 1);
}
