//! The handshakes of a sealed address: callers authenticate themselves by calls, which the [thread](HandshakeThread) of the address
//! answers.

use crate::locked::locked;
use crate::security::handshake::{FINISH, HELLO, INTERFACE};
use crate::security::tls::{Acceptor, ServerHandshake};
use crate::serving::handshake_thread::HandshakeThread;
use std::collections::HashMap;
use std::sync::Mutex;
use stoop_exchange::Interfaces;
use stoop_net::clock;
use stoop_wire::BindingId;

/// Handshakes that have begun at most; then the oldest is given up.
const HANDSHAKES_MAX: usize = 1024;

/// Time for a handshake.
const HANDSHAKE_NANOS: u64 = 10_000_000_000;

/// Calls of `hello` of one handshake.
const HELLOS: u32 = 2;

/// What a caller is told whose call the thread has no time for.
pub(crate) const TOO_MANY: &str = "too many callers bind at this time; bind again";

/// What a caller is told whose call is out of place.
pub(crate) const OUT_OF_PLACE: &str = "it is no part of a handshake that goes on";

/// The handshakes at an address, and the calls by which they are made.
pub(crate) struct Handshakes<C> {
    pub(crate) acceptor: Acceptor,
    /// Number of their interface.
    pub(crate) interface: u16,
    pub(crate) thread: HandshakeThread<C>,
    begun: Mutex<HashMap<BindingId, Handshake>>,
}

/// A handshake on a provisional binding.
pub(crate) struct Handshake {
    pub(crate) tls: ServerHandshake,
    hellos: u32,
    /// The sealed binding that it has led to.
    pub(crate) bound: Option<BindingId>,
    begun_ns: u64,
}

impl<C: Send + 'static> Handshakes<C> {
    /// Adds the interface of handshakes to those of the address.
    pub(crate) fn new(acceptor: Acceptor, interfaces: &mut Interfaces) -> Self {
        Self {
            acceptor,
            interface: interfaces.add(INTERFACE.for_exchange()) as u16,
            thread: HandshakeThread::new(),
            begun: Mutex::default(),
        }
    }

    /// The answer to a call on a provisional binding; `None`: the call is out of place. `grant` answers messages of a caller that has
    /// authenticated itself.
    pub(crate) fn answer(
        &self,
        provisional: BindingId,
        procedure: u16,
        bytes: &[u8],
        grant: impl FnOnce(&mut Handshake, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        match procedure {
            HELLO => Some(self.hello(provisional, bytes)),
            FINISH => self.finish(provisional, bytes, grant),
            _ => None,
        }
    }

    /// Takes the beginning of a caller's handshake, and returns the server's part.
    fn hello(&self, provisional: BindingId, bytes: &[u8]) -> Vec<u8> {
        let (mut begun, now_ns) = (locked(&self.begun), clock::now_ns());
        begun.retain(|_, it| now_ns.saturating_sub(it.begun_ns) < HANDSHAKE_NANOS);
        if begun.len() >= HANDSHAKES_MAX
            && let Some(oldest) = begun.iter().min_by_key(|(_, it)| it.begun_ns).map(|(id, _)| *id)
        {
            begun.remove(&oldest);
        }
        let handshake = begun.entry(provisional).or_insert_with(|| Handshake {
            tls: self.acceptor.begin(),
            hellos: 0,
            bound: None,
            begun_ns: now_ns,
        });
        handshake.hellos += 1;
        let goes_on = handshake.hellos <= HELLOS && handshake.tls.input(bytes);
        let output = handshake.tls.output();
        if !goes_on {
            begun.remove(&provisional);
        }
        output
    }

    /// Takes the end of a caller's handshake, or a message after it, and returns the answer.
    fn finish(
        &self,
        provisional: BindingId,
        bytes: &[u8],
        grant: impl FnOnce(&mut Handshake, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut begun = locked(&self.begun);
        let handshake = begun.get_mut(&provisional)?;
        if !handshake.tls.input(bytes) {
            // The caller learns why.
            let mut failed = begun.remove(&provisional)?;
            return Some(failed.tls.output());
        }
        let message = handshake.tls.read();
        if message.is_empty() {
            return None;
        }
        let answer = grant(handshake, &message)?;
        handshake.tls.write(&answer);
        Some(handshake.tls.output())
    }
}
