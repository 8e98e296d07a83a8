use super::*;
use std::thread;

/// The bytes of the item at that place, of different lengths.
fn item(index: usize) -> Vec<u8> {
    (0..8 * (index % 5000)).map(|at| (at + index) as u8).collect()
}

fn write(segment: &Segment, writing: &mut Writing, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let room = writing.room(segment, bytes.len().min(PIPE)).unwrap();
        if room == 0 {
            writing.sleep().sleep(segment, u64::MAX, || false);
            continue;
        }
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        writing.put(segment, now);
        writing.publish(segment);
        bytes = later;
    }
}

#[test]
fn bytes_arrive_in_order_and_then_the_end() {
    const ITEMS: usize = 3000;
    let (segment, _file) = Segment::create().unwrap();
    let segment = &segment;
    let all: Vec<u8> = (0..ITEMS).flat_map(item).collect();
    let received = thread::scope(|scope| {
        scope.spawn(move || {
            let mut writing = Writing::new(Way::Result, 7);
            (0..ITEMS).for_each(|index| write(segment, &mut writing, &item(index)));
            writing.close(segment, Closed::Whole);
        });
        let (mut reading, mut received) = (Reading::new(Way::Result, 7), Vec::new());
        loop {
            let closed = reading.closed(segment).unwrap();
            match reading.arrived(segment).unwrap() {
                0 if closed.is_some() => break received,
                0 => reading.sleep().sleep(segment, u64::MAX, || reading.closed(segment) != Ok(None)),
                len => _ = reading.take(segment, len, &mut received),
            }
        }
    });
    assert!(received == all);
    assert!(is_closed(segment, 7) && !is_closed(segment, 6));
}

#[test]
fn short_items_of_a_reader_that_waits_for_each_stay_at_the_beginning_of_the_ring() {
    let (segment, _file) = Segment::create().unwrap();
    let (mut writing, mut reading) = (Writing::new(Way::Call, 3), Reading::new(Way::Call, 3));
    let mut beyond = vec![0; 64];
    for index in 0..10_000_u64 {
        assert!(writing.room(&segment, PIPE).unwrap() >= 8);
        writing.put(&segment, &index.to_le_bytes());
        writing.publish(&segment);
        let mut bytes = Vec::new();
        let len = reading.arrived(&segment).unwrap();
        reading.take(&segment, len, &mut bytes);
        // Before it sleeps.
        reading.tell(&segment);
        assert_eq!(bytes, index.to_le_bytes());
    }
    segment.get(layout::pipe_byte(writing.pipe.number, 64), &mut beyond);
    assert_eq!(beyond, [0; 64]);
}

#[test]
fn counts_that_cannot_be_are_disorder() {
    let (segment, _file) = Segment::create().unwrap();
    let (mut writing, reading) = (Writing::new(Way::Call, 1), Reading::new(Way::Call, 1));
    let set = |line, count: u32| segment.half(line).store(count << 1, Ordering::Relaxed);
    set(writing.pipe.writer, PIPE as u32 + 8);
    assert_eq!(reading.arrived(&segment), Err(Disorder));
    set(writing.pipe.writer, 4);
    assert_eq!(reading.arrived(&segment), Err(Disorder));
    set(writing.pipe.writer, 0_u32.wrapping_sub(8));
    assert_eq!(reading.arrived(&segment), Err(Disorder));
    writing.put(&segment, &[1; 16]);
    set(writing.pipe.reader, 8);
    assert_eq!(writing.room(&segment, PIPE), Err(Disorder), "it was not published");
    writing.publish(&segment);
    assert_eq!(writing.room(&segment, PIPE), Ok(PIPE - 8));
    set(writing.pipe.reader, 0);
    assert_eq!(writing.room(&segment, PIPE), Err(Disorder), "it goes back");
    set(writing.pipe.reader, 24);
    assert_eq!(writing.room(&segment, PIPE), Err(Disorder));
    segment.half(writing.pipe.writer + CLOSED).store(3, Ordering::Relaxed);
    assert_eq!(reading.closed(&segment), Err(Disorder));
}

#[test]
fn a_call_finds_nothing_of_the_last_one_of_its_lane() {
    let (segment, _file) = Segment::create().unwrap();
    for way in [Way::Call, Way::Result] {
        let (mut writing, mut reading) = (Writing::new(way, 0), Reading::new(way, 0));
        writing.put(&segment, &[1; 24]);
        writing.publish(&segment);
        reading.take(&segment, 16, &mut Vec::new());
        writing.ask(&segment);
        reading.ask(&segment);
        reading.raise_limit(&segment, 1 << 40);
        reading.stop(&segment, Stopped::Answered);
        writing.close(&segment, Closed::Aborted);
    }
    reset(&segment, 0);
    for way in [Way::Call, Way::Result] {
        let (mut writing, reading) = (Writing::new(way, 0), Reading::new(way, 0));
        assert_eq!((reading.arrived(&segment), reading.closed(&segment)), (Ok(0), Ok(None)));
        assert_eq!((writing.limit(&segment), writing.stopped(&segment)), (0, None));
        assert_eq!(writing.room(&segment, PIPE), Ok(PIPE));
        assert!(!writing.publish(&segment), "nobody has asked");
    }
}

#[test]
fn an_end_that_asks_is_notified_once() {
    let (segment, _file) = Segment::create().unwrap();
    let ready = || {
        let mut lanes = Vec::new();
        take_ready(&segment, |lane| lanes.push(lane));
        lanes
    };
    let (mut writing, mut reading) = (Writing::new(Way::Call, 70), Reading::new(Way::Call, 70));
    reading.ask(&segment);
    writing.put(&segment, &[1; 8]);
    assert!(writing.publish(&segment) && has_ready(&segment));
    assert!(!writing.publish(&segment));
    assert_eq!((ready(), ready()), (vec![70], vec![]));
    // The caller is told by other means.
    writing.ask(&segment);
    // Of few bytes that were taken it is not told at once.
    assert!(!reading.take(&segment, 8, &mut Vec::new()));
    assert!(reading.tell(&segment) && !reading.tell(&segment));
    assert!(!has_ready(&segment));
    let (writing, reading) = (Writing::new(Way::Result, 5), Reading::new(Way::Result, 5));
    writing.ask(&segment);
    assert!(reading.raise_limit(&segment, 8));
    assert_eq!(ready(), [5]);
}
