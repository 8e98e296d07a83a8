//! The bindings of an endpoint: accepting, finding, polling and closing.

use crate::serving::acceptor::{ACCEPTED_AT_ONCE, Acceptor, FIRST_TOKEN};
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::handshake::Handshake;
use crate::users::Users;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stoop_net::poller::{Bell, Interest, Poller};
use stoop_net::stream::Stream;
use stoop_shm::attention;
use stoop_wire::UnbindReason;

/// The handshakes and bindings of an endpoint's callers, and the bindings that are polled because they call often. The others
/// ring their bells. Used by the thread with the receive role.
pub(super) struct Bindings {
    /// In the order in which they were accepted.
    pub(super) handshakes: BTreeMap<u64, Handshake>,
    pub(super) all: HashMap<u64, Arc<Binding>>,
    pub(super) polled: Vec<Arc<Binding>>,
    /// The polled binding at which the receiver looks first.
    pub(super) first: usize,
    next_token: u64,
    allowed: Users,
    /// A descriptor in reserve. When the system gives no other, it is closed, so that one more caller can be accepted and refused.
    reserve: Option<Bell>,
    /// Callers have been told that the server shuts down.
    has_announced: bool,
}

/// Connections that are not bound. For one more, another is closed.
const HANDSHAKES_MAX: usize = 64;
/// Bindings that are polled in turn. Each costs a nanosecond or two for every look at the others.
const POLLED_MAX: usize = 64;
/// A binding that was silent for so long while others called is no longer polled.
const SILENCE: Duration = Duration::from_millis(10);

impl Drop for Bindings {
    /// The server has shut down. Procedures may still have ends of pipes, and with them their bindings.
    fn drop(&mut self) {
        for binding in self.all.values() {
            binding.close(Some(UnbindReason::ShuttingDown));
            binding.lose_pipes();
        }
    }
}

impl Bindings {
    pub(super) fn new(allowed: Users) -> Self {
        Self {
            handshakes: BTreeMap::new(),
            all: HashMap::new(),
            polled: Vec::new(),
            first: 0,
            next_token: FIRST_TOKEN,
            allowed,
            reserve: Bell::new().ok(),
            has_announced: false,
        }
    }

    /// Accepts callers that wait at the listener.
    pub(super) fn accept(&mut self, acceptor: &Acceptor) {
        if self.reserve.is_none() {
            self.reserve = Bell::new().ok();
        }
        for _ in 0..ACCEPTED_AT_ONCE {
            let mut accepted = acceptor.accept();
            if accepted.is_err() && self.reserve.take().is_some() {
                // It will not be bound for lack of descriptors, and the answer to its bind request says so.
                accepted = acceptor.accept();
            }
            match accepted {
                Ok(Some(stream)) => self.begin_handshake(&acceptor.poller, stream),
                Ok(None) => return,
                Err(_) => return acceptor.pause(),
            }
        }
    }

    fn begin_handshake(&mut self, poller: &Poller, stream: Stream) {
        let token = self.next_token;
        self.next_token += 2;
        // A broken connection is skipped.
        if let Ok(handshake) = Handshake::new(stream, &self.allowed)
            && poller.add(&handshake.stream, token, Interest::READ).is_ok()
        {
            self.handshakes.insert(token, handshake);
        }
        if self.handshakes.len() > HANDSHAKES_MAX {
            self.make_room();
        }
    }

    /// Ends the oldest handshake of the user with the most: connections that never bind keep no other user out.
    fn make_room(&mut self) {
        let mut of_users = HashMap::<_, usize>::new();
        for handshake in self.handshakes.values() {
            *of_users.entry(handshake.user()).or_default() += 1;
        }
        let most = of_users.values().max();
        let oldest = self.handshakes.iter().find(|(_, handshake)| of_users.get(&handshake.user()) == most);
        if let Some((&token, _)) = oldest
            && let Some(handshake) = self.handshakes.remove(&token)
        {
            // Closing it takes it out of the poller.
            handshake.end(UnbindReason::Crowded);
        }
    }

    /// A handshake has become a binding.
    pub(super) fn add(&mut self, poller: &Poller, binding: Binding) -> io::Result<()> {
        // Edge-triggered: each ring is an event of its own, and the counter need not be read.
        if let Err(error) = poller.add(&binding.bell, binding.token + 1, Interest::READ_WRITE.edge()) {
            binding.close(Some(UnbindReason::NoResources));
            return Err(error);
        }
        let binding = Arc::new(binding);
        attention::look_away(&binding.segment);
        self.all.insert(binding.token, binding);
        Ok(())
    }

    /// Polls a binding from now on.
    pub(super) fn start_polling(&mut self, binding: Arc<Binding>, now_ns: u64) {
        if self.polled.iter().any(|polled| polled.token == binding.token) {
            return;
        }
        if self.polled.len() >= POLLED_MAX {
            self.stop_polling_most_silent(now_ns);
        }
        binding.heard_ns.store(now_ns, Ordering::Relaxed);
        attention::look(&binding.segment);
        self.polled.push(binding);
    }

    /// Stops polling the bindings that have not called for a while.
    pub(super) fn stop_polling_silent(&mut self, now_ns: u64) {
        if self.polled.len() < 2 {
            return;
        }
        let silent = |binding: &Arc<Binding>| {
            let heard_ns = binding.heard_ns.load(Ordering::Relaxed);
            now_ns.saturating_sub(heard_ns) > SILENCE.as_nanos() as u64 && !binding.has_long_messages()
        };
        while let Some(index) = self.polled.iter().position(silent) {
            self.stop_polling_one(index, now_ns);
        }
    }

    fn stop_polling_most_silent(&mut self, now_ns: u64) {
        let heard_ns = |binding: &Arc<Binding>| binding.heard_ns.load(Ordering::Relaxed);
        let longest = (0..self.polled.len()).min_by_key(|&index| heard_ns(&self.polled[index]));
        if let Some(index) = longest {
            self.stop_polling_one(index, now_ns);
        }
    }

    /// Stops polling a binding, unless there is something to do for it.
    fn stop_polling_one(&mut self, index: usize, now_ns: u64) {
        let binding = &self.polled[index];
        attention::look_away(&binding.segment);
        if binding.has_request() || binding.can_move() {
            // The request came at this moment, and its caller may not have rung.
            attention::look(&binding.segment);
            binding.heard_ns.store(now_ns, Ordering::Relaxed);
        } else {
            self.polled.swap_remove(index);
            self.first = 0;
        }
    }

    /// A binding is closed.
    pub(super) fn remove(&mut self, poller: &Poller, token: u64) -> Option<Arc<Binding>> {
        let binding = self.all.remove(&token)?;
        self.polled.retain(|polled| polled.token != token);
        self.first = 0;
        // Both are in the poller as long as it is open.
        let _ = poller.remove(&binding.stream);
        let _ = poller.remove(&binding.bell);
        Some(binding)
    }

    /// The server shuts down: tells all callers that it refuses calls from now on, once, and ends the handshakes.
    pub(super) fn announce_end(&mut self) {
        if !std::mem::replace(&mut self.has_announced, true) {
            for binding in self.all.values() {
                binding.announce_end();
                binding.end_pipes_soon();
            }
        }
        let handshakes = std::mem::take(&mut self.handshakes).into_values();
        handshakes.for_each(|handshake| handshake.end(UnbindReason::ShuttingDown));
    }

    /// Goes on with the next polled binding.
    #[inline]
    pub(super) fn next(&mut self) {
        self.first = if self.first + 1 < self.polled.len() { self.first + 1 } else { 0 };
    }
}
