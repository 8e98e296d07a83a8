//! Decides what becomes of a call that has no result: the server does not know its binding any more, or has refused it.
//!
//! If the server does not know the binding, it has either released the binding or been restarted, and the call may have run before that. The caller
//! binds again and then asks [`Evidence::verdict`], the one place that decides whether the call is sent again.
//!
//! A server remembers for a known time. It keeps a binding on which a call has arrived for its silence limit from then
//! on, and a server process remembers since it started. A call that cannot have arrived before that time did not run.
//! There are two ways to know the earliest possible arrival:
//!
//! - Caller and server read the same clock, because they run on one machine. The clock then gives the time since the
//!   first transmission.
//! - The call was sent once, and that packet was refused. A network keeps a packet for [`PACKET_LIFE`] at most, so any
//!   copy of it arrived within that time of the refusal.
//!
//! The caller's clock proves nothing about a server on another machine. A virtual machine that is saved and resumed
//! loses the time between, on each of its clocks. A comparison of both clocks at the two binds does not show that if
//! the server's machine has lost as much before, or if the clocks have drifted apart as far.
//!
//! A server that knows the binding and refuses a call has not run it, and never will: it remembers the number of the call, so that a
//! late copy of the packet is refused, too. So such a call may be sent again whatever its procedure does, unless an earlier attempt
//! may have run it ([`AfterRefusal`]).

use crate::Instant;
use crate::binder::Bound;
use core::time::Duration;
use stoop_wire::RefusalCode;
use stoop_wire::bind::HostFacts;

/// Longest time between the sending of a packet, or of a copy that the network made, and the moment at which the
/// receiver takes it from its socket. Half of the two minutes that RFC 9293 §3.4.3 presumes for TCP.
pub const PACKET_LIFE: Duration = Duration::from_secs(60);

/// The clocks of two time namespaces of one machine differ by at least this much, or not at all (`time_namespaces(7)`).
const NAMESPACES_APART_NS: u64 = 1_000_000_000;

/// A refusal of a call because the server does not know its binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// Incarnation of the server that refused; another server may have granted the binding.
    pub incarnation: u64,
    /// How long that server had been up when it refused.
    pub up: Duration,
}

impl Unbound {
    /// The refusal by a server that speaks another version of the protocol, and so knows no binding of this version.
    pub const ANOTHER_VERSION: Self = Self { incarnation: 0, up: Duration::ZERO };
}

/// How a call was sent on the binding that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Number of transmissions; in a call of many packets, the highest number of any packet.
    pub transmissions: u32,
    /// Whether the server has answered anything about the call: an acknowledgement, a receipt, part of a result.
    pub acknowledged: bool,
    /// The refusal of this call or, if it was not refused itself, of another call on the binding.
    pub refusal: Unbound,
    /// Whether the refusal was of this call itself.
    pub refused_itself: bool,
    /// When it was first sent, by a clock of the caller that does not stop while its machine sleeps.
    pub first: Instant,
}

/// A binding, and when its caller read the grant, by the clock of [`Sent::first`].
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The binding.
    pub bound: &'a Bound,
    /// When the caller read the grant.
    pub read: Instant,
    /// When the caller heard that the server shuts down, if it has: from before then on, the server refuses all calls.
    pub closed: Option<Instant>,
}

/// The caller's knowledge about a call whose binding was lost, after it has bound again.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// As [`Sent::transmissions`].
    pub transmissions: u32,
    /// As [`Sent::acknowledged`].
    pub acknowledged: bool,
    /// As [`Sent::refusal`].
    pub refusal: Unbound,
    /// As [`Sent::refused_itself`].
    pub refused_itself: bool,
    /// Incarnation of the server that granted the lost binding, and the silence after which it releases a binding.
    pub lost: (u64, Duration),
    /// Incarnation of the server that granted the new binding, and how long that server had been up by then.
    pub granted: (u64, Duration),
    /// Time from the first transmission until the new binding was granted, if both sides read the same clock and it
    /// does not stop while the machine sleeps.
    pub on_one_clock: Option<Duration>,
    /// Whether it was first sent after its caller had heard that the server refused all further calls.
    pub after_end: bool,
    /// Longest life of a packet: [`PACKET_LIFE`].
    pub packet_life: Duration,
}

/// The step for a call whose binding was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did not run, and will not run on the lost binding: send it again on the new one.
    NotRun,
    /// It may have run. It is idempotent, so send it again. A later refusal no longer proves that it did not run.
    RunAgain,
    /// It may have run: report *unknown* to the caller.
    Unknown,
}

