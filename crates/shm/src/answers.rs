//! The line of each lane in which its answer appears, and on which its caller sleeps.
//!
//! | bytes | field |
//! |-------|-------|
//! | 0–3   | number of the call that was last answered ([doubled](crate::count), plus one while the caller of the next sleeps) |
//! | 8–11  | bytes of the message |
//! | 12    | kind |
//! | 13    | channel, if the message is longer than a slot |
//! | 14–15 | processor on which the server runs |
//! | 16–19 | result: nanoseconds at the server, 0 if it does not tell; refusal, failure: the reason |
//! | 20–23 | result: the count at which its chunks begin in the channel; refusal: milliseconds after which to call again |
//! | 24–63 | the message, if it is no longer than that |

use crate::Segment;
use crate::count::{self, Count};
use crate::layout::{self, SLOT};
use crate::requests::{get_words, put_words};
use crate::sync::Ordering;

const INLINE: usize = 40;
const INLINE_AT: usize = 24;

/// The server's answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which kind of answer.
    pub kind: AnswerKind,
    /// Bytes of its message.
    pub len: u32,
    /// Of a result, the nanoseconds that the call spent at the server, or 0 if it does not tell; otherwise the reason.
    pub word: u32,
    /// Processor on which the server ran.
    pub cpu: u16,
    /// The channel in which a message longer than [`SLOT`] comes.
    pub channel: u8,
    /// The count at which its chunks begin there; of a refusal the milliseconds after which to call again, or 0.
    pub base: u32,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerKind {
    /// The procedure's result.
    Result = 1,
    /// It was not run.
    Refusal = 2,
    /// It was run, and there is no result.
    Failure = 3,
}

/// A result of at most one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordResult {
    /// Its bytes, the first one lowest. The bytes above them have no meaning.
    pub bits: u64,
    /// The number of its bytes.
    pub len: u32,
    /// Processor on which the server ran.
    pub cpu: u16,
}

/// The lines of all lanes: functions for the lines, which are in the segment.
#[derive(Debug)]
pub struct Answers;

impl Answers {
    /// The number after `number`. Numbers have 31 bits, and begin again at 0.
    #[inline]
    pub fn next_number(number: u32) -> u32 {
        number.wrapping_add(1) & count::MASK
    }

    /// The server's side: fetches the line of `lane`, whose call it is about to answer, while the procedure runs.
    #[inline]
    pub fn prepare(segment: &Segment, lane: u16) {
        segment.will_write(layout::answer(lane));
    }

    /// The number before `number`.
    #[inline]
    pub fn number_before(number: u32) -> u32 {
        number.wrapping_sub(1) & count::MASK
    }

    /// The server's side: answers the call `number` on `lane`; `message` unless that comes through a channel. Wakes the caller if
    /// it sleeps.
    #[inline]
    pub fn publish(segment: &Segment, lane: u16, number: u32, answer: &Answer, message: &[u8]) {
        let at = layout::answer(lane);
        if message.len() <= INLINE {
            put_words(segment, at + INLINE_AT, message);
        } else if message.len() <= SLOT {
            segment.put(layout::result_slot(lane), message);
        }
        let word1 = u64::from(answer.len)
            | u64::from(answer.kind as u8) << 32
            | u64::from(answer.channel) << 40
            | u64::from(answer.cpu) << 48;
        segment.put_word(at + 8, word1);
        let word2 = u64::from(answer.word) | u64::from(answer.base) << 32;
        segment.put_word(at + 16, word2);
        Count::new(segment, at).set(number);
        // In the models no thread listens.
        #[cfg(not(all(test, loom)))]
        crate::listening::tell_of_answer(segment, answer.len as usize > SLOT);
    }

    /// The caller's side: whether the call `number` has been answered.
    #[inline]
    pub fn is_there(segment: &Segment, lane: u16, number: u32) -> bool {
        Count::new(segment, layout::answer(lane)).get() == number
    }

