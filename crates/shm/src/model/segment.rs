//! A stand-in for the memory: words that publish others are loom's atomics, each with a queue of the threads that
//! sleep on it. A thread may write all other bytes only while no other thread can touch them.

#![allow(unsafe_code)]

use crate::layout::{
    self, ATTENTION, CANCELS, CHANNELS, CHUNK, CHUNKS, LANES, LINE, PIPE, RING, SLOT, TAKEN,
};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use std::collections::BTreeMap;

const WORD: usize = size_of::<u64>();

/// The places of a segment, by the bytes at which they begin.
#[derive(Debug)]
pub struct Segment {
    words: BTreeMap<usize, AtomicU64>,
    halves: BTreeMap<usize, Half>,
    /// Each as large as what is published at once.
    published: BTreeMap<usize, UnsafeCell<Box<[u8]>>>,
    given_up: AtomicBool,
}

#[derive(Debug)]
struct Half {
    value: AtomicU32,
    /// How often all threads that slept on it have been woken.
    wakes: Mutex<u32>,
    woken: Condvar,
}

// SAFETY: the cells are borrowed inside `put` and `get` only, which loom ends when two threads do it at the same time, or
// one after the other with nothing that says so.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    pub(super) fn new() -> Self {
        let mut segment = Self {
            words: BTreeMap::new(),
            halves: BTreeMap::new(),
            published: BTreeMap::new(),
            given_up: AtomicBool::new(false),
        };
        segment.add_half(ATTENTION);
        segment.add_half(CANCELS);
        segment.add_word(TAKEN);
        for ticket in 0..RING as u64 {
            let line = layout::request(ticket);
            segment.add_word(line);
            (WORD..LINE).step_by(WORD).for_each(|at| segment.add_published(line + at, WORD));
        }
        for lane in 0..LANES as u16 {
            let line = layout::answer(lane);
            segment.add_half(line);
            (WORD..LINE).step_by(WORD).for_each(|at| segment.add_published(line + at, WORD));
            segment.add_published(layout::call_slot(lane), SLOT);
            segment.add_published(layout::result_slot(lane), SLOT);
        }
        for channel in 0..2 * CHANNELS {
            segment.add_half(layout::filled(channel));
            segment.add_half(layout::emptied(channel));
            (0..CHUNKS as u32).for_each(|count| segment.add_published(layout::chunk(channel, count), CHUNK));
        }
        segment
    }

    /// With the pipes of lane 0.
    pub(super) fn with_pipes() -> Self {
        let mut segment = Self::new();
        segment.add_word(layout::pipes_ready(0));
        for pipe in 0..2 {
            let (writer, reader) = (layout::pipe_writer(pipe), layout::pipe_reader(pipe));
            [0, 4, 8, 12].iter().for_each(|at| segment.add_half(writer + at));
            [0, 4, 16].iter().for_each(|at| segment.add_half(reader + at));
            segment.add_word(reader + 8);
            let bytes = (0..PIPE as u32).step_by(WORD);
            bytes.for_each(|at| segment.add_published(layout::pipe_byte(pipe, at), WORD));
        }
        segment
    }

    fn add_word(&mut self, at: usize) {
        self.words.insert(at, AtomicU64::new(0));
    }

    fn add_half(&mut self, at: usize) {
        let half = Half { value: AtomicU32::new(0), wakes: Mutex::new(0), woken: Condvar::new() };
        self.halves.insert(at, half);
    }

    fn add_published(&mut self, at: usize, len: usize) {
        self.published.insert(at, UnsafeCell::new(vec![0; len].into()));
    }

    /// The place in which `at` is, and where in it.
    fn place(&self, at: usize) -> (&UnsafeCell<Box<[u8]>>, usize) {
        let (start, cell) = self.published.range(..=at).next_back().expect("everything lies somewhere");
        (cell, at - start)
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[&at]
    }

    pub(crate) fn half(&self, at: usize) -> &AtomicU32 {
        &self.halves[&at].value
    }

    pub(crate) fn will_write(&self, _at: usize) {}

    pub(crate) fn will_read(&self, _at: usize) {}

    pub(crate) fn put_word(&self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    pub(crate) fn get_word(&self, at: usize) -> u64 {
        let mut bytes = [0; WORD];
        self.get(at, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// The kernel looks at the word and puts the thread to sleep under a lock that a thread takes to wake others.
    pub(crate) fn wait(&self, at: usize, value: u32, limit_ns: u64) {
        let half = &self.halves[&at];
        let mut wakes = half.wakes.lock().unwrap();
        if half.value.load(Ordering::Relaxed) != value || limit_ns == 0 {
            return;
        }
        assert_eq!(limit_ns, u64::MAX, "a model has no clock");
        let before = *wakes;
        while *wakes == before {
            wakes = half.woken.wait(wakes).unwrap();
        }
    }

    pub(crate) fn wake(&self, at: usize) {
        let half = &self.halves[&at];
        *half.wakes.lock().unwrap() += 1;
        half.woken.notify_all();
    }

    pub(crate) fn set_given_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        let (cell, start) = self.place(at);
        // SAFETY: loom has just found that no other thread reads or writes it, and no reference leaves the closure.
        cell.with_mut(|place| unsafe { (&mut **place)[start..start + bytes.len()].copy_from_slice(bytes) });
    }

    pub(crate) fn get(&self, at: usize, bytes: &mut [u8]) {
        let (cell, start) = self.place(at);
        // SAFETY: loom has just found that no other thread writes it, and no reference leaves the closure.
        cell.with(|place| unsafe { bytes.copy_from_slice(&(&**place)[start..start + bytes.len()]) });
    }

    pub(crate) fn append(&self, at: usize, len: usize, bytes: &mut Vec<u8>) {
        let before = bytes.len();
        bytes.resize(before + len, 0);
        self.get(at, &mut bytes[before..]);
    }
}
