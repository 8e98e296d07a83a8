//! Sealed packets and records, of which the input passes on some as they are, and makes changed, cut, old and foreign ones of others.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_seal::toy::Toy;
use stoop_seal::{
    HEADER_LEN, Numbers, Opened, RECORD_OVERHEAD, RecordOpener, RecordSealer, Seal, Secret, Side, TRAILER_LEN,
};

const SECOND: u64 = 1_000_000_000;

/// A packet as its sender had it, and sealed.
struct Sent {
    clear: Vec<u8>,
    sealed: Vec<u8>,
}

/// A secret that a change of any byte of the input changes: from comparisons alone, the fuzzer learns no tag that it could use.
fn secret(input: &[u8], of: u8) -> Secret {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    input.iter().chain([&of]).for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut secret = [of; 32];
    secret[..8].copy_from_slice(&hash.to_le_bytes());
    secret
}

fn end(input: &[u8], side: Side) -> Seal<Toy> {
    Seal::new(Toy, side, secret(input, 1), secret(input, 2), 0)
}

/// Opens a packet. What opens is what the other end has sealed.
fn open(server: &Seal<Toy>, now_ns: u64, packet: &[u8], sent: &[Sent]) -> Opened {
    let mut packet = packet.to_vec();
    let was = packet.clone();
    let end = packet.len().saturating_sub(TRAILER_LEN);
    let opened = server.open(now_ns, &mut packet, end);
    if opened != Opened::No {
        let sent = sent.iter().find(|sent| sent.sealed == was).expect("nothing else opens");
        assert_eq!(packet[..end], sent.clear[..end]);
    }
    opened
}

fuzz_target!(|input: &[u8]| {
    let (mut caller, mut server, mut now_ns) = (end(input, Side::Caller), end(input, Side::Server), SECOND);
    let (mut sealer, mut opener) = (RecordSealer::new(Toy, secret(input, 3), 0), RecordOpener::new(Toy, secret(input, 3)));
    let mut numbers = [Numbers::default(), Numbers::default()];
    let (mut sent, mut records, mut next_record) = (Vec::<Sent>::new(), Vec::<Vec<u8>>::new(), 0);
    for (at, fields) in input.chunks_exact(4).enumerate() {
        let [operation, which, place, bits] = *fields else { unreachable!("they are four") };
        let chosen = sent.len().checked_sub(1).map(|last| usize::from(which) % (last + 1));
        match (operation % 8, chosen) {
            (0, _) => {
                let mut clear = vec![place; HEADER_LEN + usize::from(which) + TRAILER_LEN];
                clear[3] = 0;
                let mut sealed = clear.clone();
                assert!(caller.seal(&mut numbers[usize::from(bits & 1)], &mut sealed, HEADER_LEN + usize::from(which)));
                assert!(sent.iter().all(|other| other.sealed != sealed), "no number is used twice");
                sent.push(Sent { clear, sealed });
            }
            (1, Some(chosen)) => {
                if open(&server, now_ns, &sent[chosen].sealed, &sent) == Opened::InNextPhase {
                    server = server.next(now_ns, true);
                }
            }
            (2, Some(chosen)) if bits != 0 => {
                let mut packet = sent[chosen].sealed.clone();
                let place = usize::from(place) % packet.len();
                packet[place] ^= bits;
                open(&server, now_ns, &packet, &sent);
            }
            (3, Some(chosen)) => {
                let packet = &sent[chosen].sealed;
                open(&server, now_ns, &packet[..usize::from(place) % packet.len()], &sent);
                // The other direction.
                assert_eq!(open(&caller, now_ns, packet, &[]), Opened::No);
            }
            (4, _) => {
                open(&server, now_ns, &input[4 * at..], &sent);
            }
            (5, _) => {
                // As after an hour: both ends have heard each other.
                now_ns += u64::from(which) * SECOND / 16;
                if caller.phase() == server.phase() {
                    caller = caller.next(now_ns, true);
                }
            }
            (6, _) => {
                let mut record = vec![place; RECORD_OVERHEAD + 1 + usize::from(which)];
                if bits & 1 == 1 {
                    sealer.look(u64::MAX);
                }
                sealer.seal(&mut record);
                records.push(record);
            }
            (7, _) if !records.is_empty() => {
                let mut record = records[usize::from(which) % records.len()].clone();
                let place = usize::from(place) % record.len();
                record[place] ^= bits;
                let is_next = records.get(next_record) == Some(&record);
                assert_eq!(opener.open(&mut record), is_next);
                if !is_next {
                    return;
                }
                next_record += 1;
            }
            _ => {}
        }
    }
});