/// Sessions on which one call is attempted at most, each after the one before it was lost.
pub const ATTEMPTS_MAX: u32 = 3;

/// The attempts of one call that were lost with their sessions and may have run it.
///
/// Only an idempotent call is attempted again after them, and no error of a later attempt says that the call did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostAttempts {
    attempts: u32,
    transmissions: u32,
}

impl LostAttempts {
    /// Adds an attempt that was sent so many times and may have run the call.
    pub fn add(&mut self, transmissions: u32) {
        self.attempts += 1;
        self.transmissions += transmissions;
    }

    /// Whether one of them may have run the call.
    pub fn may_have_run(&self) -> bool {
        self.attempts > 0
    }

    /// Number of transmissions in all of them.
    pub fn transmissions(&self) -> u32 {
        self.transmissions
    }

    /// Whether the call may be attempted once more. `idempotent`: whether its procedure may run more than once.
    pub fn allow_another(&self, idempotent: bool) -> bool {
        self.attempts == 0 || idempotent && self.attempts < ATTEMPTS_MAX
    }
}

/// The step for a call that the server has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// Report the refusal to the caller.
    Report,
    /// Send the call again after a wait, if the [budget](crate::retry::RetryBudget) allows it: the server is overloaded.
    SendLater,
    /// Bind to another server, and send the call there: this one shuts down. If there is no other, report the refusal.
    SendElsewhere,
}

impl AfterRefusal {
    /// After a refusal with this code. `earlier`: the attempts that were lost before. `idempotent`: whether the procedure may run more
    /// than once.
    pub fn of(code: RefusalCode, earlier: &LostAttempts, idempotent: bool) -> Self {
        match code {
            RefusalCode::Overloaded if earlier.allow_another(idempotent) => Self::SendLater,
            RefusalCode::ShuttingDown if earlier.allow_another(idempotent) => Self::SendElsewhere,
            _ => Self::Report,
        }
    }
}

impl Evidence {
    /// Collects what is known about a call on the binding `lost`, after `granted` has replaced it. `own` describes the
    /// caller's machine.
    pub fn new(call: &Sent, lost: Grant<'_>, granted: Grant<'_>, own: &HostFacts) -> Self {
        let on_one_machine = [lost, granted].iter().all(|grant| own.shares_kernel_with(&grant.bound.host));
        let up_ns = granted.bound.clock.map_or(0, |clock| clock.up_ns);
        Self {
            transmissions: call.transmissions,
            acknowledged: call.acknowledged,
            refusal: call.refusal,
            refused_itself: call.refused_itself,
            lost: (lost.bound.incarnation, lost.bound.silence),
            granted: (granted.bound.incarnation, Duration::from_nanos(up_ns)),
            on_one_clock: if on_one_machine { elapsed(call.first, lost, granted) } else { None },
            after_end: lost.closed.is_some_and(|closed| call.first > closed),
            packet_life: PACKET_LIFE,
        }
    }

    /// The same, where an attacker may be on the path: he can forge the refusal of a server that has the binding, hold a packet for as long
    /// as he likes, and lead the caller to another server with the same key. No clock says anything then.
    #[must_use]
    pub fn believing_no_hints(self) -> Self {
        Self { refused_itself: false, packet_life: Duration::MAX, on_one_clock: None, ..self }
    }

    /// Decides whether the call may be sent again. `idempotent`: whether its procedure may run more than once.
    pub fn verdict(&self, idempotent: bool) -> Verdict {
        match (self.shows_not_run(), idempotent) {
            (true, _) => Verdict::NotRun,
            (false, true) => Verdict::RunAgain,
            (false, false) => Verdict::Unknown,
        }
    }

    fn shows_not_run(&self) -> bool {
        let ((granter, silence), (incarnation, up)) = (self.lost, self.granted);
        // One server refuses and another grants, or the first grants again: the address moves between servers that are
        // both alive. The first one may have run the call.
        let wanders = self.refusal.incarnation != incarnation;
        if self.acknowledged || wanders && !self.after_end {
            return false;
        }
        // The server that granted the binding has not begun it, and another one knows no call of that binding.
        if self.after_end {
            return true;
        }
        // Only the server that refused it can have had the call.
        let refused_as_a_whole = self.refused_itself && self.transmissions == 1;
        let released = incarnation == granter;
        let since_first = |least| self.on_one_clock.is_some_and(|elapsed| elapsed < least);
        // An eighth less, because the server's clock may be that much too fast.
        let outlives_packets = |time: Duration| time - time / 8 > self.packet_life;
        match released {
            true => since_first(silence) || refused_as_a_whole && outlives_packets(silence),
            false => since_first(up) || refused_as_a_whole && outlives_packets(self.refusal.up),
        }
    }
}

