//! All orders in which an answer, the return of its procedure and the end of its call can come, by loom.

use super::*;
use crate::later::waiting::Waiting;
use loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
use loom::thread;
use stoop_wire::HEADER_LEN;

/// A call, and how often it has ended in each way.
struct Call {
    waiting: Waiting<()>,
    results: AtomicU32,
    failures: AtomicU32,
    expired: AtomicU32,
}

impl Call {
    fn new() -> Arc<Self> {
        let [results, failures, expired] = [(); 3].map(|()| AtomicU32::new(0));
        Arc::new(Self { waiting: Waiting::new(), results, failures, expired })
    }

    /// As the keeper ends it.
    fn expire(&self) {
        if self.waiting.take(|()| ReplyError::DeadlinePassed).is_ok() {
            self.expired.fetch_add(1, SeqCst);
        }
    }

    /// How it has ended: by a result, by a failure, or by its deadline.
    fn ends(&self) -> [u32; 3] {
        [&self.results, &self.failures, &self.expired].map(|count| count.load(SeqCst))
    }

    /// As the worker goes on that has run the procedure, which has returned `deferred`. `expires`: the keeper ends the call at some time.
    fn returns(self: &Arc<Self>, deferred: Deferred<u32>, expires: bool) {
        let mut packet = vec![0; 64];
        let mut result = Writer::new(&mut packet, HEADER_LEN, 32);
        let Err(Unserved::Later(later)) = deferred.put(&mut result, put) else {
            self.results.fetch_add(1, SeqCst);
            return;
        };
        let opening = self.waiting.open();
        let keeper = expires.then(|| {
            let call = Arc::clone(self);
            thread::spawn(move || call.expire())
        });
        opening.wait(());
        later.goes_to(Arc::clone(self) as Arc<dyn Open>);
        keeper.into_iter().for_each(|keeper| keeper.join().unwrap());
    }
}

fn put(value: u32, result: &mut Writer<'_>) -> Result<(), Unserved> {
    assert_eq!(value, 5, "another call's answer");
    result.value(&value);
    Ok(())
}

impl Open for Call {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        self.waiting.take(|()| ReplyError::CallerGone)?;
        match given {
            Given::Result(put) => {
                let mut packet = vec![0; 64];
                assert!(put(&mut Writer::new(&mut packet, HEADER_LEN, 32)).is_ok());
                self.results.fetch_add(1, SeqCst);
            }
            Given::Failure(_) | Given::Refusal(..) => {
                self.failures.fetch_add(1, SeqCst);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.waiting.is_over()
    }
}

/// Explores a call whose reply another thread uses so.
fn explore<T: 'static>(
    expires: bool,
    replies: impl Fn(Reply<u32>) -> T + Copy + Send + Sync + 'static,
    check: impl Fn([u32; 3], T) + Send + Sync + 'static,
) {
    loom::model(move || {
        let (reply, deferred) = deferred();
        let call = Call::new();
        let replier = thread::spawn(move || replies(reply));
        call.returns(deferred, expires);
        let replied = replier.join().unwrap();
        check(call.ends(), replied);
    });
}

#[test]
fn an_answer_ends_its_call_once_however_the_procedure_returns() {
    explore(
        false,
        |reply| reply.send(5),
        |ends, sent| {
            assert_eq!((ends, sent), ([1, 0, 0], Ok(())));
        },
    );
}

#[test]
fn a_dropped_reply_ends_its_call_once_however_the_procedure_returns() {
    explore(false, drop, |ends, ()| assert_eq!(ends, [0, 1, 0]));
}

#[test]
fn an_answer_or_the_deadline_ends_a_call_and_never_both() {
    explore(
        true,
        |reply| reply.send(5),
        |ends, sent| match sent {
            Ok(()) => assert_eq!(ends.iter().sum::<u32>(), 1, "{ends:?}"),
            Err(why) => assert_eq!((ends, why), ([0, 0, 1], ReplyError::DeadlinePassed)),
        },
    );
}

#[test]
fn a_dropped_reply_or_the_deadline_ends_a_call_and_never_both() {
    explore(true, drop, |ends, ()| assert!(ends == [0, 1, 0] || ends == [0, 0, 1], "{ends:?}"));
}

#[test]
fn an_answer_to_a_call_that_was_seen_to_be_over_reaches_nobody() {
    explore(
        true,
        |reply| {
            let is_over = reply.is_cancelled();
            (is_over, reply.send(5))
        },
        |ends, (was_over, sent)| {
            assert_eq!(ends.iter().sum::<u32>(), 1, "{ends:?}");
            assert!(!was_over || sent == Err(ReplyError::DeadlinePassed), "{sent:?}");
        },
    );
}

#[test]
fn a_thread_that_waits_for_an_answer_gets_it() {
    for is_sent in [true, false] {
        loom::model(move || {
            let (reply, deferred) = deferred();
            let replier = thread::spawn(move || if is_sent { reply.send(5).unwrap() } else { drop(reply) });
            let waited = deferred.wait(u64::MAX);
            replier.join().unwrap();
            assert_eq!(
                waited.map_err(|failure| failure.code),
                if is_sent { Ok(5) } else { Err(FailureCode::Abandoned) }
            );
        });
    }
}

#[test]
fn an_answer_is_dropped_with_the_halves_when_the_procedure_drops_its_own() {
    loom::model(|| {
        let (reply, deferred) = deferred();
        let value = Arc::new(());
        let given = Arc::clone(&value);
        let replier = thread::spawn(move || reply.send(given));
        drop(deferred);
        // Whether it was told or not: its procedure returned something else.
        let _ = replier.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}