    /// The caller's side: reads the answer, which is there. `None` when it makes no sense.
    #[inline]
    pub fn read(segment: &Segment, lane: u16) -> Option<Answer> {
        let at = layout::answer(lane);
        let word1 = segment.get_word(at + 8);
        let word2 = segment.get_word(at + 16);
        let kind = match (word1 >> 32) as u8 {
            1 => AnswerKind::Result,
            2 => AnswerKind::Refusal,
            3 => AnswerKind::Failure,
            _ => return None,
        };
        Some(Answer {
            kind,
            len: word1 as u32,
            word: word2 as u32,
            cpu: (word1 >> 48) as u16,
            channel: (word1 >> 40) as u8,
            base: (word2 >> 32) as u32,
        })
    }

    /// The caller's side: whether the answer, which is there, makes sense and is no longer than a slot.
    #[inline]
    pub fn fits_slot(segment: &Segment, lane: u16) -> bool {
        let word1 = segment.get_word(layout::answer(lane) + 8);
        word1 as u32 as usize <= SLOT && (1..=3).contains(&((word1 >> 32) as u8))
    }

    /// As [`fits_slot`](Self::fits_slot), of an answer that is no refusal: after a refusal a call may be sent again.
    #[inline]
    pub fn is_final(segment: &Segment, lane: u16) -> bool {
        let word1 = segment.get_word(layout::answer(lane) + 8);
        let kind = (word1 >> 32) as u8;
        word1 as u32 as usize <= SLOT && (kind == 1 || kind == 3)
    }

    /// The caller's side: the answer, which is there, if it is a result of no more than a word.
    #[inline]
    pub fn word_result(segment: &Segment, lane: u16) -> Option<WordResult> {
        let at = layout::answer(lane);
        let word1 = segment.get_word(at + 8);
        let (len, kind, cpu) = (word1 as u32, (word1 >> 32) as u8, (word1 >> 48) as u16);
        if kind != 1 || len as usize > size_of::<u64>() {
            return None;
        }
        let bits = if len > 0 { segment.get_word(at + INLINE_AT) } else { 0 };
        Some(WordResult { bits, len, cpu })
    }

    /// The caller's side: copies the message of an answer to the end of `message`.
    ///
    /// # Panics
    /// When it is longer than a slot: then it comes through a channel.
    #[inline]
    pub fn message(segment: &Segment, lane: u16, answer: &Answer, message: &mut Vec<u8>) {
        let len = answer.len as usize;
        assert!(len <= SLOT);
        if len <= INLINE {
            get_words(segment, layout::answer(lane) + INLINE_AT, len, message);
        } else {
            segment.append(layout::result_slot(lane), len, message);
        }
    }

    /// The caller's side: the part of the line with the message of a short answer, which may end before the part does; `None` for an
    /// answer that does not fit into the line.
    #[inline]
    pub fn short_message(segment: &Segment, lane: u16, answer: &Answer) -> Option<[u8; INLINE]> {
        let len = answer.len as usize;
        if len > INLINE {
            return None;
        }
        let mut message = [0; INLINE];
        let (words, _) = message.as_chunks_mut::<8>();
        for (index, word) in words.iter_mut().enumerate().take(len.div_ceil(8)) {
            let at = layout::answer(lane) + INLINE_AT + 8 * index;
            *word = segment.word(at).load(Ordering::Relaxed).to_le_bytes();
        }
        Some(message)
    }

    /// The caller's side: sleeps until the call `number` is answered, at most `limit_ns`, and perhaps less for no reason; not at all
    /// from [`give_up`](Self::give_up) on.
    pub fn sleep(segment: &Segment, lane: u16, number: u32, limit_ns: u64) {
        let count = Count::new(segment, layout::answer(lane));
        let seen = count.get();
        // A number that is neither this call's nor the one before is not the answer either: the thread sleeps all the same.
        if seen != number {
            count.sleep(seen, limit_ns);
        }
    }

