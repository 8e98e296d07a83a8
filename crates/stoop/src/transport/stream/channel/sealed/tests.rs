use crate::transport::stream::channel::Channel;
use crate::transport::stream::channel::sealed::*;
use stoop_net::stream::StreamArrival::{Bytes, Nothing};

/// Both ends of a sealed connection.
fn sealed_pair() -> (Channel, Channel) {
    let (ours, theirs) = Stream::pair().unwrap();
    (sealed(ours, ([1; 32], [2; 32])), sealed(theirs, ([2; 32], [1; 32])))
}

fn sealed(stream: Stream, secrets: (Secret, Secret)) -> Channel {
    let channel = Channel::new(stream);
    channel.seal(SealedStream::new(PacketSuite::Aes256Gcm, secrets, None, Vec::new()));
    channel
}

/// Sends all, and meanwhile receives into a buffer of `space` bytes at a time until there are `len` bytes.
fn carried(ours: &Channel, theirs: &Channel, bytes: &[u8], (len, space): (usize, usize)) -> Vec<u8> {
    let (mut rest, mut got, mut buffer) = (bytes, Vec::new(), vec![0; space]);
    while got.len() < len {
        if !rest.is_empty() {
            // Behind a short slice a long one, and short ones behind that.
            let (front, rest_of_it) = rest.split_at(rest.len().min(32));
            let (middle, end) = rest_of_it.split_at(rest_of_it.len() / 3);
            let slices = [front, middle, &end[..0], end].map(IoSlice::new);
            rest = &rest[ours.try_send(&slices).unwrap()..];
        }
        while let Bytes(len) = theirs.recv(&mut buffer, Patience::DontWait).unwrap() {
            got.extend_from_slice(&buffer[..len]);
        }
    }
    got
}

#[test]
fn bytes_arrive_as_they_were_sent_whatever_fits_at_either_end() {
    let (ours, theirs) = sealed_pair();
    for (len, space) in
        [(1, 1), (2, 100), (33, 7), (16_384, 16_384), (16_385, 1000), (1_000_000, 65_536), (70_000, 1)]
    {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 / 8) as u8).collect();
        assert!(carried(&ours, &theirs, &bytes, (len, space)) == bytes, "{len} bytes, {space} at a time");
        assert!(carried(&theirs, &ours, &bytes, (len, space)) == bytes, "{len} bytes back");
    }
}

#[test]
fn bytes_that_were_taken_leave_though_the_stream_was_full() {
    let (ours, theirs) = sealed_pair();
    let bytes: Vec<u8> = (0..4_000_000).map(|at| (at >> 4) as u8).collect();
    let mut taken = 0;
    loop {
        match ours.try_send(&[IoSlice::new(&bytes[taken..])]).unwrap() {
            0 => break,
            len => taken += len,
        }
    }
    assert!(taken < bytes.len(), "the stream is full");
    assert!(carried(&ours, &theirs, &bytes[taken..], (bytes.len(), 10_000)) == bytes);
}

#[test]
fn records_that_had_no_space_are_held_and_given_before_others() {
    let (ours, theirs) = sealed_pair();
    for part in [b"one", b"two"] {
        assert_eq!(ours.try_send(&[IoSlice::new(part)]).unwrap(), 3);
    }
    let mut buffer = [0; 2];
    assert_eq!(theirs.recv(&mut buffer, Patience::Block).unwrap(), Bytes(2));
    let mut got = buffer.to_vec();
    while let len @ 1.. = theirs.sealed().unwrap().take_held(&mut buffer).unwrap() {
        got.extend_from_slice(&buffer[..len]);
    }
    assert_eq!(got, b"onetwo");
    assert_eq!(theirs.recv(&mut buffer, Patience::DontWait).unwrap(), Nothing);
}

#[test]
fn a_forged_byte_ends_the_connection_and_nothing_opens_after_it() {
    let (middle, theirs) = Stream::pair().unwrap();
    let (ours, tap) = Stream::pair().unwrap();
    let (ours, theirs) = (sealed(ours, ([1; 32], [2; 32])), sealed(theirs, ([2; 32], [1; 32])));
    let (mut record, mut buffer) = ([0; 200], [0; 100]);
    for is_forged in [false, true, false] {
        assert_eq!(ours.try_send(&[IoSlice::new(b"some bytes")]).unwrap(), 10);
        let Bytes(len) = tap.recv(&mut record, Patience::Block).unwrap() else { panic!() };
        assert_eq!(len, 10 + RECORD_OVERHEAD);
        record[8] ^= u8::from(is_forged);
        // The first half is nothing yet.
        if !is_forged {
            middle.send_all(&record[..5], &[]).unwrap();
            if let Ok(early) = theirs.recv(&mut buffer, Patience::DontWait) {
                assert_eq!(early, Nothing);
            }
            middle.send_all(&record[5..len], &[]).unwrap();
        } else {
            middle.send_all(&record[..len], &[]).unwrap();
        }
        match theirs.recv(&mut buffer, Patience::DontWait) {
            Ok(Bytes(len)) => assert_eq!((&buffer[..len], is_forged), (&b"some bytes"[..], false)),
            Ok(other) => panic!("{other:?}"),
            Err(why) => assert_eq!(why.kind(), io::ErrorKind::InvalidData),
        }
    }
    assert!(theirs.recv(&mut buffer, Patience::DontWait).is_err());
}
