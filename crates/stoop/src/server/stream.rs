//! Calls that arrive over byte streams: TCP and Unix sockets.

use super::ServerCounters;
use super::crew::Endpoint;
use super::dispatch::Exports;
use crate::bind::Waiting;
use crate::uri::Uri;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stoop_wire::RefusalCode;

pub(super) struct StreamListener {}
pub(super) struct StreamEndpoint {}

pub(super) fn listen(_to: &Uri) -> io::Result<(String, StreamListener)> {
    Err(io::ErrorKind::Unsupported.into())
}

impl StreamEndpoint {
    pub(super) fn new(_: StreamListener, _: Arc<Exports>, _: Waiting, _max: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub(super) fn shut_down(&self) {}
    pub(super) fn drain(&self) {}
    pub(super) fn counters(&self) -> ServerCounters {
        ServerCounters::default()
    }
}

impl Endpoint for StreamEndpoint {
    type Call = ();
    type Desk = ();
    fn desk(&self) {}
    fn receive(&self, _: &mut (), _: bool, _: &AtomicBool) -> Option<()> {
        None
    }
    fn takes_long(&self, _: &()) -> bool {
        false
    }
    fn run(&self, _: &mut (), _: ()) -> Option<()> {
        None
    }
    fn refuse(&self, _: (), _: RefusalCode) -> Option<()> {
        None
    }
    fn defer(&self, _: &mut ()) {}
    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }
    fn handle_timeout(&self, _: u64) {}
    fn wake(&self) {}
}
