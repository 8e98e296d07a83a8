//! Calls of procedures with pipes. Each is an [open call](crate::later::open_calls) from its beginning: its stub has kept the arguments, and
//! the transport gives the call its pipes before the procedure runs. So it never takes a worker.
//!
//! A procedure that returns its answer itself runs in a [thread](crate::later::pipe_threads) of its own, one that returns a
//! [`Deferred`](crate::Deferred) at once in the thread that has received the call, and an `async fn` as a [task](crate::Task).

use crate::context::served_context;
use crate::error::RefusalCode;
use crate::later::beginning::Beginning;
use crate::later::deferred::{Deferred, Given, Held, Later, Open, Put, Unanswered, deferred};
use crate::later::pipe_threads::PipedRun;
use crate::later::reply::Reply;
use crate::later::room::OpenRoom;
use crate::later::tasks::{Ended, PutAnswer, Task, Tasks, Unstarted, answering, put};
use crate::later::unserved::Unserved;
use crate::locked::locked;
use crate::pipes::contract::{Ends, Pipes};
use crate::pipes::ends::ServedEnds;
use crate::pipes::served::Served;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};
use stoop_net::fork;

/// A call that waits for its pipes.
struct Piped<R> {
    pipes: Pipes,
    ends: Option<Ends>,
    served: Option<Arc<Served>>,
    beginning: Beginning,
    /// Begins the procedure, unless its call has ended before.
    start: Box<dyn FnOnce(ServedEnds) + Send>,
    answer: Answer<R>,
}

/// The answer of a procedure that ends like this.
type Answer<R> = Deferred<(Ended<R>, PutAnswer<R>)>;
type Answers<R> = Reply<(Ended<R>, PutAnswer<R>)>;

/// Why a call without its pipes is refused.
const NO_PIPES: &str = "the procedure has pipes, and this transport, or this kind of caller, carries none";

/// A call is without its pipes.
fn refuse(call: &dyn Open) {
    // Its caller may have gone.
    let _ = call.answer(Given::Refusal(RefusalCode::UnknownProcedure, NO_PIPES));
}

impl<R: Send + 'static> Unanswered for Piped<R> {
    fn goes_to(self: Box<Self>, call: Arc<dyn Open>) {
        let Self { ends, served, start, answer, .. } = *self;
        let Some(ends) = ends else {
            return refuse(&*call);
        };
        let open = Arc::downgrade(&call);
        let fail = move |why| {
            if let Some(call) = open.upgrade() {
                // Something else may have ended it.
                let _ = call.answer(Given::Result(&|result| {
                    result.fail(why);
                    Ok(())
                }));
            }
        };
        let put: Put<(Ended<R>, PutAnswer<R>)> = put;
        Unanswered::goes_to(Box::new((answer, put)), call);
        start(ServedEnds::new(ends, served, Box::new(fail)));
    }

    fn beginning(&self) -> Option<Beginning> {
        Some(self.beginning.clone())
    }

    fn pipes(&self) -> Pipes {
        self.pipes
    }

    fn belong_to(&mut self, room: &Arc<OpenRoom>) {
        self.served = Some(Arc::clone(&room.served));
    }

    fn give_ends(&mut self, ends: Ends) {
        self.ends = Some(ends);
    }
}

/// The call that this thread serves waits for its pipes, and `start` begins its procedure then.
fn wait_for_pipes<R: Send + 'static>(
    pipes: Pipes,
    start: impl FnOnce(ServedEnds, Answers<R>, Beginning) + Send + 'static,
) -> Result<(), Unserved> {
    let (reply, answer) = deferred();
    let beginning = Beginning::default();
    let start = {
        let beginning = beginning.clone();
        Box::new(move |ends| start(ends, reply, beginning))
    };
    let piped = Piped { pipes, ends: None, served: None, beginning, start, answer };
    Err(Unserved::Later(Later::new(Box::new(piped))))
}

/// Ends a call that is kept open, when it is dropped.
pub(crate) struct OpenPipes {
    /// There until it is dropped.
    call: Option<Arc<dyn Open>>,
    /// The process that serves the call, see [`fork::generation`].
    generation: u32,
}

impl OpenPipes {
    /// Whether the call has ended already.
    pub(crate) fn is_over(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_over())
    }
}