    /// The caller's side, when the server has gone: wakes the threads that sleep for an answer on `lane`. The caller has noted the
    /// loss in the segment before, so that no thread sleeps on it any more. An answer that has arrived stays.
    pub fn give_up(segment: &Segment, lane: u16) {
        Count::new(segment, layout::answer(lane)).give_up();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;
    use std::sync::Arc;
    use std::thread;

    fn result(len: usize) -> Answer {
        Answer { kind: AnswerKind::Result, len: len as u32, word: 9, cpu: 1, channel: 3, base: 77 }
    }

    #[test]
    fn an_answer_of_any_length_up_to_a_slot_arrives_as_it_was_published() {
        let (segment, _file) = Segment::create().unwrap();
        let bytes: Vec<u8> = (0..SLOT).map(|n| n as u8 ^ 0xff).collect();
        let mut number = 0;
        for len in [0, 1, 8, 39, 40, 41, 1440, SLOT] {
            number = Answers::next_number(number);
            assert!(!Answers::is_there(&segment, 3, number));
            Answers::publish(&segment, 3, number, &result(len), &bytes[..len]);
            assert!(Answers::is_there(&segment, 3, number));
            let answer = Answers::read(&segment, 3).unwrap();
            assert_eq!(answer, result(len));
            let mut message = vec![0; 32];
            Answers::message(&segment, 3, &answer, &mut message);
            assert_eq!(message[32..], bytes[..len]);
            let short = Answers::short_message(&segment, 3, &answer);
            assert_eq!(short.is_some(), len <= INLINE);
            assert!(short.is_none_or(|short| short[..len] == bytes[..len]));
            let word = Answers::word_result(&segment, 3);
            assert_eq!(word.is_some(), len <= 8);
            let is_same = |word: WordResult| {
                (word.len, word.cpu) == (len as u32, 1) && word.bits.to_le_bytes()[..len] == bytes[..len]
            };
            assert!(word.is_none_or(is_same) && Answers::fits_slot(&segment, 3));
        }
    }

    #[test]
    fn only_a_result_is_taken_as_a_word_and_nonsense_as_nothing() {
        let (segment, _file) = Segment::create().unwrap();
        for kind in [AnswerKind::Refusal, AnswerKind::Failure] {
            Answers::publish(&segment, 3, 1, &Answer { kind, ..result(0) }, &[]);
            assert!(Answers::word_result(&segment, 3).is_none() && Answers::fits_slot(&segment, 3));
        }
        Answers::publish(&segment, 3, 1, &result(SLOT + 1), &[]);
        assert!(!Answers::fits_slot(&segment, 3));
        segment.put_word(layout::answer(3) + 8, 4 << 32);
        assert!(!Answers::fits_slot(&segment, 3) && Answers::word_result(&segment, 3).is_none());
    }

    #[test]
    fn a_sleeper_is_woken_by_its_answer() {
        let (segment, _file) = Segment::create().unwrap();
        let segment = Arc::new(segment);
        let mut number = u32::MAX >> 1;
        Answers::publish(&segment, 0, number, &result(0), &[]);
        for _ in 0..200 {
            number = Answers::next_number(number);
            let server = Arc::clone(&segment);
            let answering = thread::spawn(move || Answers::publish(&server, 0, number, &result(0), &[]));
            while !Answers::is_there(&segment, 0, number) {
                Answers::sleep(&segment, 0, number, u64::MAX);
            }
            answering.join().unwrap();
        }
    }

    #[test]
    fn a_sleeper_is_woken_when_the_server_is_gone() {
        for _ in 0..200 {
            let (segment, _file) = Segment::create().unwrap();
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| Answers::sleep(&segment, 1, 1, u64::MAX));
                Answers::give_up(&segment, 1);
                sleeper.join().unwrap();
            });
            assert!(!Answers::is_there(&segment, 1, 1));
        }
    }

    #[test]
    fn an_answer_outlives_its_server_and_no_caller_sleeps_for_another() {
        let (segment, _file) = Segment::create().unwrap();
        Answers::publish(&segment, 1, 1, &result(2), b"ab");
        // Each thread that notices does it.
        for _ in 0..2 {
            Answers::give_up(&segment, 1);
        }
        assert!(Answers::is_there(&segment, 1, 1));
        Answers::sleep(&segment, 1, 2, u64::MAX);
        Answers::sleep(&segment, 0, 1, u64::MAX);
    }

    #[test]
    fn nonsense_does_not_keep_a_caller_awake() {
        let (segment, _file) = Segment::create().unwrap();
        let word = segment.half(layout::answer(4));
        for nonsense in [8, 9, u32::MAX, u32::MAX - 1] {
            word.store(nonsense, Ordering::Relaxed);
            Answers::sleep(&segment, 4, 1, 1_000);
            // It has slept: its mark is there.
            assert_eq!(word.load(Ordering::Relaxed), nonsense | 1);
        }
    }
}
