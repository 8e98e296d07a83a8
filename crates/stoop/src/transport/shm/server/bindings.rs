//! Who is bound, and at whose requests the server looks: accepting, finding and closing.

use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::handshake::Handshake;
use crate::users::Users;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use stoop_net::clock;
use stoop_net::poller::{Bell, Interest, Poller};
use stoop_net::stream::{Accepted, StreamListener};
use stoop_shm::attention;
use stoop_wire::UnbindReason;

/// A listener, the handshakes and bindings that came of it, and the bindings that are hot: those that call often are looked at,
/// the others ring their bells. Used by whoever receives.
pub(super) struct Bindings {
    listener: StreamListener,
    /// By the time of their coming.
    pub(super) handshakes: BTreeMap<u64, Handshake>,
    pub(super) bindings: HashMap<u64, Arc<Binding>>,
    pub(super) hot: Vec<Arc<Binding>>,
    /// The hot one that is looked at first.
    pub(super) first: usize,
    next_token: u64,
    /// When accepting goes on after the system had no descriptor left; 0 while it goes on.
    paused_until_ns: u64,
    allowed: Users,
    /// A descriptor to do without when the system gives no other: whoever comes then can be told.
    spare: Option<Bell>,
}

/// What the poller calls the listener.
pub(super) const LISTENER: u64 = 0;
/// What it calls that which ends all waiting.
pub(super) const END: u64 = 1;
/// What it calls that which tells of results that go in chunks.
pub(super) const NOTIFIED: u64 = 2;
const FIRST_TOKEN: u64 = 4;

/// Connections that are not bound. For another, one has to go.
const HANDSHAKES_MAX: usize = 64;
/// Connections accepted before the others are looked at again.
const ACCEPTED_AT_ONCE: usize = 16;
/// Time before accepting again after the system had no descriptor or memory left.
const PAUSE: Duration = Duration::from_millis(100);
/// Bindings that are looked at in turn. Each costs a nanosecond or two for every look at the others.
const HOT_MAX: usize = 64;
/// A binding that has been silent for so long while others called rings when it calls again.
const SILENCE: Duration = Duration::from_millis(10);

