//! The bare exchange of many bytes: one end sends as many as a call has, the other answers with as many as its result has.

use super::pipe::Pipe;
use super::terms::{Serve, in_words};
use crate::callers::{Calls, Measured, Window, call_repeatedly};
use std::io;

/// One end: how much it sends and how much it waits for.
#[derive(Debug)]
pub(super) struct Bulk<P> {
    pipe: P,
    call_len: usize,
    result_len: usize,
}

impl<P: Pipe> Bulk<P> {
    pub(super) fn new(pipe: P, (call_len, result_len): (usize, usize)) -> Self {
        Bulk { pipe, call_len, result_len }
    }
}

impl<P: Pipe> Calls for Bulk<P> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        call_repeatedly(window, 1, || {
            self.pipe.push(self.call_len).and_then(|()| self.pipe.take(self.result_len)).map_err(in_words)
        })
    }
}

impl<P: Pipe> Serve for Bulk<P> {
    fn serve(&mut self) -> io::Result<()> {
        self.pipe.take(self.call_len)?;
        self.pipe.push(self.result_len)
    }
}
