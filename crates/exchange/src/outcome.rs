//! What became of a call when the server does not know the binding on which it was sent.
//!
//! The server has either released the binding or been restarted, and a call may have run before that. The caller binds
//! again and then asks [`Evidence::verdict`]: the one place that decides whether the call is sent again.
//!
//! A server forgets nothing for a certain time: a binding on which a call has arrived lives for its silence limit from
//! then on, and a server has been there for as long as it has been up. A call that cannot have arrived earlier than
//! that did not run. There are two ways to know how early it can have arrived:
//!
//! - Caller and server read the same clock, because they run on one machine. Then the time since the first transmission
//!   is what the clock says.
//! - The call was sent once, and that packet was refused. A network keeps a packet for [`PACKET_LIFE`] at most, so any
//!   copy of it that arrived did so within that time of the refusal.
//!
//! The caller's clock decides nothing about a server on another machine. A virtual machine that is saved and resumed
//! loses the time between, by each of its clocks; a comparison of both sides' clocks at the two binds does not show that
//! where the server's machine has lost as much before, or the clocks have drifted apart as far.

use crate::Instant;
use crate::binder::Bound;
use core::time::Duration;
use stoop_wire::bind::HostFacts;

/// The longest time between the sending of a packet, or of a copy that the network made of it, and the moment at which
/// the other side takes it from its socket. Half of the two minutes that RFC 9293 §3.4.3 presumes for TCP.
pub const PACKET_LIFE: Duration = Duration::from_secs(60);

/// Clocks of two time namespaces of one machine are apart by this at least, or not at all (`time_namespaces(7)`).
const NAMESPACES_APART_NS: u64 = 1_000_000_000;

/// A refusal of a call because the server does not know its binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbound {
    /// Of the server that refused; the binding may be another's.
    pub incarnation: u64,
    /// How long that server had been up then.
    pub up: Duration,
}

impl Unbound {
    /// The refusal of a server that speaks another version of the protocol, and so knows no binding of this one.
    pub const ANOTHER_VERSION: Self = Self { incarnation: 0, up: Duration::ZERO };
}

/// How a call was sent on the binding that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How often; of a call of many packets, how often at most one of them.
    pub transmissions: u32,
    /// Whether the server has said anything of the call: an acknowledgement, a receipt, part of a result.
    pub acknowledged: bool,
    /// The refusal of this call; where it was not refused itself, of another one on the binding.
    pub refusal: Unbound,
    /// Whether this call was refused itself.
    pub refused_itself: bool,
    /// When it was first sent, by a clock of the caller that goes on while its machine sleeps.
    pub first: Instant,
}

/// A binding, and when its caller read that it was granted, by the clock of [`Sent::first`].
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The binding.
    pub bound: &'a Bound,
    /// When that was read.
    pub read: Instant,
}

/// What a caller knows of a call whose binding was lost, when it has bound again.
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
    /// Incarnation of the server that granted the lost binding, and the silence after which it releases one.
    pub lost: (u64, Duration),
    /// Incarnation of the server that granted the new binding, and how long it had been up then.
    pub granted: (u64, Duration),
    /// Time from the first transmission until the new binding was granted, if both sides read the same clock, which
    /// goes on while the machine sleeps.
    pub on_one_clock: Option<Duration>,
    /// The longest life of a packet: [`PACKET_LIFE`].
    pub packet_life: Duration,
}

/// What is to be done with a call whose binding was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did not run, and will not on the lost binding: it is sent again on the new one.
    NotRun,
    /// It may have run. It is idempotent and is sent again; a later refusal no longer means that it did not run.
    RunAgain,
    /// It may have run: its caller is told *unknown*.
    Unknown,
}

impl Evidence {
    /// What is known of a call that was sent on the binding `lost`, now that the binding `granted` has taken its place. `own`
    /// is about the caller's machine.
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
            packet_life: PACKET_LIFE,
        }
    }

    /// Whether the call may be sent again; `idempotent` if its procedure may run more than once.
    pub fn verdict(&self, idempotent: bool) -> Verdict {
        match (self.shows_not_run(), idempotent) {
            (true, _) => Verdict::NotRun,
            (false, true) => Verdict::RunAgain,
            (false, false) => Verdict::Unknown,
        }
    }

    fn shows_not_run(&self) -> bool {
        let ((granter, silence), (incarnation, up)) = (self.lost, self.granted);
        // One server refuses and another grants, or the same again: an address that wanders between servers that are
        // both alive. The first may have run the call.
        let wanders = self.refusal.incarnation != incarnation;
        if self.acknowledged || wanders {
            return false;
        }
        // No server but the one that refused it can have had the call.
        let refused_as_a_whole = self.refused_itself && self.transmissions == 1;
        let released = incarnation == granter;
        let since_first = |least| self.on_one_clock.is_some_and(|elapsed| elapsed < least);
        // An eighth less: the server's clock may be as much too fast.
        let outlives_packets = |time: Duration| time - time / 8 > self.packet_life;
        match released {
            true => since_first(silence) || refused_as_a_whole && outlives_packets(silence),
            false => since_first(up) || refused_as_a_whole && outlives_packets(self.refusal.up),
        }
    }
}

/// Time from `first` by the caller's clock until the server read its own to grant `granted`, where both are one clock. In
/// another time namespace it shows another time, always as much earlier or later: by no more than lies between the two
/// readings of each grant. That is taken for the time that the reply took unless it is a second or more.
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

    /// A change of the rule is a line in the review.
    #[test]
    fn the_table_is_the_one_under_version_control() {
        let mut table = String::new();
        for (text, evidence) in rows() {
            table += &format!("{text} → {:?}\n", evidence.verdict(false));
        }
        assert_eq!(table, include_str!("outcome.table"), "the table is now:\n{table}");
    }

    #[test]
    fn an_idempotent_call_is_sent_again_whatever_is_known() {
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
    fn a_server_that_forgets_as_fast_as_packets_die_shows_nothing() {
        let silence = PACKET_LIFE * 8 / 7;
        assert_eq!(Evidence { lost: (HERS, silence), ..clean() }.verdict(false), Verdict::Unknown);
        let silence = silence + Duration::from_secs(1);
        assert_eq!(Evidence { lost: (HERS, silence), ..clean() }.verdict(false), Verdict::NotRun);
    }

    #[test]
    fn a_server_that_was_started_after_the_call_was_refused_shows_nothing() {
        // Up for long when it granted the binding, but not when it refused the call: between the two, time has passed of
        // which the caller's clock need not know.
        let refusal = Unbound { incarnation: NEXT, up: SHORT };
        let evidence = Evidence { refusal, granted: (NEXT, LONG), ..clean() };
        assert_eq!(evidence.verdict(false), Verdict::Unknown);
    }
}
