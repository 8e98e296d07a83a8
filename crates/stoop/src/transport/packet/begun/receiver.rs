//! How a thread waits for begun calls: it receives for all calls, or follows the thread that does.

use crate::calling::background::Driven;
use crate::calling::receive_role::{Pause, RoleGuard};
use crate::calling::waiting_thread::WaitingThread;
use crate::transport::packet::begun::PacketCalls;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::goal::Goal;
use crate::transport::packet::begun::timeouts::Next;
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::link::{CallerArrival, CallerEndpoint, PacketLink};
use crate::transport::packet::now;
use std::cell::Cell;
use std::sync::MutexGuard;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::bulk::RECEIPT_WAITS_NANOS;
use stoop_net::poller::Waker;
use stoop_net::waiting::{WaitCounts, Waiter, Waiting};

/// The memory and the state of the thread with the receive role.
pub(crate) struct Receiver {
    buffer: Vec<u8>,
    waiter: Waiter,
    wakeups: Wakeups,
    /// When a thread last had what it has waited for of a pipe, and whether it came back soon the time before.
    left: Instant,
    comes_back: bool,
    /// Since when receipts may be owed.
    owed: Instant,
}

/// A thread that waits for a pipe again after so long, or less, comes back soon: receipts may wait for it.
const SOON_NS: u64 = 50_000;

/// So long they wait at most, as long as the thread comes back: a sender waits four times as long before it sends again.
const OWED_NS: u64 = 1_000_000;

/// The receive role, held.
pub(crate) type Role<'a> = RoleGuard<'a, Receiver>;

/// Bytes of packets that arrive together, at most.
const BUFFER_LEN: usize = 64 << 10;

/// After so long without the end of a call, and when no packet is there, the background thread sleeps until one comes or a timeout is due. It
/// is to be woken for others.
pub(super) const QUIET: Duration = Duration::from_millis(20);

/// How much later than the receiving thread other threads look at timeouts.
pub(crate) const AFTER_THE_RECEIVER: Duration = Duration::from_millis(1);

impl Receiver {
    pub(crate) fn new<L: PacketLink>(binding: &PacketBinding<L>) -> Self {
        Self {
            buffer: vec![0; BUFFER_LEN],
            waiter: Waiter::new(binding.options.waiting, binding.present().placement),
            wakeups: Wakeups::default(),
            left: Instant::default(),
            comes_back: false,
            owed: Instant::default(),
        }
    }

    pub(crate) fn wait_counts(&self) -> WaitCounts {
        self.waiter.counts()
    }
}

/// How a thread's time as a follower ended.
enum Followed<'a> {
    Ended(usize),
    TimedOut,
    Role(Role<'a>),
}

impl<L: PacketLink> PacketCalls<L> {
    /// Waits until one of the calls has ended, at most until `until`; looks once in any case.
    #[inline]
    pub(crate) fn wait(&self, wanted: &[u32], until: Instant) -> Option<usize> {
        self.wait_for(&Goal::Calls(wanted), until)
    }

    /// Waits until that has come, at most until `until`; looks once in any case.
    pub(crate) fn wait_for(&self, goal: &Goal<'_>, until: Instant) -> Option<usize> {
        let mut role = None;
        loop {
            let mut calls = self.calls_that_left(goal.calls());
            if let Some(place) = calls.reached(goal) {
                return self.leave(role, calls, Some(place));
            }
            if let Some(role) = role.take().or_else(|| self.role.try_take()) {
                calls.receptions += 1;
                let seen = (calls.next(), calls.large.is_owing());
                drop(calls);
                return self.receive(role, goal, until, seen);
            }
            if self.background.is_idle() {
                // It has the role, and gives it back.
                self.wake_background();
            }
            match self.follow(calls, goal, until) {
                Followed::Ended(place) => return Some(place),
                Followed::TimedOut => return None,
                Followed::Role(held) => role = Some(held),
            }
        }
    }

