//! Deliberate mistakes, which show that each checker can fail.

use stoop_exchange::outcome::{Evidence, Grant, Sent, Unbound, Verdict};

/// A mistake built into the drivers around the protocol, to see that the checkers notice it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// A caller sends its call again under a new binding, even if the server was restarted.
    ResendAnyway,
    /// A caller sends its call again under a new binding of the same server, however long ago it was first sent.
    ResendHoweverOld,
    /// A caller compares its clock with the server's, at the first bind and at the second, to find out whether one of them
    /// has stood still.
    ComparesClocks,
    /// A caller takes the time for which the server has been up when it binds again for that when it was refused.
    AsksForAgeLater,
    /// A caller forgets that the server has acknowledged the call.
    ForgetsAcknowledgement,
    /// A caller does not mind that another server grants a binding than has refused the call.
    IgnoresWandering,
    /// A restarted server draws the secret of its predecessor, and so the same bindings.
    SameSecret,
    /// The server takes every call packet for a new call.
    DuplicatesAsNew,
    /// A caller puts parts of results in the wrong place.
    MisplacedParts,
    /// A caller takes more for granted than the server has room for.
    IgnoresLimits,
    /// The server refuses a cancelled call in its queue and yet keeps it.
    RunsCancelled,
    /// The server refuses a call for overload and yet keeps it.
    RefuseButRun,
    /// The server counts what is left to a call from when it reads the packet, however long that has waited in its socket.
    CountsFromReading,
    /// A caller sends its calls however many are under way.
    IgnoresCredit,
    /// A caller counts the time for which a credit is good from when it hears of the grant alone, however late that is.
    TrustsLateGrants,
    /// A caller goes on counting a call as under way after it has heard about it.
    LosesCredit,
    /// A caller does not say that it has no room for more calls.
    HidesThatOthersWait,
    /// A caller believes a refusal of the last attempt, although an earlier one may have run the call.
    ForgetsLostAttempts,
    /// A caller whose server shuts down makes the calls that run there at the next server, too.
    TakesRunningCallsAlong,
    /// A caller goes on believing a refusal after it has sent the call again.
    KeepsRefusal,
    /// A caller forgets how many sessions a call has used.
    ForgetsSessions,
    /// A failed attempt to bind ends the calls that were begun during it, too.
    EndsLaterCalls,
    /// A caller that has another session does not hear what the server of the one before answers.
    FormerSessionNotHeard,
    /// An event that was planned for an earlier call of a thread is applied to its present call.
    IgnoresCallIds,
    /// A caller that has another session leaves calls of the lost one as they are: those that are on their way if they share an
    /// endpoint, else those that wait.
    LeavesLostCalls,
    /// A server that has given the answer of an open call fails the call as well.
    AnswersTwice,
    /// A server gives the answer of an open call to another open call.
    AnswersForAnother,
    /// A server answers an open call after it has failed it, because the means to answer were dropped.
    AnswersAbandoned,
    /// A caller seals all packets with one number.
    ReusesNumber,
    /// A caller believes unsealed refusals in the name of a sealed binding.
    BelievesHints,
    /// The seal does not protect the mark of bundles.
    UnprotectedBundles,
    /// A server opens packets of all phases that a sealed binding has had.
    KeepsOldPhases,
    /// A caller on a sealed binding concludes that a call did not run because no packet is as old as the server remembers.
    ConcludesFromAge,
}

impl Sabotage {
    /// The verdict on a call that was `sent` on a binding that is lost, by a caller that makes this mistake.
    pub(crate) fn verdict(
        self,
        sent: &Sent,
        (lost, granted): (Grant<'_>, Grant<'_>),
        evidence: &Evidence,
        idempotent: bool,
    ) -> Verdict {
        match self.shows_not_run(sent, lost, granted, evidence) {
            None => evidence.verdict(idempotent),
            Some(true) => Verdict::NotRun,
            Some(false) if idempotent => Verdict::RunAgain,
            Some(false) => Verdict::Unknown,
        }
    }

    /// Whether a caller that makes this mistake believes that its call did not run; `None` if it makes none there.
    fn shows_not_run(
        self,
        sent: &Sent,
        lost: Grant<'_>,
        granted: Grant<'_>,
        evidence: &Evidence,
    ) -> Option<bool> {
        let believes = |evidence: Evidence| Some(evidence.verdict(false) == Verdict::NotRun);
        match self {
            Self::ResendAnyway => Some(true),
            Self::ResendHoweverOld => Some(lost.bound.incarnation == granted.bound.incarnation),
            Self::ComparesClocks => Some(clocks_agree(sent, lost, granted)),
            Self::AsksForAgeLater => {
                let refusal = Unbound { up: evidence.granted.1, ..evidence.refusal };
                believes(Evidence { refusal, ..*evidence })
            }
            Self::ForgetsAcknowledgement => believes(Evidence { acknowledged: false, ..*evidence }),
            Self::IgnoresWandering => {
                let refusal = Unbound { incarnation: evidence.granted.0, ..evidence.refusal };
                believes(Evidence { refusal, ..*evidence })
            }
            _ => None,
        }
    }
}

/// A rule that looks right: the clocks of both sides have gone on by the same time between the two binds, to an eighth of
/// the silence limit or of the time for which the server has been up, so that neither has stood still; and by the caller's
/// clock the call was first sent less than seven eighths of that ago. It is wrong, for one clock may have lost as much
/// before the call as the other after it.
fn clocks_agree(sent: &Sent, lost: Grant<'_>, granted: Grant<'_>) -> bool {
    let (Some(then), Some(now)) = (lost.bound.clock, granted.bound.clock) else { return false };
    let apart = (now.now_ns - then.now_ns).abs_diff(granted.read.nanos_since(lost.read));
    let same = lost.bound.incarnation == granted.bound.incarnation;
    let remembers = if same { lost.bound.silence.as_nanos() as u64 } else { now.up_ns };
    let elapsed = granted.read.nanos_since(sent.first);
    !sent.acknowledged && elapsed < remembers - remembers / 8 && apart < remembers / 8
}