impl Drop for OpenPipes {
    /// Answers the call: its pipes end.
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        if self.generation != fork::generation() {
            // The call is the parent's, with its sockets and its memory.
            return mem::forget(call);
        }
        // Its caller may have gone.
        let _ = call.answer(Given::Result(&|_| Ok(())));
    }
}

/// A call that waits for its pipes, and is kept open.
struct KeptOpen {
    pipes: Pipes,
    ends: Option<Ends>,
    start: Box<dyn FnOnce(Ends, OpenPipes) + Send>,
}

impl Unanswered for KeptOpen {
    fn goes_to(self: Box<Self>, call: Arc<dyn Open>) {
        let Self { ends, start, .. } = *self;
        match ends {
            Some(ends) => start(ends, OpenPipes { call: Some(call), generation: fork::generation() }),
            None => refuse(&*call),
        }
    }

    fn pipes(&self) -> Pipes {
        self.pipes
    }

    fn give_ends(&mut self, ends: Ends) {
        self.ends = Some(ends);
    }
}

/// Passes the pipes of the call that this thread serves to `start`, with the means to end the call. `held` is dropped when it is over.
///
/// # Errors
/// Always: its answer comes later.
pub(crate) fn keep_open(
    pipes: Pipes,
    held: Held,
    start: impl FnOnce(Ends, OpenPipes) + Send + 'static,
) -> Result<(), Unserved> {
    let kept = KeptOpen { pipes, ends: None, start: Box::new(start) };
    Err(Unserved::Later(Later::new(Box::new(kept)).holding(held)))
}

/// What a stub runs the procedure with: how it ends, or a panic.
fn ended<R>(run: impl FnOnce() -> Result<R, Unserved>) -> Ended<R> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(returned) => Ended::Returned(returned),
        Err(panic) => Ended::Panicked(panic),
    }
}

/// Has a procedure run in a thread of its own once the call that this thread serves has its pipes.
///
/// # Errors
/// Always: its answer comes later, or there is no thread for it.
pub fn run_with_pipes<R, F>(
    tasks: &OnceLock<Arc<Tasks>>,
    pipes: Pipes,
    run: F,
    put: PutAnswer<R>,
) -> Result<(), Unserved>
where
    R: Send + 'static,
    F: FnOnce(ServedEnds) -> Result<R, Unserved> + Send + 'static,
{
    let Some(tasks) = tasks.get().cloned() else { return Err(Unserved::TooManyOpen) };
    let place = tasks.pipe_threads.enter().ok_or(Unserved::TooManyPipes)?;
    let context = served_context();
    wait_for_pipes(pipes, move |ends, reply, beginning| {
        let reply = Arc::new(Mutex::new(Some(reply)));
        let answer = {
            let reply = Arc::clone(&reply);
            move |ended| {
                let reply = locked(&reply).take();
                // Its caller may have gone.
                let _ = reply.map(|reply| reply.send((ended, put)));
            }
        };
        let job = {
            let answer = answer.clone();
            move || {
                // It may have waited for this thread for long.
                if beginning.begin() {
                    let ended = context.serving(|| ended(|| run(ends)));
                    drop(place);
                    answer(ended);
                }
            }
        };
        if tasks.pipe_threads.submit(PipedRun(Box::new(job))).is_err() {
            answer(Ended::Returned(Err(Unserved::TooManyPipes)));
        }
    })
}

/// Has a procedure run once the call that this thread serves has its pipes; its answer comes later.
///
/// # Errors
/// Always: its answer comes later.
pub fn run_deferred_with_pipes<R, F>(
    _: &OnceLock<Arc<Tasks>>,
    pipes: Pipes,
    run: F,
    put: PutAnswer<R>,
) -> Result<(), Unserved>
where
    R: Send + 'static,
    F: FnOnce(ServedEnds) -> Result<Deferred<R>, Unserved> + Send + 'static,
{
    let context = served_context();
    wait_for_pipes(pipes, move |ends, reply: Answers<R>, beginning| {
        if !beginning.begin() {
            return;
        }
        match context.serving(|| ended(|| run(ends))) {
            Ended::Returned(Ok(answer)) => answer.then(move |answer| match answer {
                Some(value) => _ = reply.send((Ended::Returned(Ok(value)), put)),
                // Its own reply was dropped, and so is this one.
                None => drop(reply),
            }),
            Ended::Returned(Err(why)) => _ = reply.send((Ended::Returned(Err(why)), put)),
            Ended::Panicked(panic) => _ = reply.send((Ended::Panicked(panic), put)),
        }
    })
}

