//! The life of one call across its attempts: whether it is made again, where, and what its caller is told in the end.
//!
//! A call that may have run is made again only if its procedure is idempotent, and from then on its caller is never told that it has
//! not run. A call leaves two sessions at most, and so uses three ([`ATTEMPTS_MAX`]); one that was refused for overload and comes again
//! may find another session there, which does not count. Which evidence shows that a call has not run is the transport's:
//! it says so in [`Ended`], or by a [`Verdict`].

use core::time::Duration;
use stoop_exchange::outcome::{ATTEMPTS_MAX, AfterRefusal, LostAttempts, Unbound, Verdict};
use stoop_wire::{RefusalCode, Refused};

/// How an attempt ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an error after which nothing is tried: it could not be sent, or it failed at the server.
    Final,
    /// The server knows the binding, has refused the call, and never will run it.
    Refused(Refused),
    /// The call's deadline passed while the server may have it.
    Late,
    /// Its session was lost.
    Lost {
        /// The server may have run the call; if not, it has not taken the call, and never will.
        may_have_run: bool,
    },
    /// The server does not know its session any more. Only the next bind shows whether it may have run the call.
    Unbound(Unbound),
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It ends, with the error that this names.
    End(Told),
    /// It is sent again on the same session after so long.
    Later(Duration),
    /// It is sent now, on the session that is there.
    Send,
    /// It is sent on another session, when there is one. If there is none by the call's deadline, ask [`Life::not_bound`].
    Bind(Why),
}

/// The reason why a call needs another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The server of its session shuts down, and has refused it.
    Leave,
    /// Its session was lost. It has not run, or may run again.
    Lost,
    /// The server did not know its session. When there is another, ask [`Life::judged`].
    Judge(Unbound),
}

/// Which error the caller of a call is told, through [`Life::transmissions_of_unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// That of its latest attempt.
    Latest,
    /// Its deadline passed; it may have run.
    Late,
    /// It was lost; it may have run.
    Lost,
    /// It was lost on as many sessions as it may use.
    NoSessionLeft,
    /// No other session could be had, for the reason that binding gave.
    NotBound,
}

/// What an error says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The call was not sent.
    NotSent,
    /// The server has refused it.
    Refused,
    /// It may have run, after so many transmissions.
    Unknown(u32),
    /// Anything else: it has run, or the server is not to be believed.
    Other,
}

/// The attempts of one call so far. That of a call that goes well is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    lost: LostAttempts,
    /// The sessions that it has left: it was lost with them, or their servers did not know them or shut down.
    left: u8,
    /// How often it was refused because the server is overloaded.
    refusals: u8,
    /// Its arguments are as they were no longer.
    is_sealed: bool,
}

impl Life {
    /// Whether an attempt that was lost may have run it.
    pub fn may_have_run(&self) -> bool {
        self.lost.may_have_run()
    }

    /// Whether a call that is refused with this code may be sent again.
    pub fn may_come_again(&self, code: RefusalCode, idempotent: bool) -> bool {
        AfterRefusal::of(code, &self.lost, idempotent) != AfterRefusal::Report
    }

    /// A result has overwritten some of its arguments: it is not made again if it may have run.
    pub fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// The latest attempt, which was sent `transmissions` times, has ended so. `wait`: how long it waits after so many refusals before
    /// it comes again, if the binding's budget allows that.
    pub fn after(
        &mut self,
        ended: Ended,
        transmissions: u32,
        idempotent: bool,
        wait: impl FnOnce(Refused, u32) -> Option<Duration>,
    ) -> Next {
        match ended {
            Ended::Final => Next::End(Told::Latest),
            Ended::Late => Next::End(Told::Late),
            Ended::Refused(refused) => match AfterRefusal::of(refused.code, &self.lost, idempotent) {
                AfterRefusal::SendLater => {
                    self.refusals = self.refusals.saturating_add(1);
                    wait(refused, self.refusals.into()).map_or(Next::End(Told::Latest), Next::Later)
                }
                AfterRefusal::SendElsewhere if u32::from(self.left) + 1 < ATTEMPTS_MAX => {
                    self.left += 1;
                    Next::Bind(Why::Leave)
                }
                AfterRefusal::SendElsewhere | AfterRefusal::Report => Next::End(Told::Latest),
            },
            Ended::Lost { may_have_run } => {
                self.left += 1;
                if may_have_run {
                    self.lost.add(transmissions);
                }
                self.ends(idempotent).map_or(Next::Bind(Why::Lost), Next::End)
            }
            Ended::Unbound(refusal) => {
                self.left += 1;
                Next::Bind(Why::Judge(refusal))
            }
        }
    }

    /// A call whose session its server did not know has another session, and that is the verdict. `transmissions`: of the lost attempt.
    pub fn judged(&mut self, verdict: Verdict, transmissions: u32, idempotent: bool) -> Next {
        if verdict != Verdict::NotRun {
            self.lost.add(transmissions);
        }
        self.ends(idempotent).map_or(Next::Send, Next::End)
    }

    /// There is no other session for the call by its deadline, or by the last attempt to bind. `transmissions`: of its last attempt.
    pub fn not_bound(&mut self, why: Why, transmissions: u32) -> Told {
        match why {
            Why::Leave => Told::Latest,
            Why::Lost => Told::NotBound,
            Why::Judge(_) => {
                self.lost.add(transmissions);
                Told::Lost
            }
        }
    }

    /// The error of a call that has left its session, if it may not use another.
    fn ends(&self, idempotent: bool) -> Option<Told> {
        if !self.lost.allow_another(idempotent) || self.lost.may_have_run() && self.is_sealed {
            return Some(Told::Lost);
        }
        (u32::from(self.left) >= ATTEMPTS_MAX).then_some(Told::NoSessionLeft)
    }

    /// After how many transmissions the caller is told that its call may have run; `None`: it is told the error itself, which says
    /// `said`. `told` is [`Told::Late`] or [`Told::Lost`], or the error is of another kind.
    pub fn transmissions_of_unknown(&self, told: Told, said: Said) -> Option<u32> {
        let more = match (told, said) {
            (Told::Lost, _) => return Some(self.lost.transmissions()),
            (Told::Late, _) => return Some(self.lost.transmissions() + 1),
            (_, Said::NotSent) => 0,
            (_, Said::Refused) => 1,
            (_, Said::Unknown(transmissions)) => transmissions,
            (_, Said::Other) => return None,
        };
        self.may_have_run().then(|| self.lost.transmissions() + more)
    }
}

const _: () = assert!(size_of::<Life>() <= 12, "each outstanding call has one");