/// Time from `first` by the caller's clock until the server read its own clock to grant `granted`, if both are one
/// clock. In another time namespace the clock has a constant offset, which is no larger than the difference between the
/// two readings of each grant. A difference below one second is the time that the reply took; a larger one is an
/// offset.
fn elapsed(first: Instant, lost: Grant<'_>, granted: Grant<'_>) -> Option<Duration> {
    let apart = |grant: Grant<'_>| {
        let clock = grant.bound.clock?;
        Some(i128::from(grant.read.as_nanos()) - i128::from(clock.now_ns))
    };
    let apart = apart(lost)?.min(apart(granted)?);
    let apart = if apart < i128::from(NAMESPACES_APART_NS) { apart.min(0) } else { apart };
    let elapsed = i128::from(granted.bound.clock?.now_ns) + apart - i128::from(first.as_nanos());
    Some(Duration::from_nanos(u64::try_from(elapsed.max(0)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use stoop_wire::BindingId;
    use stoop_wire::bind::ServerClock;

    const HERS: u64 = 1;
    const NEXT: u64 = 2;
    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_secs(3);

    fn clean() -> Evidence {
        Evidence {
            transmissions: 1,
            acknowledged: false,
            refusal: Unbound { incarnation: HERS, up: LONG },
            refused_itself: true,
            lost: (HERS, LONG),
            granted: (HERS, LONG),
            on_one_clock: None,
            after_end: false,
            packet_life: PACKET_LIFE,
        }
    }

    /// All that can be known, in words, and what follows.
    fn rows() -> impl Iterator<Item = (String, Evidence)> {
        let refusals = [("itself", 0), ("with another call", 1), ("by a third server", 2)];
        let forgets = [("the binding, after 600 s", HERS, LONG), ("the binding, after 3 s", HERS, SHORT)];
        let restarts = [("all, up for 600 s", NEXT, LONG), ("all, up for 3 s", NEXT, SHORT)];
        let clocks = [
            ("two clocks", None),
            ("one clock, 2 s", Some(Duration::from_secs(2))),
            ("one clock, 4 s", Some(Duration::from_secs(4))),
        ];
        let servers = forgets.into_iter().chain(restarts);
        servers.flat_map(move |(forgot, granter, time)| {
            refusals.into_iter().flat_map(move |(who, refusal)| {
                clocks.into_iter().flat_map(move |(clock, on_one_clock)| {
                    [1, 2].into_iter().flat_map(move |transmissions| {
                        [false, true].into_iter().map(move |acknowledged| {
                            let of = |incarnation| Unbound { incarnation, up: time };
                            let evidence = Evidence {
                                transmissions,
                                acknowledged,
                                refusal: [of(granter), of(granter), of(3)][refusal],
                                refused_itself: refusal != 1,
                                lost: (HERS, if granter == HERS { time } else { LONG }),
                                granted: (granter, time),
                                on_one_clock,
                                after_end: false,
                                packet_life: PACKET_LIFE,
                            };
                            let heard = if acknowledged { "acknowledged" } else { "not acknowledged" };
                            let text = format!(
                                "server forgot {forgot}; {clock}; refused {who}; sent {transmissions}; {heard}"
                            );
                            (text, evidence)
                        })
                    })
                })
            })
        })
    }

    /// All refusals by servers that know the binding, and what follows.
    fn refusals() -> impl Iterator<Item = (String, AfterRefusal)> {
        let mut lost = LostAttempts::default();
        lost.add(1);
        let earlier =
            [("no attempt before may have run it", LostAttempts::default()), ("one may have", lost)];
        let codes = (2..=11).map(RefusalCode::from_code);
        codes.flat_map(move |code| {
            earlier.into_iter().flat_map(move |(before, earlier)| {
                [("once", false), ("idempotent", true)].into_iter().map(move |(runs, idempotent)| {
                    let after = AfterRefusal::of(code, &earlier, idempotent);
                    (format!("refused: {code}; {runs}; {before}"), after)
                })
            })
        })
    }

    /// The same of a call that left when its caller knew that the server shuts down; another server refuses it.
    fn rows_after_end() -> impl Iterator<Item = (String, Evidence)> {
        let restarted = Evidence { granted: (NEXT, SHORT), after_end: true, transmissions: 2, ..clean() };
        [("not acknowledged", false), ("acknowledged", true)].into_iter().map(move |(heard, acknowledged)| {
            let text = format!("first sent after its server had said that it shuts down; {heard}");
            (text, Evidence { acknowledged, ..restarted })
        })
    }

    /// A change of the rule is a line in the review.
    #[test]
    fn the_table_equals_its_snapshot() {
        let mut table = String::new();
        for (text, evidence) in rows().chain(rows_after_end()) {
            table += &format!("{text} → {:?}\n", evidence.verdict(false));
        }
        for (text, after) in refusals() {
            table += &format!("{text} → {after:?}\n");
        }
        assert_eq!(table, include_str!("outcome.table"), "the table is now:\n{table}");
    }

    #[test]
    fn an_idempotent_call_is_always_sent_again() {
        for (text, evidence) in rows() {
            assert_ne!(evidence.verdict(true), Verdict::Unknown, "{text}");
            assert_eq!(
                evidence.verdict(true) == Verdict::NotRun,
                evidence.verdict(false) == Verdict::NotRun,
                "{text}"
            );
        }
    }

    #[test]
    fn a_call_that_may_have_run_is_attempted_again_only_if_it_is_idempotent_and_not_for_ever() {
        let mut lost = LostAttempts::default();
        assert!(!lost.may_have_run() && lost.allow_another(false));
        for attempt in 1..=ATTEMPTS_MAX {
            lost.add(2);
            assert!(lost.may_have_run() && !lost.allow_another(false));
            assert_eq!(
                (lost.allow_another(true), lost.transmissions()),
                (attempt < ATTEMPTS_MAX, 2 * attempt)
            );
        }
    }

    #[test]
    fn a_silence_limit_as_short_as_a_packets_life_proves_nothing() {
        let silence = PACKET_LIFE * 8 / 7;
        assert_eq!(Evidence { lost: (HERS, silence), ..clean() }.verdict(false), Verdict::Unknown);
        let silence = silence + Duration::from_secs(1);
        assert_eq!(Evidence { lost: (HERS, silence), ..clean() }.verdict(false), Verdict::NotRun);
    }

    #[test]
    fn a_server_started_after_the_refusal_proves_nothing() {
        // Up for long when it granted the binding, but not when it refused the call: between the two, time has passed of
        // which the caller's clock need not know.
        let refusal = Unbound { incarnation: NEXT, up: SHORT };
        let evidence = Evidence { refusal, granted: (NEXT, LONG), ..clean() };
        assert_eq!(evidence.verdict(false), Verdict::Unknown);
    }

    /// A grant that the server gave when its clock showed so many milliseconds, and that the caller read at that time of its own.
    fn granted(clock_ms: u64, then: impl FnOnce(Grant<'_>)) {
        let clock = ServerClock { now_ns: clock_ms * 1_000_000, up_ns: 0 };
        let bound = Bound {
            forms: None,
            binding: BindingId(1),
            procedures: Vec::new(),
            incarnation: HERS,
            silence: LONG,
            max_message: 0,
            window: 0,
            host: HostFacts::default(),
            offers: String::new(),
            chosen: 0,
            clock: Some(clock),
            packet_data: 0,
            lanes: 1,
            credit: 1,
            metadata: 0,
        };
        then(Grant { bound: &bound, read: Instant::default(), closed: None });
    }

    #[test]
    fn no_more_time_has_passed_on_one_clock_than_the_reply_that_took_less_allows() {
        let ms = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        // The clocks of both ends, five seconds apart or not; the replies took these milliseconds.
        for offset in [0, 5_000] {
            for (lost_took, granted_took) in [(1, 700), (700, 1), (0, 0)] {
                granted(1_000, |lost| {
                    granted(4_000, |next| {
                        let lost = Grant { read: ms(1_000 + offset + lost_took), ..lost };
                        let next = Grant { read: ms(4_000 + offset + granted_took), ..next };
                        let passed = elapsed(ms(2_000 + offset), lost, next).unwrap();
                        let most = Duration::from_millis(2_001);
                        assert!(passed <= most, "{offset}, {lost_took}, {granted_took}: {passed:?}");
                        assert!(
                            passed >= Duration::from_secs(2) || offset > 0 || lost_took + granted_took > 0
                        );
                    });
                });
            }
        }
    }
}
