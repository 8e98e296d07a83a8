//! Results that are made too late, and results that are made in time and seen too late.

mod inherited;
mod stopped;

use super::*;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use stoop::Error;
use stopped::Stopper;

claims! { all: [
    a_procedure_that_returns_after_the_deadline_never_gives_its_value
    a_begun_call_whose_procedure_returns_after_the_deadline_never_gives_its_value
    a_result_made_in_time_is_delivered_to_a_handle_that_is_asked_late
    a_cancelled_procedure_gets_no_value_of_a_local_call_that_has_seen_the_cancel
] }

#[stoop::interface]
trait Timed {
    /// Returns its value after the call's deadline.
    fn partial(&self) -> u32;
    /// The same, as an error.
    fn partial_error(&self) -> Result<u32, String>;
    /// Returns at once; before it does, stops the thread of its caller if the test has said so.
    fn at_once(&self) -> u32;
    /// The same, as an error.
    fn error_at_once(&self) -> Result<u32, String>;
    /// Calls `partial` at another server of its process, and notes what comes of it.
    fn partial_of(&self, uri: &str);
    /// Begins `at_once` there after its own deadline, and notes what comes of it.
    fn begin_late(&self, uri: &str);
}

#[derive(Clone, Default)]
struct Clockwork {
    stopper: Arc<Stopper>,
    /// Calls of `partial` that have begun.
    begun: Arc<AtomicU32>,
    noted: Arc<Mutex<Option<Result<u32, CallError>>>>,
}

impl Timed for Clockwork {
    fn partial(&self) -> u32 {
        self.begun.fetch_add(1, Ordering::SeqCst);
        eventually(|| stoop::current_call().unwrap().is_cancelled());
        41
    }
    fn partial_error(&self) -> Result<u32, String> {
        Err(format!("{} parts of many", self.partial()))
    }
    fn at_once(&self) -> u32 {
        self.stopper.stop_caller();
        7
    }
    fn error_at_once(&self) -> Result<u32, String> {
        Err(self.at_once().to_string())
    }
    fn partial_of(&self, uri: &str) {
        let partial = TimedClient::bind(uri).unwrap().partial();
        *self.noted.lock().unwrap() = Some(partial);
    }
    fn begin_late(&self, uri: &str) {
        // Its time may be over before it is bound.
        let Ok(client) = TimedClient::bind(uri) else { return };
        let calls = client.begin();
        eventually(|| stoop::current_call().unwrap().time_left().is_zero());
        let late = calls.at_once();
        drop(calls);
        *self.noted.lock().unwrap() = Some(late.wait());
    }
}

fn clockwork(transport: &str, options: &BindOptions) -> (RunningServer, Clockwork, TimedClient) {
    let clockwork = Clockwork::default();
    let server = Server::new().workers(16).export(TimedServer::new(clockwork.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = TimedClient::bind_with(&server.uris()[0], options).unwrap();
    (server, clockwork, client)
}

/// The error of a call whose procedure has returned too late, or had no time to begin.
fn assert_too_late(result: Result<u32, Error<String>>) {
    let error = match result {
        Err(Error::Call(error)) => error,
        other => panic!("{other:?} after its deadline"),
    };
    match &error {
        CallError::Failed(failure, ..) => {
            assert_eq!((failure.code, error.ran()), (FailureCode::FinishedTooLate, Ran::Yes), "{error}");
        }
        CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }
        | CallError::NotSent(SendError::DeadlinePassed, ..) => {}
        CallError::Refused(refusal, ..) if refusal.code == RefusalCode::DeadlinePassed => {}
        other => panic!("{other}"),
    }
}

fn a_procedure_that_returns_after_the_deadline_never_gives_its_value(transport: &str) {
    let (_server, _, client) = clockwork(transport, &patient(transport));
    let hurried = client.with_timeout(Duration::from_millis(20));
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_too_late(hurried.partial().map_err(Error::Call));
                    assert_too_late(hurried.partial_error());
                }
            });
        }
    });
}

fn a_begun_call_whose_procedure_returns_after_the_deadline_never_gives_its_value(transport: &str) {
    let (_server, _, client) = clockwork(transport, &patient(transport));
    let hurried = client.with_timeout(Duration::from_millis(20));
    for round in 0..10 {
        let over = Instant::now() + Duration::from_millis(40);
        let calls = hurried.begin();
        let values: Vec<_> = (0..5).map(|_| calls.partial()).collect();
        let errors: Vec<_> = (0..5).map(|_| calls.partial_error()).collect();
        drop(calls);
        // Every other time the handles are looked at only after the procedures have returned.
        eventually(|| round % 2 == 0 || Instant::now() > over);
        stoop::wait_all(values).into_iter().for_each(|value| assert_too_late(value.map_err(Error::Call)));
        stoop::wait_all(errors).into_iter().for_each(assert_too_late);
    }
}

/// Calls with more time each time until there is an outcome that is not a call error: on a busy machine a procedure may return too
/// late, which is not what the claim is about.
fn with_enough_time(call: impl Fn(Duration) -> Result<u32, Error<String>>) -> Result<u32, String> {
    let mut timeout = Duration::from_millis(100);
    for _ in 0..6 {
        match call(timeout) {
            Ok(value) => return Ok(value),
            Err(Error::Application(error)) => return Err(error),
            Err(Error::Call(_)) => timeout *= 2,
        }
    }
    panic!("never delivered")
}

fn a_result_made_in_time_is_delivered_to_a_handle_that_is_asked_late(transport: &str) {
    let (_server, _, client) = clockwork(transport, &patient(transport));
    let late = |begun: Instant, timeout| eventually(|| begun.elapsed() > timeout);
    let value = with_enough_time(|timeout| {
        let begun = Instant::now();
        let call = client.with_timeout(timeout).begin().at_once();
        late(begun, timeout * 2);
        call.wait().map_err(Error::Call)
    });
    assert_eq!(value, Ok(7));
    let error = with_enough_time(|timeout| {
        let begun = Instant::now();
        let call = client.with_timeout(timeout).begin().error_at_once();
        late(begun, timeout * 2);
        call.wait()
    });
    assert_eq!(error, Err("7".into()));
}

fn a_cancelled_procedure_gets_no_value_of_a_local_call_that_has_seen_the_cancel(transport: &str) {
    let (_server, outer, client) = clockwork(transport, &patient(transport));
    let (inner_server, inner, _) = clockwork("local", &patient("local"));
    let call = client.begin().partial_of(&inner_server.uris()[0]);
    eventually(|| inner.begun.load(Ordering::SeqCst) == 1);
    drop(call);
    eventually(|| outer.noted.lock().unwrap().is_some());
    let partial = outer.noted.lock().unwrap().take().unwrap();
    assert_too_late(partial.map_err(Error::Call));
}
