//! The decisions about a call against a model: the loop of a thread that makes the call again and again, written without the crate's types,
//! over all scripts of four attempts.

use std::time::Duration;
use stoop_calls::life::{Ended, Life, Next, Said, Told, Why};
use stoop_exchange::outcome::{ATTEMPTS_MAX, AfterRefusal, LostAttempts, Unbound, Verdict};
use stoop_wire::{RefusalCode, Refused, RetryAfter};

/// How an attempt ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Result,
    NotSent,
    Overloaded,
    ShuttingDown,
    BadArguments,
    Failed,
    Late,
    LostPerhapsRun,
    LostNotRun,
    Unbound,
}

const ENDS: [End; 10] = [
    End::Result,
    End::NotSent,
    End::Overloaded,
    End::ShuttingDown,
    End::BadArguments,
    End::Failed,
    End::Late,
    End::LostPerhapsRun,
    End::LostNotRun,
    End::Unbound,
];

/// The error that a caller is told.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Error {
    NotSent,
    Refused(RefusalCode),
    Failed,
    Unknown(u32),
    NoSessionLeft,
    NotBound,
    DeadlinePassed,
}

/// One call, and all that happens to it.
#[derive(Clone, Copy, Debug)]
struct World {
    script: [End; 4],
    idempotent: bool,
    verdict: Verdict,
    overwritten: bool,
    /// There is a server to bind to; and another than the one that shuts down.
    server: bool,
    another: bool,
    /// Refusals after which the budget lets it come again, and attempts until its deadline.
    again: u32,
    in_time: u32,
}

/// What happens next, and how many attempts there were after the first.
struct Run {
    world: World,
    attempts: u32,
}

impl Run {
    fn attempt(&mut self) -> End {
        self.attempts += 1;
        self.world.script.get(self.attempts as usize).copied().unwrap_or(End::Result)
    }

    fn is_in_time(&self) -> bool {
        self.attempts < self.world.in_time
    }
}

fn code(end: End) -> Option<RefusalCode> {
    match end {
        End::Overloaded => Some(RefusalCode::Overloaded),
        End::ShuttingDown => Some(RefusalCode::ShuttingDown),
        End::BadArguments => Some(RefusalCode::BadArguments),
        _ => None,
    }
}

fn error(end: End) -> Error {
    match (end, code(end)) {
        (_, Some(code)) => Error::Refused(code),
        (End::NotSent, _) => Error::NotSent,
        _ => Error::Failed,
    }
}

/// The model.
fn by_a_loop(world: World) -> (Result<(), Error>, u32) {
    let mut run = Run { world, attempts: 0 };
    let (mut lost, mut sessions, mut refusals) = (LostAttempts::default(), 1, 0);
    let mut end = world.script[0];
    let told = |lost: &LostAttempts, error: Error| match error {
        Error::Failed | Error::Unknown(_) => error,
        _ if !lost.may_have_run() => error,
        Error::Refused(_) => Error::Unknown(lost.transmissions() + 1),
        _ => Error::Unknown(lost.transmissions()),
    };
    let error = loop {
        match end {
            End::Result => return (Ok(()), run.attempts),
            End::NotSent | End::Failed => break told(&lost, error(end)),
            End::Late => break Error::Unknown(lost.transmissions() + 1),
            End::Overloaded | End::ShuttingDown | End::BadArguments => {
                match AfterRefusal::of(code(end).unwrap(), &lost, world.idempotent) {
                    AfterRefusal::SendLater => {
                        refusals += 1;
                        if refusals > world.again {
                            break told(&lost, error(end));
                        }
                        end = run.attempt();
                        continue;
                    }
                    AfterRefusal::SendElsewhere
                        if sessions < ATTEMPTS_MAX && world.server && world.another => {}
                    _ => break told(&lost, error(end)),
                }
            }
            End::LostNotRun => {}
            End::LostPerhapsRun => lost.add(1),
            End::Unbound if !world.server => {
                lost.add(1);
                break Error::Unknown(lost.transmissions());
            }
            End::Unbound if world.verdict == Verdict::NotRun => {}
            End::Unbound => lost.add(1),
        }
        if !lost.allow_another(world.idempotent) || lost.may_have_run() && world.overwritten {
            break Error::Unknown(lost.transmissions());
        }
        if sessions == ATTEMPTS_MAX {
            break told(&lost, Error::NoSessionLeft);
        }
        sessions += 1;
        if !world.server {
            break told(&lost, Error::NotBound);
        }
        if !run.is_in_time() {
            break told(&lost, Error::DeadlinePassed);
        }
        end = run.attempt();
    };
    (Err(error), run.attempts)
}

