//! The handshakes of a sealed address: callers authenticate themselves by calls, which the [thread](HandshakeThread) of the address
//! answers.

use crate::later::lent::Lent;
use crate::locked::locked;
use crate::security::handshake::{FINISH, HELLO, INTERFACE};
use crate::security::tls::{Acceptor, RefusedCaller, ServerHandshake};
use crate::serving::counters::HandshakeCounters;
use crate::serving::handshake_thread::{Authenticates, HandshakeThread, Step};
use crate::serving::workers::WorkerPool;
use std::collections::HashMap;
use std::sync::Mutex;
use stoop_exchange::Interfaces;
use stoop_net::clock;
use stoop_wire::{BindingId, RefusalCode};

/// Handshakes that have begun at most; then the oldest is given up.
const HANDSHAKES_MAX: usize = 1024;

/// Time for a handshake.
const HANDSHAKE_NANOS: u64 = 10_000_000_000;

/// Calls of `hello` of one handshake.
const HELLOS: u32 = 2;

/// What a caller is told whose call the thread has no time for.
pub(crate) const TOO_MANY: Refused =
    (RefusalCode::Overloaded, "too many callers bind at this time; bind again");

/// What a caller is told whose call is out of place.
pub(crate) const OUT_OF_PLACE: Refused =
    (RefusalCode::BadArguments, "it is no part of a handshake that goes on");

/// A refusal of a call of a handshake.
pub(crate) type Refused = (RefusalCode, &'static str);

/// The handshakes at an address, and the calls by which they are made.
pub(crate) struct Handshakes<C> {
    pub(crate) acceptor: Acceptor,
    /// Number of their interface.
    pub(crate) interface: u16,
    thread: HandshakeThread<C>,
    begun: Mutex<HashMap<BindingId, Handshake>>,
    /// Provisional bindings that have ended, and whose handshakes are forgotten when the lock of `begun` is free: the thread has it while it
    /// computes.
    ended: Mutex<Vec<BindingId>>,
    counters: Mutex<HandshakeCounters>,
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
            ended: Mutex::default(),
            counters: Mutex::default(),
        }
    }

    /// How handshakes have ended so far.
    pub(crate) fn counters(&self) -> HandshakeCounters {
        *locked(&self.counters)
    }

    /// The caller of a handshake has a binding.
    pub(crate) fn count_bound(&self) {
        locked(&self.counters).bound += 1;
    }

    fn count_refused(&self, why: RefusedCaller) {
        let counters = &mut *locked(&self.counters);
        *match why {
            RefusedCaller::Unknown => &mut counters.unknown_caller,
            RefusedCaller::Certificate => &mut counters.certificate,
            RefusedCaller::OtherKind => &mut counters.other_kind,
            RefusedCaller::ByCaller => &mut counters.by_caller,
            RefusedCaller::Protocol => &mut counters.protocol,
        } += 1;
    }

    fn count_abandoned(&self, handshake: &Handshake) {
        locked(&self.counters).abandoned += u64::from(handshake.bound.is_none());
    }

    /// A binding has ended, which may be a provisional one.
    pub(crate) fn has_ended(&self, binding: BindingId) {
        if !binding.is_sealed() {
            locked(&self.ended).push(binding);
        }
    }

    /// Frees the memory of handshakes that are over, unless one is being made now.
    pub(crate) fn sweep(&self) {
        if let Ok(mut begun) = self.begun.try_lock() {
            self.forget_ended(&mut begun);
            self.forget_old(&mut begun, clock::now_ns());
        }
    }

    fn forget_ended(&self, begun: &mut HashMap<BindingId, Handshake>) {
        for ended in std::mem::take(&mut *locked(&self.ended)) {
            if let Some(handshake) = begun.remove(&ended) {
                self.count_abandoned(&handshake);
            }
        }
    }

    /// Gives up handshakes whose time has passed; and if there are too many, the oldest. Some more of these than there have to be, for it
    /// takes longer to find them than to begin a handshake.
    fn forget_old(&self, begun: &mut HashMap<BindingId, Handshake>, now_ns: u64) {
        let mut old_ns = now_ns.saturating_sub(HANDSHAKE_NANOS);
        if begun.len() >= HANDSHAKES_MAX {
            let mut times: Vec<_> = begun.values().map(|it| it.begun_ns).collect();
            old_ns = old_ns.max(*times.select_nth_unstable(HANDSHAKES_MAX / 16).1);
        }
        begun.retain(|_, it| {
            let stays = it.begun_ns > old_ns;
            if !stays {
                self.count_abandoned(it);
            }
            stays
        });
        if begun.is_empty() {
            begun.shrink_to_fit();
        }
    }

    /// Leaves a call to the thread. Returns the call if too many wait, or the system gives no thread.
    pub(crate) fn enqueue<E: Authenticates<Call = C>>(
        &self,
        (call, procedure): (C, u16),
        pool: impl FnOnce() -> Lent<WorkerPool<E>>,
    ) -> Option<C> {
        let step = if procedure == FINISH { Step::End } else { Step::Begin };
        let refused = self.thread.enqueue((call, step), pool);
        locked(&self.counters).too_many += u64::from(refused.is_some());
        refused
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
        let answer = match procedure {
            HELLO => Some(self.hello(provisional, bytes)),
            FINISH => self.finish(provisional, bytes, grant),
            _ => None,
        };
        locked(&self.counters).out_of_place += u64::from(answer.is_none());
        answer
    }

    /// Takes the beginning of a caller's handshake, and returns the server's part.
    fn hello(&self, provisional: BindingId, bytes: &[u8]) -> Vec<u8> {
        let (mut begun, now_ns) = (locked(&self.begun), clock::now_ns());
        self.forget_ended(&mut begun);
        if begun.len() >= HANDSHAKES_MAX {
            self.forget_old(&mut begun, now_ns);
        }
        let handshake = begun.entry(provisional).or_insert_with(|| Handshake {
            tls: self.acceptor.begin(),
            hellos: 0,
            bound: None,
            begun_ns: now_ns,
        });
        handshake.hellos += 1;
        let taken = match handshake.hellos {
            ..=HELLOS => handshake.tls.input(bytes),
            _ => Err(RefusedCaller::Protocol),
        };
        let output = handshake.tls.output();
        if let Err(why) = taken {
            self.count_refused(why);
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
        if let Err(why) = handshake.tls.input(bytes) {
            self.count_refused(why);
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
