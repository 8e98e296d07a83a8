use super::*;
use crate::transport::shm::pipes::side::alone::Alone;
use std::sync::mpsc;
use std::task::Wake;
use std::thread;
use std::time::Duration;
use stoop_shm::pipe::{Closed, Reading};
use stoop_shm::{Segment, Way};

/// A procedure's end that may send as much as there is room for, and the reader.
fn pipe() -> (Arc<WritingEnd<Alone>>, Segment, Reading) {
    let (segment, file) = Segment::create().unwrap();
    let reader = Segment::attach(&file).unwrap();
    let terms = Terms { callers_step_ns: None, item_max: 1 << 20, limit: u64::MAX };
    let end = WritingEnd::new(&Arc::new(Alone(segment)), Writing::new(Way::Result, 0), terms);
    (end, reader, Reading::new(Way::Result, 0))
}

/// The bytes of these items as records.
fn records(items: [&[u8]; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    items.iter().for_each(|item| Record::of(item).put(0, &mut bytes));
    bytes
}

#[test]
fn the_newest_item_comes_behind_a_long_one_that_is_half_written_when_the_call_is_answered() {
    let (end, segment, mut reading) = pipe();
    let (long, newest) = ([1; 3 * PIPE], [2; 100]);
    assert!(end.append(&Record::of(&long)).unwrap());
    end.append_latest(0, &Record::of(&newest)).unwrap();
    let mut received = Vec::new();
    // The writer has not looked since: there is room in the ring, and the rest of the long item waits for it.
    let _ = reading.take(&segment, PIPE / 2, &mut received);
    assert!(end.answer(Close::Whole, PipeError::Ended).is_none());
    while end.is_owing() || reading.arrived(&segment).unwrap() > 0 {
        let len = reading.arrived(&segment).unwrap();
        let _ = reading.take(&segment, len, &mut received);
        let _ = reading.tell(&segment);
        end.advance();
    }
    assert!(received == records([&long, &newest]), "the items came in another order");
    assert_eq!(reading.closed(&segment).unwrap(), Some(Closed::Whole));
}

#[test]
fn the_newest_item_waits_while_another_thread_writes_a_long_one() {
    let (end, segment, mut reading) = pipe();
    end.state().is_writing = true;
    let (kept, is_kept) = mpsc::channel();
    let other = Arc::clone(&end);
    thread::spawn(move || {
        other.append_latest(0, &Record::of(&[2; 100])).unwrap();
        other.advance();
        kept.send(()).unwrap();
    });
    is_kept.recv_timeout(Duration::from_secs(60)).expect("it does not wait for the other thread");
    assert_eq!(reading.arrived(&segment).unwrap(), 0);
    end.state().is_writing = false;
    end.advance();
    let (len, mut received) = (reading.arrived(&segment).unwrap(), Vec::new());
    let _ = reading.take(&segment, len, &mut received);
    assert!(received.ends_with(&[2, 2, 0, 0, 0, 0]), "{received:?}");
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_task_is_woken_when_another_thread_has_written_the_long_item_that_kept_it_from_sending() {
    let (end, _segment, _reading) = pipe();
    end.state().is_writing = true;
    let task = Arc::new(Woken::default());
    assert!(!end.poll_room(&Waker::from(Arc::clone(&task))));
    let item = [1; 100];
    let record = Record::of(&item);
    let (head, item, padding) = record.parts(0);
    end.put_rest([&head, item, padding]).unwrap();
    assert!(task.0.load(Ordering::SeqCst), "nobody wakes it: the reader has nothing to take");
    assert!(end.has_room());
}
