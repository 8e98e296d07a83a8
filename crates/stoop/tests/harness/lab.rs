//! The interface of tests that need nothing unusual of their server.

use super::gate::Gate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop::{RunningServer, Server};

#[stoop::interface]
pub(crate) trait Lab {
    /// One more than the number.
    fn next(&self, number: u32) -> u32;
    /// How often it was called before.
    fn count(&self) -> u64;
    fn null(&self);
    fn sum(&self, bytes: &[u8]) -> u64;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// So many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Returns when the gate is open.
    fn wait(&self);
    /// The same, with an argument.
    fn wait_with(&self, bytes: &[u8]);
}

/// A server's procedures; its copies share the gate and the counter.
#[derive(Clone, Default)]
pub(crate) struct Bench {
    pub(crate) gate: Gate,
    pub(crate) calls: Arc<AtomicU64>,
}

impl Bench {
    /// At which calls wait at this gate.
    pub(crate) fn with(gate: &Gate) -> Self {
        Self { gate: gate.clone(), ..Self::default() }
    }

    /// A server of these procedures at an address.
    pub(crate) fn serve(&self, server: Server, uri: &str) -> RunningServer {
        server.export(LabServer::new(self.clone())).listen(uri).unwrap().start().unwrap()
    }
}

impl Lab for Bench {
    fn next(&self, number: u32) -> u32 {
        number.wrapping_add(1)
    }

    fn count(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }

    fn null(&self) {}

    fn sum(&self, bytes: &[u8]) -> u64 {
        bytes.iter().map(|byte| u64::from(*byte)).sum()
    }

    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn bytes(&self, count: u32, value: u8) -> Vec<u8> {
        vec![value; count as usize]
    }

    fn wait(&self) {
        self.gate.pass();
    }

    fn wait_with(&self, _bytes: &[u8]) {
        self.gate.pass();
    }
}
