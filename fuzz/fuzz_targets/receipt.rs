//! The payload of a receipt: read as it was written, or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::Receipt;

fuzz_target!(|payload: &[u8]| {
    let Some(receipt) = Receipt::decode(payload) else { return };
    assert!(receipt.ranges().len() <= Receipt::MOST_RANGES);
    let mut written = [0; Receipt::MAX_LEN];
    let len = receipt.put(&mut written);
    assert_eq!((len, &written[..len]), (receipt.encoded_len(), payload));
});