/// The crate, driven by a thread that makes the call.
fn by_life(world: World) -> (Result<(), Error>, u32) {
    let (mut run, mut life) = (Run { world, attempts: 0 }, Life::default());
    if world.overwritten {
        life.seal();
    }
    let mut end = world.script[0];
    let (told, latest) = loop {
        let ended = match (end, code(end)) {
            (End::Result, _) => return (Ok(()), run.attempts),
            (_, Some(code)) => Ended::Refused(Refused { code, retry_after: RetryAfter::NOT_SAID }),
            (End::Late, _) => Ended::Late,
            (End::LostPerhapsRun, _) => Ended::Lost { may_have_run: true },
            (End::LostNotRun, _) => Ended::Lost { may_have_run: false },
            (End::Unbound, _) => Ended::Unbound(Unbound::ANOTHER_VERSION),
            _ => Ended::Final,
        };
        let wait = |_, refusals| (refusals <= world.again).then_some(Duration::ZERO);
        let mut next = life.after(ended, 1, world.idempotent, wait);
        let comes_again = matches!(next, Next::Later(_));
        if let Next::Bind(why) = next {
            let is_there = world.server && (why != Why::Leave || world.another);
            next = match why {
                _ if !is_there => Next::End(life.not_bound(why, 1)),
                Why::Judge(_) => life.judged(world.verdict, 1, world.idempotent),
                Why::Leave | Why::Lost => Next::Send,
            };
        }
        match next {
            Next::End(told) => break (told, error(end)),
            Next::Send | Next::Later(_) if comes_again || run.is_in_time() => end = run.attempt(),
            _ => break (Told::Latest, Error::DeadlinePassed),
        }
    };
    let error = match told {
        Told::NoSessionLeft => Error::NoSessionLeft,
        Told::NotBound => Error::NotBound,
        Told::Latest | Told::Late | Told::Lost => latest,
    };
    let said = match error {
        Error::Failed => Said::Other,
        Error::Refused(_) => Said::Refused,
        Error::Unknown(transmissions) => Said::Unknown(transmissions),
        _ => Said::NotSent,
    };
    (Err(life.transmissions_of_unknown(told, said).map_or(error, Error::Unknown)), run.attempts)
}

#[test]
fn each_call_ends_as_in_the_model() {
    let scripts = (0..10_000).map(|n| [n / 1000, n / 100 % 10, n / 10 % 10, n % 10].map(|end| ENDS[end]));
    for script in scripts {
        for flags in 0..16_u32 {
            let [idempotent, overwritten, server, another] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
            let verdicts = [Verdict::NotRun, if idempotent { Verdict::RunAgain } else { Verdict::Unknown }];
            for (verdict, again, in_time) in
                verdicts.into_iter().flat_map(|verdict| [(verdict, 0, 9), (verdict, 2, 9), (verdict, 2, 1)])
            {
                let world =
                    World { script, idempotent, verdict, overwritten, server, another, again, in_time };
                assert_eq!(by_life(world), by_a_loop(world), "{world:?}");
            }
        }
    }
}

#[test]
fn no_caller_of_a_call_that_may_have_run_is_told_that_it_has_not() {
    let mut life = Life::default();
    assert_eq!(life.after(Ended::Lost { may_have_run: true }, 2, true, |_, _| None), Next::Bind(Why::Lost));
    for told in [Told::Latest, Told::Late, Told::Lost, Told::NoSessionLeft, Told::NotBound] {
        for said in [Said::NotSent, Said::Refused, Said::Unknown(1)] {
            assert!(
                life.transmissions_of_unknown(told, said).is_some_and(|times| times >= 2),
                "{told:?} {said:?}"
            );
        }
    }
    assert_eq!(life.transmissions_of_unknown(Told::Latest, Said::Other), None, "it ran, and failed");
}
