//! Who receives for all: one thread of those that wait for a call, or the background when none does.

use crate::calling::begun::OutstandingCalls;
use crate::transport::packet::begun::calls::{Calls, Next};
use crate::transport::packet::begun::{PacketCalls, now};
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::checksum;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::udp::{CallerArrival, Segments};
use stoop_net::waiting::{ActiveWaiters, MachineCosts, Wait, WaitCounts, WaiterSlot, Waiting};

/// The receive role, for whoever has it.
pub(crate) struct Receiver {
    buffer: Vec<u8>,
    wait: Wait,
    waiters: WaiterSlot<'static>,
    news: Wakeups,
}

/// Who is to be told that calls have ended, when the lock has been given back.
#[derive(Default)]
pub(crate) struct Wakeups {
    pub(crate) threads: Vec<Thread>,
    pub(crate) wakers: Vec<Waker>,
    /// What the last call kept of a client that was dropped.
    pub(crate) unneeded: Option<Arc<dyn OutstandingCalls>>,
}

/// Packets that came together.
pub(crate) const BUFFER: usize = 64 << 10;

/// Receives before timeouts are seen to: no peer keeps calls from their ends.
const LAST_LOOKS: u32 = 64;

/// How much later than the receiving thread other threads look at timeouts.
pub(crate) const AFTER_THE_RECEIVER: Duration = Duration::from_millis(1);

impl Wakeups {
    fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.wakers.is_empty() && self.unneeded.is_none()
    }

    /// Tells them.
    pub(crate) fn tell(&mut self) {
        self.threads.drain(..).for_each(|thread| thread.unpark());
        self.wakers.drain(..).for_each(Waker::wake);
        self.unneeded = None;
    }
}

impl Receiver {
    pub(crate) fn new(binding: &PacketBinding) -> Self {
        let placement = binding.present().placement;
        Self {
            buffer: vec![0; BUFFER],
            wait: Wait::new(binding.options.waiting, MachineCosts::of_this_machine(), placement),
            waiters: ActiveWaiters::of_this_process().member(),
            news: Wakeups::default(),
        }
    }

    pub(crate) fn wait_counts(&self) -> WaitCounts {
        self.wait.counts()
    }
}

/// The receive role, held: given back when it is dropped, whatever happens.
struct Role<'a> {
    flight: &'a PacketCalls,
    reception: Option<Box<Receiver>>,
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        if let Some(reception) = self.reception.take() {
            self.flight.give_role_back(self.flight.calls(), reception);
        }
    }
}

impl PacketCalls {
    /// Waits until one of the calls has ended, at most until that time; looks once in any case.
    pub(crate) fn wait(&self, wanted: &[u32], until: Instant) -> Option<usize> {
        loop {
            let mut calls = self.calls();
            if let Some(place) = calls.ended(wanted) {
                return Some(place);
            }
            if let Some(batch) = calls.held_back(wanted) {
                self.release_batch(calls, batch);
                continue;
            }
            match calls.reception.take() {
                Some(reception) => {
                    calls.receptions += 1;
                    let next = calls.next();
                    drop(calls);
                    let role = Role { flight: self, reception: Some(reception) };
                    return role.receive(wanted, until, next);
                }
                None => match self.follow(calls, wanted, until) {
                    Followed::Ended(place) => return Some(place),
                    Followed::TimedOut => return None,
                    Followed::RoleIsFree => {}
                },
            }
        }
    }