/// Has a procedure run as a task once the call that this thread serves has its pipes.
///
/// # Errors
/// Always: its answer comes later, or the server runs no tasks.
pub fn run_task_with_pipes<R, F, T>(
    tasks: &OnceLock<Arc<Tasks>>,
    pipes: Pipes,
    run: F,
    put: PutAnswer<R>,
) -> Result<(), Unserved>
where
    R: Send + 'static,
    F: FnOnce(ServedEnds) -> T + Send + 'static,
    T: Future<Output = Result<R, Unserved>> + Send + 'static,
{
    let Some(tasks) = tasks.get().cloned() else { return Err(Unserved::TooManyOpen) };
    let context = served_context();
    wait_for_pipes(pipes, move |ends, reply, beginning| {
        // It may wait for long until it is polled.
        let run = Box::pin(async move {
            match beginning.begin() {
                true => run(ends).await,
                // The call has been refused already, and this reaches no caller.
                false => Err(Unserved::TooManyOpen),
            }
        });
        tasks.run(Task { run: Box::pin(answering(run, None, Unstarted::new(reply, put))), context });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::later::reply_error::ReplyError;
    use crate::pipes::error::PipeError;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A call whose answer is of no matter.
    struct Call;

    impl Open for Call {
        fn answer(&self, _: Given<'_>) -> Result<(), ReplyError> {
            Err(ReplyError::DeadlinePassed)
        }

        fn is_over(&self) -> bool {
            true
        }
    }

    /// What a procedure has; tells whether it has begun when it is dropped.
    struct Token(bool, Sender<bool>);

    impl Drop for Token {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    /// The procedure.
    fn begin(mut token: Token) -> Result<(), Unserved> {
        token.0 = true;
        Ok(())
    }

    /// The open calls of a procedure of each kind, and whether these have begun once they are over.
    fn calls() -> [(Later, Receiver<bool>); 3] {
        let room = Arc::new(OpenRoom::new(8, 8));
        let tasks = OnceLock::from(Arc::new(Tasks::new(None, (1, 1), &room)));
        let pipes = Pipes { to_procedure: true, from_procedure: false };
        let (tell, told) = [(); 3].map(|()| channel()).into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let [threaded, deferred_one, task] =
            <[_; 3]>::try_from(tell).expect("three").map(|tell| Token(false, tell));
        let runs = [
            run_with_pipes(&tasks, pipes, move |_| begin(threaded), |(), _| ()),
            run_deferred_with_pipes(
                &tasks,
                pipes,
                move |_| {
                    begin(deferred_one)?;
                    Ok(deferred::<()>().1)
                },
                |(), _| (),
            ),
            run_task_with_pipes(&tasks, pipes, move |_| async move { begin(task) }, |(), _| ()),
        ];
        let mut told = told.into_iter();
        runs.map(|run| match run {
            Err(Unserved::Later(mut later)) => {
                later.give_ends(Ends::dead(PipeError::Ended));
                (later, told.next().expect("three"))
            }
            _ => panic!("its answer comes later"),
        })
    }

    #[test]
    fn a_procedure_that_has_not_begun_at_the_deadline_never_does_and_its_caller_is_told_so() {
        for (later, has_begun) in calls() {
            let at_deadline = later.at_deadline();
            assert!(matches!(at_deadline.given(), Given::Refusal(RefusalCode::DeadlinePassed, _)));
            later.goes_to(Arc::new(Call));
            assert_eq!(has_begun.recv(), Ok(false));
            assert!(matches!(at_deadline.given(), Given::Refusal(..)));
        }
    }

    #[test]
    fn a_procedure_that_has_begun_may_have_run_at_the_deadline() {
        for (later, has_begun) in calls() {
            let at_deadline = later.at_deadline();
            later.goes_to(Arc::new(Call));
            assert_eq!(has_begun.recv(), Ok(true));
            assert!(matches!(at_deadline.given(), Given::Failure(_)));
        }
    }
}