impl Bindings {
    pub(super) fn new(listener: StreamListener, poller: &Poller, allowed: Users) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        poller.add(&listener, LISTENER, Interest::READ)?;
        Ok(Self {
            listener,
            handshakes: BTreeMap::new(),
            bindings: HashMap::new(),
            hot: Vec::new(),
            first: 0,
            next_token: FIRST_TOKEN,
            paused_until_ns: 0,
            allowed,
            spare: Bell::new().ok(),
        })
    }

    /// Accepts who waits at the listener.
    pub(super) fn accept(&mut self, poller: &Poller) {
        if self.spare.is_none() {
            self.spare = Bell::new().ok();
        }
        for _ in 0..ACCEPTED_AT_ONCE {
            let mut accepted = self.listener.accept();
            if accepted.is_err() && self.spare.take().is_some() {
                // It will not be bound, for want of descriptors, and learns that by the answer.
                accepted = self.listener.accept();
            }
            match accepted {
                // One that broke meanwhile is passed over.
                Ok(Accepted::Stream(stream)) => {
                    let token = self.next_token;
                    self.next_token += 2;
                    if let Ok(handshake) = Handshake::new(stream, &self.allowed)
                        && poller.add(&handshake.stream, token, Interest::READ).is_ok()
                    {
                        self.handshakes.insert(token, handshake);
                    }
                    if self.handshakes.len() > HANDSHAKES_MAX {
                        self.make_room();
                    }
                }
                Ok(Accepted::Nothing | Accepted::WokenUp) => return,
                Err(_) => {
                    self.paused_until_ns = clock::now_ns() + PAUSE.as_nanos() as u64;
                    let _ = poller.modify(&self.listener, LISTENER, Interest::NONE);
                    return;
                }
            }
        }
    }

    /// Ends the oldest handshake of the user who has the most: whoever connects and says nothing keeps no other user out.
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
            // It leaves the poller as it is closed.
            handshake.end(UnbindReason::Crowded);
        }
    }

    /// How long to sleep at most; `None`: until something happens. Ends a pause that is over.
    #[inline]
    pub(super) fn sleep_limit(&mut self, poller: &Poller) -> Option<Duration> {
        if self.paused_until_ns == 0 {
            return None;
        }
        let now_ns = clock::now_ns();
        if now_ns >= self.paused_until_ns {
            self.paused_until_ns = 0;
            let _ = poller.modify(&self.listener, LISTENER, Interest::READ);
            return None;
        }
        Some(Duration::from_nanos(self.paused_until_ns - now_ns))
    }

    /// A handshake has become a binding.
    pub(super) fn add(&mut self, poller: &Poller, binding: Binding) -> io::Result<()> {
        // Edge: each ring is told once, and need not be taken back.
        if let Err(error) = poller.add(&binding.bell, binding.token + 1, Interest::READ_WRITE.edge()) {
            binding.close(Some(UnbindReason::NoResources));
            return Err(error);
        }
        let binding = Arc::new(binding);
        attention::look_away(&binding.segment);
        self.bindings.insert(binding.token, binding);
        Ok(())
    }

    /// A binding is looked at from now on.
    pub(super) fn warm(&mut self, binding: Arc<Binding>, now_ns: u64) {
        if self.hot.iter().any(|hot| hot.token == binding.token) {
            return;
        }
        if self.hot.len() >= HOT_MAX {
            self.cool_longest_silent(now_ns);
        }
        binding.heard_ns.store(now_ns, std::sync::atomic::Ordering::Relaxed);
        attention::look(&binding.segment);
        self.hot.push(binding);
    }

    /// Lets bindings ring again that have not called for a while.
    pub(super) fn cool(&mut self, now_ns: u64) {
        if self.hot.len() < 2 {
            return;
        }
        let silent = |binding: &Arc<Binding>| {
            let heard_ns = binding.heard_ns.load(std::sync::atomic::Ordering::Relaxed);
            now_ns.saturating_sub(heard_ns) > SILENCE.as_nanos() as u64 && !binding.has_transfers()
        };
        while let Some(place) = self.hot.iter().position(silent) {
            self.cool_one(place, now_ns);
        }
    }

    fn cool_longest_silent(&mut self, now_ns: u64) {
        let heard_ns = |binding: &Arc<Binding>| binding.heard_ns.load(std::sync::atomic::Ordering::Relaxed);
        let longest = (0..self.hot.len()).min_by_key(|&place| heard_ns(&self.hot[place]));
        if let Some(place) = longest {
            self.cool_one(place, now_ns);
        }
    }

    /// Lets a binding ring again, unless there is something to do for it.
    fn cool_one(&mut self, place: usize, now_ns: u64) {
        let binding = &self.hot[place];
        attention::look_away(&binding.segment);
        if binding.has_request() || binding.can_move() {
            // It came at this moment, and may not have rung.
            attention::look(&binding.segment);
            binding.heard_ns.store(now_ns, std::sync::atomic::Ordering::Relaxed);
        } else {
            self.hot.swap_remove(place);
            self.first = 0;
        }
    }

    /// A binding is closed.
    pub(super) fn remove(&mut self, poller: &Poller, token: u64) -> Option<Arc<Binding>> {
        let binding = self.bindings.remove(&token)?;
        self.hot.retain(|hot| hot.token != token);
        self.first = 0;
        // Both are in the poller as long as it is open.
        let _ = poller.remove(&binding.stream);
        let _ = poller.remove(&binding.bell);
        Some(binding)
    }

    /// Accepts no more.
    pub(super) fn shut_down(&mut self, poller: &Poller) {
        let _ = poller.remove(&self.listener);
        // A listening socket can always be shut down.
        let _ = self.listener.wake_acceptors();
        let handshakes = std::mem::take(&mut self.handshakes).into_values();
        handshakes.for_each(|handshake| handshake.end(UnbindReason::ShuttingDown));
    }
}

impl Bindings {
    /// The next hot binding is looked at.
    #[inline]
    pub(super) fn next(&mut self) {
        self.first = if self.first + 1 < self.hot.len() { self.first + 1 } else { 0 };
    }
}
