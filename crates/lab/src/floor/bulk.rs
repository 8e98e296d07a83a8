//! The bare exchange of many bytes: one end sends as many as a call has, the other answers with as many as its result has.
//!
//! The bytes are anything, or records of small items: then the sender copies each item into its place, and the receiver copies it out.

use super::pipe::Pipe;
use super::terms::{Serve, in_words};
use crate::callers::{Calls, Measured, Window, call_repeatedly};
use std::hint::black_box;
use std::io;

/// Bytes of a small item, and of its record in a pipe.
pub(crate) const SMALL: usize = 64;
pub(crate) const RECORD: usize = 8 + SMALL;

/// One end: how much it sends and how much it waits for.
#[derive(Debug)]
pub(super) struct Bulk<P> {
    pipe: P,
    call_len: usize,
    result_len: usize,
    records: bool,
}

impl<P: Pipe> Bulk<P> {
    pub(super) fn new(pipe: P, (call_len, result_len): (usize, usize), records: bool) -> Self {
        Bulk { pipe, call_len, result_len, records }
    }

    #[inline(always)]
    fn push(&mut self, len: usize) -> io::Result<()> {
        if self.records { self.pipe.push_filled(len, write_records) } else { self.pipe.push(len) }
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> io::Result<()> {
        if self.records { self.pipe.take_read(len, read_records) } else { self.pipe.take(len) }
    }
}

fn write_records(bytes: &mut [u8]) {
    let item = [0x5a; SMALL];
    for record in bytes.chunks_exact_mut(RECORD) {
        let (head, place) = record.split_at_mut(RECORD - SMALL);
        head.copy_from_slice(&(SMALL as u64).to_le_bytes());
        place.copy_from_slice(black_box(&item));
    }
}

/// Where records are cut by the ends of system calls, the bytes are not those of one record, but as many.
fn read_records(bytes: &[u8]) {
    let mut item = [0; SMALL];
    for record in bytes.chunks_exact(RECORD) {
        let (head, place) = record.split_at(RECORD - SMALL);
        black_box(head);
        item.copy_from_slice(place);
        black_box(&mut item);
    }
}

impl<P: Pipe> Calls for Bulk<P> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        call_repeatedly(window, 1, || {
            self.push(self.call_len).and_then(|()| self.take(self.result_len)).map_err(in_words)
        })
    }
}

impl<P: Pipe> Serve for Bulk<P> {
    fn serve(&mut self) -> io::Result<()> {
        self.take(self.call_len)?;
        self.push(self.result_len)
    }
}
