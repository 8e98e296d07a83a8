use super::*;
use std::sync::Arc;
use std::thread;

fn sent(segment: &Segment, filling: &mut Filling, message: &[u8]) {
    while !filling.is_done() {
        while !filling.has_room(segment) {
            filling.sleep(segment, u64::MAX);
        }
        let next = &message[filling.sent()..][..filling.next_len()];
        let (first, second) = next.split_at(next.len() / 3);
        filling.fill(segment, [first, second]);
    }
}

/// Fills all of a message and begins the next.
fn sent_whole(segment: &Segment, filling: &mut Filling) -> Filling {
    while !filling.is_done() {
        let next = vec![1; filling.next_len()];
        filling.fill(segment, [&next[..]]);
    }
    Filling::new(Way::Result, 0, filling.end(), 5)
}

fn received(segment: &Segment, emptying: &mut Emptying) -> Vec<u8> {
    let mut message = Vec::new();
    while !emptying.is_done() {
        while !emptying.has_more(segment).unwrap() {
            emptying.sleep(segment, u64::MAX);
        }
        emptying.take(segment, &mut message);
    }
    message
}

#[test]
fn messages_of_many_chunks_arrive_one_after_the_other() {
    let (segment, _file) = Segment::create().unwrap();
    let segment = Arc::new(segment);
    let mut base = count::MASK - 20;
    filled(&segment, CHANNELS + 1).set(base);
    emptied(&segment, CHANNELS + 1).set(base);
    for len in [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNKS * CHUNK + 5, CHUNKS * CHUNK] {
        let message: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
        let mut filling = Filling::new(Way::Result, 1, base, len);
        let mut emptying = Emptying::new(Way::Result, 1, filling.base(), len).unwrap();
        let other = Arc::clone(&segment);
        let receiver = thread::spawn(move || received(&other, &mut emptying));
        sent(&segment, &mut filling, &message);
        assert!(receiver.join().unwrap() == message, "{len}");
        base = filling.end();
    }
}

#[test]
fn what_is_forgotten_does_not_disturb_the_next() {
    let (segment, _file) = Segment::create().unwrap();
    let mut first = Filling::new(Way::Call, 0, 0, 10 * CHUNK);
    for _ in 0..3 {
        first.fill(&segment, [&[1; CHUNK][..]]);
    }
    let mut emptying = Emptying::new(Way::Call, 0, first.base(), 10 * CHUNK).unwrap();
    emptying.take(&segment, &mut Vec::new());
    first.forget(&segment);
    let mut second = Filling::new(Way::Call, 0, first.end(), 7);
    assert!(second.has_room(&segment));
    let mut emptying = Emptying::new(Way::Call, 0, second.base(), 7).unwrap();
    assert_eq!(emptying.has_more(&segment), Ok(false));
    second.fill(&segment, [&b"another"[..]]);
    assert_eq!(received(&segment, &mut emptying), b"another");
    assert!(second.is_emptied(&segment));
}

#[test]
fn no_message_begins_before_the_last_has_been_read() {
    let (segment, _file) = Segment::create().unwrap();
    let mut first = Filling::new(Way::Result, 0, 0, CHUNK + 2);
    let mut second = sent_whole(&segment, &mut first);
    let mut emptying = Emptying::new(Way::Result, 0, first.base(), CHUNK + 2).unwrap();
    assert!(!second.has_room(&segment));
    emptying.take(&segment, &mut Vec::new());
    assert!(!second.has_room(&segment) && !first.is_emptied(&segment));
    emptying.take(&segment, &mut Vec::new());
    assert!(second.has_room(&segment) && first.is_emptied(&segment));
    second.fill(&segment, [&[3; 5][..]]);
    assert!(!second.is_emptied(&segment));
}

#[test]
fn a_receiver_that_claims_what_cannot_be_gets_nothing_more() {
    let (segment, _file) = Segment::create().unwrap();
    let mut filling = Filling::new(Way::Call, 2, 8, 10 * CHUNK);
    for claimed in [7, 9, 0, count::MASK] {
        emptied(&segment, 2).set(claimed);
        assert!(!filling.has_room(&segment), "{claimed}");
    }
    emptied(&segment, 2).set(8);
    filling.fill(&segment, [&[1; CHUNK][..]]);
    emptied(&segment, 2).set(9);
    assert!(filling.has_room(&segment));
    emptied(&segment, 2).set(10);
    assert!(!filling.has_room(&segment));
}