    /// Waits while another thread receives.
    fn follow<'a>(&'a self, mut calls: MutexGuard<'a, Calls>, wanted: &[u32], until: Instant) -> Followed {
        let mut clock = now();
        if clock >= until {
            return Followed::TimedOut;
        }
        let thread = thread::current();
        let spinners_max = match self.binding.options.waiting {
            Waiting::Spin => self.binding.present().placement.waiting_max as usize,
            _ => 0,
        };
        calls.join_followers(wanted, &thread);
        let followed = loop {
            let limit = until.min(calls.earliest(wanted) + AFTER_THE_RECEIVER);
            // The receiver spins, too.
            let spins = calls.followers.len() < spinners_max;
            drop(calls);
            match spins {
                true => (0..100).for_each(|_| std::hint::spin_loop()),
                false => thread::park_timeout(limit.since(clock)),
            }
            calls = self.calls();
            clock = now();
            if let Some(place) = calls.ended(wanted) {
                break Followed::Ended(place);
            }
            if clock >= until {
                break Followed::TimedOut;
            }
            if calls.reception.is_some() {
                break Followed::RoleIsFree;
            }
            if clock >= calls.next().due() {
                let mut news = Wakeups::default();
                // The receiver should have done this: something keeps it from running.
                self.take_what_is_there(&mut calls, &mut vec![0; BUFFER], clock, &mut news);
                calls.look(clock, &self.binding, &self.socket, &mut news);
                let sends = calls.has_more_to_send();
                drop(calls);
                news.tell();
                if sends {
                    self.pump();
                }
                calls = self.calls();
            }
        };
        calls.leave_followers(wanted, thread.id());
        if !matches!(followed, Followed::RoleIsFree) && calls.reception.is_some() {
            // Whoever gave the role back may have woken this thread to take it.
            let next = calls.followers.first().cloned();
            let is_missed = next.is_none() && calls.background.is_missed(&calls);
            drop(calls);
            match next {
                Some(next) => next.unpark(),
                None if is_missed => self.background.wake(),
                None => {}
            }
        }
        followed
    }

    /// Gives the receive role back, and wakes who needs it next.
    fn give_role_back(&self, mut calls: MutexGuard<'_, Calls>, reception: Box<Receiver>) {
        calls.reception = Some(reception);
        let next = calls.followers.first().cloned();
        let wakes_background = next.is_none() && calls.background.is_missed(&calls);
        drop(calls);
        if let Some(next) = next {
            next.unpark();
        } else if wakes_background {
            self.background.wake();
        }
    }

    /// Receives for all as long as no other thread waits and there is something to receive.
    pub(crate) fn attend(&self, reception: Box<Receiver>) {
        let mut role = Role { flight: self, reception: Some(reception) };
        let (mut about_ns, mut latest_ns) = (0, 0);
        loop {
            let Receiver { buffer, news, .. } = &mut **role.reception.as_mut().expect("the role is held");
            let arrival = self.socket.recv_segments_about(buffer, about_ns, latest_ns);
            let clock = now();
            let mut calls = self.calls();
            let quiet = !self.take_in(&mut calls, arrival, buffer, clock, news);
            let leaves = !calls.followers.is_empty()
                || calls.needs_binding()
                || (quiet && about_ns > 0 && calls.outstanding == 0);
            (about_ns, latest_ns) = match calls.large.is_owing() {
                true => (0, 0),
                false => calls.next().nap_ns(clock, Instant::NEVER),
            };
            let sends = calls.has_more_to_send();
            drop(calls);
            news.tell();
            if sends {
                self.pump();
            }
            if leaves {
                return;
            }
        }
    }

    /// Takes in what has arrived, and does what is due. Tells whether anything had arrived.
    #[inline]
    fn take_in(
        &self,
        calls: &mut Calls,
        arrival: std::io::Result<CallerArrival<Segments>>,
        buffer: &mut [u8],
        clock: Instant,
        news: &mut Wakeups,
    ) -> bool {
        let arrived = match arrival {
            Ok(CallerArrival::Datagram(segments)) => {
                self.strike_out(buffer, &segments);
                calls.deliver_all(clock, segments.split(buffer), &self.socket, news);
                true
            }
            Ok(CallerArrival::Refused) => {
                calls.on_unreachable(clock, &self.binding, &self.socket, news);
                true
            }
            Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => false,
            // The network's news about an earlier packet (no route just now): the deadline is what counts.
            Err(_) => {
                calls.take_sent_back(&self.binding, &self.socket);
                false
            }
        };
        if clock >= calls.next().due() {
            self.take_what_is_there(calls, buffer, clock, news);
            calls.look(clock, &self.binding, &self.socket, news);
        }
        if calls.large.is_owing() {
            calls.tell_servers(clock, !arrived, &self.socket);
        }
        arrived
    }

    /// Makes packets that have arrived no packets where their checksums are not right.
    #[inline]
    fn strike_out(&self, buffer: &mut [u8], segments: &Segments) {
        if self.binding.own.checksum {
            let struck = checksum::strike_out(&mut buffer[..segments.len], segments.segment);
            self.binding.present().corrupt.fetch_add(struck, Ordering::Relaxed);
        }
    }

    /// Takes in what has arrived before calls are given up: a thread that was kept from running sees late what came in time.
    #[cold]
    pub(crate) fn take_what_is_there(
        &self,
        calls: &mut Calls,
        buffer: &mut [u8],
        clock: Instant,
        news: &mut Wakeups,
    ) {
        for _ in 0..LAST_LOOKS {
            match self.socket.recv_segments(buffer) {
                Ok(CallerArrival::Datagram(segments)) => {
                    self.strike_out(buffer, &segments);
                    calls.deliver_all(clock, segments.split(buffer), &self.socket, news);
                }
                Ok(CallerArrival::Refused) => calls.on_unreachable(clock, &self.binding, &self.socket, news),
                Ok(CallerArrival::Nothing) | Err(_) => break,
                Ok(CallerArrival::TooLarge(_)) => {}
            }
        }
    }
}

