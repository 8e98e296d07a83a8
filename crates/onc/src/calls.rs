//! A caller's outstanding calls: replies are matched by xid, calls are sent again, and end at their deadline.
//!
//! The driver begins a call with [`Calls::begin`] and sends it. It passes the xid of each arriving reply to
//! [`Calls::complete`], and at [`Calls::next_timeout`] asks [`Calls::handle_timeout`] what to do. Any number of calls may be
//! outstanding. A reply with a foreign xid changes nothing: a deadline is for the whole call, whatever else arrives.

use crate::{Instant, Retransmission, Xid, Xids};
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use stoop_exchange::RoundTrip;

/// The outstanding calls to one server, each with data of the driver: the message to send again, for example.
#[derive(Debug)]
pub struct Calls<T> {
    outstanding: BTreeMap<Xid, Outstanding<T>>,
    /// The next timeout of each outstanding call.
    timeouts: BTreeSet<(Instant, Xid)>,
    retransmission: Retransmission,
    path: RoundTrip,
    xids: Xids,
    /// Replies that matched no call.
    unmatched: u64,
}

#[derive(Debug)]
struct Outstanding<T> {
    data: T,
    deadline: Instant,
    /// When it was sent first.
    begun: Instant,
    transmissions: u32,
    timeout: Instant,
}

/// A call that has its reply.
#[derive(Debug)]
pub struct Completed<T> {
    /// The driver's data.
    pub data: T,
    /// How often the call was sent. More than once, and without a reply cache at the server the procedure may have run
    /// more than once.
    pub transmissions: u32,
    /// Time from the first transmission.
    pub elapsed: Duration,
}

/// The next step of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Timeout<'a, T> {
    /// Send it again, with the same xid.
    Retransmit {
        /// The call.
        xid: Xid,
        /// The driver's data.
        data: &'a mut T,
    },
    /// Its deadline has passed. It is no longer outstanding; the procedure may have run or not.
    Expired {
        /// The call.
        xid: Xid,
        /// The driver's data.
        data: T,
        /// How often it was sent.
        transmissions: u32,
    },
}

impl<T> Calls<T> {
    /// No calls yet.
    pub fn new(retransmission: Retransmission, xids: Xids) -> Self {
        Calls {
            outstanding: BTreeMap::new(),
            timeouts: BTreeSet::new(),
            retransmission,
            path: RoundTrip::default(),
            xids,
            unmatched: 0,
        }
    }

    /// Registers a call that is to be sent now. `data` makes the driver's data from its xid, which no outstanding call
    /// has.
    pub fn begin(&mut self, now: Instant, deadline: Instant, data: impl FnOnce(Xid) -> T) -> (Xid, &mut T) {
        let xid = self.draw();
        let timeout = self.timeout_after(now, deadline, 1);
        self.timeouts.insert((timeout, xid));
        let call = Outstanding { data: data(xid), deadline, begun: now, transmissions: 1, timeout };
        let call = self.outstanding.entry(xid).or_insert(call);
        (xid, &mut call.data)
    }

    /// An xid that no outstanding call has: for a call to which no reply is expected.
    pub fn draw(&mut self) -> Xid {
        loop {
            let xid = self.xids.draw();
            if !self.outstanding.contains_key(&xid) {
                return xid;
            }
        }
    }

    /// Ends the call that a reply answers. `None` if there is none: the reply is late, repeated or forged, and is to be
    /// ignored.
    pub fn complete(&mut self, now: Instant, xid: Xid) -> Option<Completed<T>> {
        let Some(call) = self.remove(xid) else {
            self.unmatched += 1;
            return None;
        };
        let elapsed = now.since(call.begun);
        // For a call that was sent again, the reply may answer any of the transmissions (Karn's algorithm, RFC 6298 §3).
        if call.transmissions == 1 {
            self.path.sample(elapsed);
        }
        Some(Completed { data: call.data, transmissions: call.transmissions, elapsed })
    }