#[test]
fn chunks_outlive_their_sender_and_no_receiver_sleeps_for_more() {
    let (segment, _file) = Segment::create().unwrap();
    let mut filling = Filling::new(Way::Result, 1, 0, 2 * CHUNK);
    filling.fill(&segment, [&[7; CHUNK][..]]);
    // As often as somebody notices.
    for _ in 0..2 {
        Filling::give_up(&segment, Way::Result);
    }
    let mut emptying = Emptying::new(Way::Result, 1, 0, 2 * CHUNK).unwrap();
    let mut message = Vec::new();
    assert_eq!(emptying.has_more(&segment), Ok(true));
    emptying.take(&segment, &mut message);
    assert_eq!(message, [7; CHUNK]);
    assert_eq!(emptying.has_more(&segment), Ok(false));
    emptying.sleep(&segment, u64::MAX);
}

#[test]
fn a_sender_that_claims_more_than_there_is_room_for_is_found_out() {
    let (segment, _file) = Segment::create().unwrap();
    let emptying = Emptying::new(Way::Call, 3, 5, 1 << 20).unwrap();
    filled(&segment, 3).set(5 + CHUNKS as u32);
    assert_eq!(emptying.has_more(&segment), Ok(true));
    filled(&segment, 3).set(6 + CHUNKS as u32);
    assert_eq!(emptying.has_more(&segment), Err(Disorder));
    assert!(Emptying::new(Way::Call, CHANNELS as u8, 0, 1).is_none());
}

#[test]
fn forgetting_what_was_not_begun_leaves_the_message_before_it_alone() {
    let (segment, _file) = Segment::create().unwrap();
    let mut first = Filling::new(Way::Result, 0, 0, CHUNK);
    first.fill(&segment, [&[7; CHUNK][..]]);
    let second = Filling::new(Way::Result, 0, first.end(), CHUNK);
    assert!(!second.has_room(&segment) && !second.has_begun());
    second.forget(&segment);
    assert!(!first.is_emptied(&segment));
    first.forget(&segment);
    assert!(first.is_emptied(&segment) && second.has_room(&segment));
}

#[test]
fn a_complete_message_ignores_the_next_message_of_its_channel() {
    let (segment, _file) = Segment::create().unwrap();
    let mut filling = Filling::new(Way::Result, 0, 0, CHUNK);
    filling.fill(&segment, [&[1; CHUNK][..]]);
    let mut complete = Emptying::new(Way::Result, 0, filling.base(), CHUNK).unwrap();
    complete.take(&segment, &mut Vec::new());
    // Another thread takes more chunks of later messages than the channel holds at a time.
    for _ in 0..=CHUNKS {
        filling = Filling::new(Way::Result, 0, filling.end(), CHUNK);
        filling.fill(&segment, [&[2; CHUNK][..]]);
        let mut next = Emptying::new(Way::Result, 0, filling.base(), CHUNK).unwrap();
        next.take(&segment, &mut Vec::new());
        assert_eq!(complete.has_more(&segment), Ok(false));
    }
}

#[test]
fn no_more_is_taken_of_a_chunk_than_it_has() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let (segment, _file) = Segment::create().unwrap();
    let mut filling = Filling::new(Way::Result, 0, 0, 10);
    filling.fill(&segment, [&[1; 10][..]]);
    let mut emptying = Emptying::new(Way::Result, 0, 0, 10).unwrap();
    let mut chunk = emptying.chunk(&segment);
    chunk.skip(4);
    assert!(catch_unwind(AssertUnwindSafe(|| chunk.append(7, &mut Vec::new()))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| chunk.take(&mut [0; 7]))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| chunk.skip(7))).is_err());
    chunk.append(6, &mut Vec::new());
    chunk.finish();
    let mut filling = Filling::new(Way::Result, 1, 0, 10);
    let mut chunk = filling.chunk(&segment);
    assert!(catch_unwind(AssertUnwindSafe(|| chunk.put(&[0; 11]))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| chunk.finish())).is_err(), "it is not full");
}