/// How a thread's time as a follower ended.
enum Followed {
    Ended(usize),
    TimedOut,
    RoleIsFree,
}

impl Role<'_> {
    /// Receives until one of the calls has ended, at most until that time; looks once in any case.
    fn receive(mut self, wanted: &[u32], until: Instant, mut next: Next) -> Option<usize> {
        let flight = self.flight;
        let mut clock = now();
        let mut spins = self.begin_wait(clock);
        // Servers wait to be told what has arrived: that is done when nothing more is there.
        let mut owes = false;
        let _present = self.reception().waiters.wait();
        loop {
            let Receiver { buffer, wait, waiters, news } = self.reception();
            let arrival = if spins || owes || clock >= until {
                flight.socket.recv_segments(buffer)
            } else {
                let (about_ns, latest_ns) = next.nap_ns(clock, until);
                flight.socket.recv_segments_about(buffer, about_ns, latest_ns)
            };
            clock = now();
            let nothing = matches!(arrival, Ok(CallerArrival::Nothing));
            if nothing && !owes && clock < next.due() && clock < until {
                if spins && !wait.keeps_spinning(clock.as_nanos(), waiters.waiting()) {
                    spins = false;
                    wait.sleeps(clock.as_nanos());
                }
                if spins {
                    continue;
                }
            }
            let mut calls = flight.calls();
            let arrived = flight.take_in(&mut calls, arrival, buffer, clock, news);
            if arrived {
                wait.arrived(clock.as_nanos());
            }
            let ended = calls.ended(wanted);
            next = calls.next();
            owes = calls.large.is_owing();
            if ended.is_some() || clock >= until {
                if owes {
                    calls.tell_servers(clock, true, &flight.socket);
                }
                return self.leave(calls, ended);
            }
            let sends = calls.has_more_to_send();
            if calls.needs_binding() {
                flight.background.wake();
            }
            drop(calls);
            news.tell();
            if sends {
                flight.pump();
            }
            if arrived {
                spins = self.begin_wait(clock);
            }
        }
    }

    fn reception(&mut self) -> &mut Receiver {
        self.reception.as_mut().expect("the role is held")
    }

    /// A wait begins: whether by spinning.
    fn begin_wait(&mut self, clock: Instant) -> bool {
        let Receiver { wait, waiters, .. } = self.reception();
        let spins = wait.begin(clock.as_nanos(), waiters.waiting()) > 0;
        if !spins {
            wait.sleeps(clock.as_nanos());
        }
        spins
    }

    /// Gives the role back, and then tells the others what has arrived for them, and sends what is due.
    fn leave(mut self, calls: MutexGuard<'_, Calls>, ended: Option<usize>) -> Option<usize> {
        let flight = self.flight;
        let sends = calls.has_more_to_send();
        let mut reception = self.reception.take().expect("the role is held");
        let mut news = None;
        if !reception.news.is_empty() {
            news = Some(std::mem::take(&mut reception.news));
        }
        flight.give_role_back(calls, reception);
        if let Some(mut news) = news {
            news.tell();
        }
        if sends {
            flight.pump();
        }
        ended
    }
}