    /// Waits while another thread receives.
    fn follow<'a>(
        &'a self,
        mut calls: MutexGuard<'a, Calls<L>>,
        goal: &Goal<'_>,
        until: Instant,
    ) -> Followed<'a> {
        if now() >= until {
            return Followed::TimedOut;
        }
        let thread = WaitingThread::current();
        calls.add_waiting(goal.calls(), &thread);
        drop(calls);
        if let Goal::Pipe(queue, awaited) = goal
            && !queue.attend(*awaited)
        {
            return Followed::Ended(0);
        }
        let (limit, mut ended) = (Cell::new(Instant::default()), None);
        let is_over = || {
            if let Goal::Pipe(queue, awaited) = goal {
                // Woken in vain, it is no longer among those that are to be woken.
                queue.leave(*awaited);
                queue.attend(*awaited);
            }
            let (calls, clock) = (self.calls(), now());
            ended = calls.reached(goal);
            if ended.is_some() || clock >= until {
                return true;
            }
            limit.set(until.min(calls.earliest_for(goal) + AFTER_THE_RECEIVER));
            if clock >= calls.next().due() + AFTER_THE_RECEIVER {
                self.look_instead(calls, clock);
            }
            false
        };
        let spinners_max = match self.link.binding.options.waiting {
            Waiting::Spin => self.link.binding.present().placement.waiting_max as usize,
            _ => 0,
        };
        let pause = || match limit.get().nanos_since(now()) {
            // The receiver spins, too.
            left_ns if left_ns > 0 && self.role.followers_len() < spinners_max => Pause::Spin,
            left_ns => Pause::Sleep(left_ns),
        };
        let role = self.role.follow(&thread, is_over, pause);
        self.calls().remove_waiting(goal.calls(), &thread);
        if let Goal::Pipe(queue, awaited) = goal {
            queue.leave(*awaited);
        }
        match (role, ended) {
            (Some(role), _) => Followed::Role(role),
            (None, Some(place)) => Followed::Ended(place),
            (None, None) => Followed::TimedOut,
        }
    }

    /// Does what the receiving thread should have done by now: that thread does not run.
    pub(crate) fn look_instead(&self, mut calls: MutexGuard<'_, Calls<L>>, clock: Instant) {
        calls.take_all(&mut vec![0; BUFFER_LEN], clock);
        calls.look(clock);
        if self.background.is_idle() {
            // A timeout may be due earlier now.
            self.wake_background();
        }
        self.unlock(calls, &mut Wakeups::default());
    }

    /// Receives for all until one of the calls has ended, at most until `until`; looks once in any case.
    fn receive(
        &self,
        mut role: Role<'_>,
        goal: &Goal<'_>,
        until: Instant,
        // What is due next, and whether receipts are owed: they leave when no more packets are there.
        (mut next, mut owes): (Next, bool),
    ) -> Option<usize> {
        let mut clock = now();
        let mut wait = role.waiter.begin(clock.as_nanos());
        let of_pipe = matches!(goal, Goal::Pipe(..));
        role.comes_back = of_pipe && clock.nanos_since(role.left) < SOON_NS;
        if !owes {
            role.owed = clock;
        }
        let mut heard = clock;
        loop {
            let Receiver { buffer, waiter, wakeups, comes_back, .. } = &mut *role;
            let arrival = if !wait.sleeps() || owes || clock >= until {
                self.link.endpoint.receive_many(buffer)
            } else {
                let (about_ns, latest_ns) = next.nap_ns(clock, until);
                self.link.endpoint.receive_many_about(buffer, about_ns, latest_ns)
            };
            clock = now();
            let nothing = matches!(arrival, Ok(CallerArrival::Nothing));
            let lingers = *comes_back && wait.spins() && clock.nanos_since(heard) < RECEIPT_WAITS_NANOS;
            if nothing && (!owes || lingers) && clock < next.due() && clock < until {
                waiter.go_on(&mut wait, clock.as_nanos());
                if wait.spins() {
                    continue;
                }
            }
            let mut calls = self.calls();
            let arrived = calls.take_in(arrival, buffer, clock);
            if arrived {
                waiter.arrived(&wait, clock.as_nanos());
            }
            let ended = calls.reached(goal);
            next = calls.next();
            owes = calls.large.is_owing();
            if ended.is_some() || clock >= until {
                let may_owe = ended.is_some() && role.comes_back && clock.nanos_since(role.owed) < OWED_NS;
                if owes && !may_owe {
                    calls.send_receipts(clock, true);
                    role.owed = clock;
                }
                role.left = if of_pipe { clock } else { Instant::default() };
                return self.leave(Some(role), calls, ended);
            }
            let needs_binding = self.needs_binding(&calls);
            self.unlock(calls, wakeups);
            if needs_binding {
                self.wake_background();
            }
            if arrived {
                heard = clock;
                role.waiter.begin_again(&mut wait, clock.as_nanos());
            }
        }
    }

    /// Gives the role back, if it is held, and releases the lock.
    fn leave(
        &self,
        role: Option<Role<'_>>,
        mut calls: MutexGuard<'_, Calls<L>>,
        ended: Option<usize>,
    ) -> Option<usize> {
        let Some(role) = role else { return ended };
        let needs_background = self.needs_background(&calls);
        // First, so that the role is passed to a thread that goes on waiting.
        calls.wakeups.notify_threads();
        // Under the lock, so that a task that begins to wait later finds the role free and wakes the background thread.
        drop(role);
        self.unlock(calls, &mut Wakeups::default());
        if needs_background {
            self.wake_background();
        }
        ended
    }

    /// Receives for all calls as long as no thread waits and calls are outstanding.
    pub(crate) fn attend(&self, mut role: Role<'_>) {
        let (mut about_ns, mut latest_ns, mut active) = (0, 0, now());
        let mut is_there = false;
        loop {
            let Receiver { buffer, wakeups, .. } = &mut *role;
            let arrival = self.link.endpoint.receive_many_about(buffer, about_ns, latest_ns);
            let clock = now();
            let mut calls = self.calls();
            let outstanding = calls.outstanding;
            let quiet = !calls.take_in(arrival, buffer, clock);
            // Answers to probes come as long as calls wait. What is there and cannot be taken is perhaps an error, which stays.
            if calls.outstanding != outstanding || (quiet && is_there) {
                active = clock;
            }
            let leaves = self.role.followers_len() > 0
                || self.background.is_woken()
                || self.needs_binding(&calls)
                || (quiet && about_ns > 0 && calls.outstanding == 0);
            (about_ns, latest_ns) = match calls.large.is_owing() {
                true => (0, 0),
                false => calls.next().nap_ns(clock, Instant::NEVER),
            };
            self.unlock(calls, wakeups);
            if leaves {
                return;
            }
            is_there = false;
            if quiet
                && clock.since(active) >= QUIET
                && let Some(comes) = self.sleep_until_packet()
            {
                (about_ns, latest_ns, is_there) = (0, 0, comes);
            }
        }
    }

    /// While only time can bring something to do: sleeps until a packet arrives, a timeout is due or the thread is woken. Returns whether
    /// something is to be received; `None`: it has not slept.
    fn sleep_until_packet(&self) -> Option<bool> {
        let socket = self.link.endpoint.descriptor()?;
        let until_ns = || {
            let calls = self.calls();
            let is_busy = calls.outstanding == 0 || calls.large.is_owing() || calls.large.is_sending();
            let rests = !is_busy && self.role.followers_len() == 0;
            rests.then(|| calls.next().due().as_nanos())
        };
        let sleep = |waker: &Waker, until_ns: u64| {
            waker.sleep_beside(socket, until_ns.saturating_sub(now().as_nanos())).unwrap_or(true)
        };
        self.background.sleep_until_arrival(until_ns, sleep)
    }
}