    /// Forgets a call. Its reply, if there is one, will match nothing.
    pub fn cancel(&mut self, xid: Xid) -> Option<T> {
        self.remove(xid).map(|call| call.data)
    }

    /// The driver's data of an outstanding call: for a broadcast, which has many replies and ends at its deadline.
    pub fn get_mut(&mut self, xid: Xid) -> Option<&mut T> {
        self.outstanding.get_mut(&xid).map(|call| &mut call.data)
    }

    /// The outstanding calls by their xids: the driver's data, and how often each was sent.
    pub fn iter(&self) -> impl Iterator<Item = (Xid, &T, u32)> {
        self.outstanding.iter().map(|(xid, call)| (*xid, &call.data, call.transmissions))
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|(timeout, _)| *timeout)
    }

    /// The next step; `None` until the [next timeout](Self::next_timeout). To be called until then.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Timeout<'_, T>> {
        let (timeout, xid) = self.timeouts.first().copied().filter(|(timeout, _)| *timeout <= now)?;
        let call = self.outstanding.get(&xid).expect("a timeout belongs to an outstanding call");
        if call.deadline <= now {
            let call = self.remove(xid).expect("it is outstanding");
            return Some(Timeout::Expired { xid, data: call.data, transmissions: call.transmissions });
        }
        let (deadline, transmissions) = (call.deadline, call.transmissions + 1);
        let next = self.timeout_after(now, deadline, transmissions);
        self.timeouts.remove(&(timeout, xid));
        self.timeouts.insert((next, xid));
        let call = self.outstanding.get_mut(&xid).expect("it is outstanding");
        (call.timeout, call.transmissions) = (next, transmissions);
        Some(Timeout::Retransmit { xid, data: &mut call.data })
    }

    /// Ends all calls, in no particular order: the connection is lost.
    pub fn drain(&mut self) -> impl Iterator<Item = (Xid, T)> + use<T> {
        self.timeouts.clear();
        core::mem::take(&mut self.outstanding).into_iter().map(|(xid, call)| (xid, call.data))
    }

    /// How many calls are outstanding.
    pub fn len(&self) -> usize {
        self.outstanding.len()
    }

    /// Whether no call is outstanding.
    pub fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Replies so far that matched no outstanding call.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    fn remove(&mut self, xid: Xid) -> Option<Outstanding<T>> {
        let call = self.outstanding.remove(&xid)?;
        self.timeouts.remove(&(call.timeout, xid));
        Some(call)
    }

    fn timeout_after(&self, now: Instant, deadline: Instant, transmissions: u32) -> Instant {
        let wait = self.retransmission.wait(transmissions, &self.path);
        wait.map_or(deadline, |wait| deadline.min(now + wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn calls(retransmission: Retransmission) -> Calls<&'static str> {
        Calls::new(retransmission, Xids::new([7; 16]))
    }

    /// The seconds at which a call that begins at 0 is sent again, and the one at which it ends.
    fn times(retransmission: Retransmission, deadline: u64) -> (Vec<u64>, u64) {
        let mut calls = calls(retransmission);
        calls.begin(at(0), at(deadline), |_| "call");
        let mut sent = Vec::new();
        loop {
            let now = calls.next_timeout().expect("the call is outstanding");
            match calls.handle_timeout(now) {
                Some(Timeout::Retransmit { .. }) => sent.push(now.as_nanos() / 1_000_000_000),
                Some(Timeout::Expired { transmissions, .. }) => {
                    assert_eq!(transmissions as usize, sent.len() + 1);
                    assert!(calls.is_empty() && calls.next_timeout().is_none());
                    return (sent, now.as_nanos() / 1_000_000_000);
                }
                None => panic!("there was a timeout"),
            }
        }
    }

    #[test]
    fn calls_are_sent_again_when_libtirpc_would() {
        assert_eq!(times(Retransmission::LIBTIRPC, 25), (vec![15], 25));
        assert_eq!(times(Retransmission::LIBTIRPC_RPC_CALL, 25), (vec![5, 10, 15, 20], 25));
        assert_eq!(times(Retransmission::Never, 25), (vec![], 25));
    }

    #[test]
    fn measured_waits_double_from_the_round_trip() {
        let mut calls = calls(Retransmission::Measured);
        for _ in 0..50 {
            let (xid, _) = calls.begin(at(0), at(9), |_| "call");
            calls.complete(Instant::from_nanos(10_000_000), xid).expect("it is outstanding");
        }
        calls.begin(at(1), at(9), |_| "call");
        let mut now = at(1);
        let waits: Vec<u64> = (0..3)
            .map(|_| {
                let next = calls.next_timeout().expect("it is outstanding");
                let wait = next.nanos_since(now) / 1_000_000;
                now = next;
                calls.handle_timeout(now);
                wait
            })
            .collect();
        assert!((10..20).contains(&waits[0]), "{waits:?} ms");
        assert_eq!((waits[1] / waits[0], waits[2] / waits[1]), (2, 2), "{waits:?}");
    }

    #[test]
    fn replies_match_their_calls_in_any_order_and_once() {
        let mut calls = calls(Retransmission::Never);
        let (first, _) = calls.begin(at(0), at(9), |_| "first");
        let (second, _) = calls.begin(at(0), at(9), |_| "second");
        assert_eq!(
            calls.complete(at(3), second).map(|call| (call.data, call.elapsed.as_secs())),
            Some(("second", 3))
        );
        assert!(calls.complete(at(3), second).is_none());
        assert_eq!(calls.complete(at(4), first).map(|call| call.data), Some("first"));
        assert_eq!((calls.len(), calls.unmatched(), calls.next_timeout()), (0, 1, None));
    }

    #[test]
    fn foreign_replies_do_not_prolong_a_call() {
        let mut calls = calls(Retransmission::Every(Duration::from_secs(5)));
        let (xid, _) = calls.begin(at(0), at(7), |_| "call");
        for second in 0..7 {
            assert!(calls.complete(at(second), Xid(!xid.0)).is_none());
            let _ = calls.handle_timeout(at(second));
        }
        assert_eq!(calls.handle_timeout(at(6)), None);
        assert_eq!(
            calls.handle_timeout(at(7)),
            Some(Timeout::Expired { xid, data: "call", transmissions: 2 })
        );
        assert_eq!(calls.unmatched(), 7);
    }

    #[test]
    fn a_retransmission_has_the_xid_and_the_data_of_its_call() {
        let mut calls = Calls::new(Retransmission::Every(Duration::from_secs(1)), Xids::new([1; 16]));
        let (xid, _) = calls.begin(at(0), at(9), |xid| vec![xid]);
        assert_eq!(calls.handle_timeout(at(0)), None);
        assert_eq!(calls.handle_timeout(at(1)), Some(Timeout::Retransmit { xid, data: &mut vec![xid] }));
        assert_eq!(calls.complete(at(2), xid).map(|call| call.transmissions), Some(2));
    }

    #[test]
    fn a_cancelled_call_has_no_timeout_and_no_reply() {
        let mut calls = calls(Retransmission::LIBTIRPC);
        let (xid, _) = calls.begin(at(0), at(9), |_| "call");
        assert_eq!(calls.get_mut(xid), Some(&mut "call"));
        assert_eq!(calls.cancel(xid), Some("call"));
        assert_eq!((calls.next_timeout(), calls.complete(at(1), xid).is_none()), (None, true));
        calls.begin(at(0), at(9), |_| "lost");
        assert_eq!(calls.drain().map(|(_, data)| data).collect::<Vec<_>>(), ["lost"]);
        assert_eq!(calls.next_timeout(), None);
    }
}
