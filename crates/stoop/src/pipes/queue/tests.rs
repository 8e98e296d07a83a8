use super::*;

/// Packets of one pipe, as they arrive.
struct Arriving {
    queue: PipeQueue,
    at: u64,
    taken: Vec<u8>,
}

impl Arriving {
    fn new() -> Self {
        let window = Window::Usual.size().bytes();
        Self { queue: PipeQueue::new(window, Window::Usual), at: 0, taken: Vec::new() }
    }

    fn arrive(&mut self, len: u16, has_waited: bool) {
        let packet = Data { at: self.at, len, end: None, has_waited, transmission: 1 };
        self.queue.arrive(&packet, self.at, &vec![0; len.into()]).expect("it is below the limit").give();
        self.at += u64::from(len);
    }

    /// The program takes everything, finds nothing more, and says so. Returns the window.
    fn take_all(&mut self) -> u64 {
        while matches!(self.queue.take(&mut self.taken), Ok(Arrival::Bytes)) {}
        self.queue.note_taken(self.at, None).wakeup.give();
        self.queue.limit() - self.at
    }
}

#[test]
fn a_window_grows_when_sender_and_reader_have_waited_for_each_other_and_once_for_each_window() {
    let mut pipe = Arriving::new();
    let first = pipe.take_all();
    pipe.arrive(1000, false);
    assert!(pipe.take_all() <= first, "the sender had nothing to send");
    pipe.arrive(1000, false);
    pipe.arrive(1000, true);
    assert!(pipe.take_all() <= first, "the reader had something to take");
    pipe.arrive(1000, true);
    assert_eq!(pipe.take_all(), 2 * first);
    pipe.arrive(1000, true);
    assert!(pipe.take_all() <= 2 * first, "that was the window before");
    while pipe.at < pipe.queue.limit() - 1000 {
        pipe.arrive(1000, false);
        pipe.take_all();
        if pipe.at > 4 * first {
            break;
        }
    }
    pipe.arrive(1000, true);
    assert_eq!(pipe.take_all(), 4 * first);
}

#[test]
fn a_record_that_found_no_room_below_the_limit_tells_that_the_next_bytes_have_waited() {
    let (queue, item) = (PipeQueue::new(8, Window::Usual), []);
    let append = || queue.append(&Record::of(&item)).expect("it is open");
    let pull = || queue.pull(&mut Vec::new()).has_waited;
    assert!(matches!(append(), Appended::Queued(_)) && !pull());
    queue.grant(16).give();
    assert!(matches!(append(), Appended::Queued(_)) && !pull(), "the limit was higher before it was needed");
    assert!(matches!(append(), Appended::Full { .. }));
    queue.grant(32).give();
    assert!(matches!(append(), Appended::Queued(_)) && pull());
    assert!(matches!(append(), Appended::Queued(_)) && !pull(), "it is said once");
}
