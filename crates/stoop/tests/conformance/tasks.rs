//! Procedures that are an `async fn`.

use super::*;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use stoop::{Limits, Pending, Task};

claims! { all and lossy: [
    a_procedure_that_is_ready_at_once_answers_like_any_other
    a_procedure_that_awaits_answers_when_it_is_ready
    a_panic_after_an_await_is_an_error_to_its_caller_and_nothing_to_others
    borrowed_arguments_live_as_long_as_the_procedure
] }

mod over_all {
    use super::*;
    claims! { all: [
        procedures_that_await_hold_no_worker
        the_current_call_is_right_after_each_await
        an_executor_of_one_thread_runs_all_procedures
        an_executor_that_drops_a_task_fails_its_call
    a_call_whose_task_the_executor_does_not_start_has_not_run
    a_call_whose_executor_panics_has_not_run
        procedures_that_return_at_once_go_on_beside_those_that_await
        a_cancel_reaches_a_procedure_that_awaits_it_and_one_that_waits_for_it
        a_deadline_reaches_a_procedure_that_awaits_it
        a_task_counts_for_its_caller_until_it_has_ended_though_its_call_is_over
        the_arguments_of_tasks_are_bounded_and_a_call_beyond_is_refused
    ] }
}

#[stoop::interface]
trait Kitchen {
    /// Returns at once.
    async fn ready(&self, number: u32) -> u32;
    /// Returns when the meal of that name is done.
    async fn meal(&self, name: &str) -> u32;
    /// Panics when the meal is done.
    async fn burnt(&self, name: &str);
    /// Joins its arguments when the meal is done.
    async fn joined(
        &self,
        name: &str,
        numbers: &[u64],
        texts: Vec<String>,
        more: Option<&[u8]>,
    ) -> Result<String, u32>;
    /// Milliseconds left, the caller's kind, before and after two awaits.
    async fn contexts(&self, name: &str) -> (bool, bool, bool);
    /// Ends when the caller has gone, and then opens the meal.
    async fn until_cancelled(&self, name: &str);
    /// The same, in a thread.
    fn wait_until_cancelled(&self, name: &str);
    /// As every procedure.
    fn next(&self, number: u32) -> u32;
    /// Has a body of its own.
    async fn twice(&self, number: u32) -> u32 {
        2 * self.ready(number).await
    }
}

/// Meals, by name: whether they are done, and what waits for them.
#[derive(Clone, Default)]
struct Stove(Arc<Mutex<HashMap<String, Meal>>>);

#[derive(Default)]
struct Meal {
    is_done: bool,
    waiting: Vec<Waker>,
}

impl Stove {
    async fn done(&self, name: &str) {
        poll_fn(|context| {
            let mut meals = self.0.lock().unwrap();
            let meal = meals.entry(name.to_owned()).or_default();
            if meal.is_done {
                return Poll::Ready(());
            }
            meal.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Lets go on what waits for that meal.
    fn finish(&self, name: &str) {
        let mut meals = self.0.lock().unwrap();
        let meal = meals.entry(name.to_owned()).or_default();
        meal.is_done = true;
        let waiting = std::mem::take(&mut meal.waiting);
        drop(meals);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn is_done(&self, name: &str) -> bool {
        self.0.lock().unwrap().get(name).is_some_and(|meal| meal.is_done)
    }

    /// Whether something waits for that meal.
    fn awaits(&self, name: &str) -> bool {
        self.0.lock().unwrap().get(name).is_some_and(|meal| !meal.waiting.is_empty())
    }
}

impl Kitchen for Stove {
    async fn ready(&self, number: u32) -> u32 {
        number + 1
    }
    async fn meal(&self, name: &str) -> u32 {
        self.done(name).await;
        name.len() as u32
    }
    async fn burnt(&self, name: &str) {
        self.done(name).await;
        panic!("on purpose");
    }
    async fn joined(
        &self,
        name: &str,
        numbers: &[u64],
        texts: Vec<String>,
        more: Option<&[u8]>,
    ) -> Result<String, u32> {
        self.done(name).await;
        match numbers {
            [] => Err(more.map_or(0, <[u8]>::len) as u32),
            _ => Ok(format!("{name} {numbers:?} {texts:?} {more:?}")),
        }
    }
    async fn contexts(&self, name: &str) -> (bool, bool, bool) {
        let is_mine = || stoop::current_call().is_some_and(|call| !call.time_left().is_zero());
        let first = is_mine();
        self.done(name).await;
        let second = is_mine();
        self.done(name).await;
        (first, second, is_mine())
    }
    async fn until_cancelled(&self, name: &str) {
        let cancelled = stoop::current_call().unwrap().cancelled();
        assert!(cancelled.or(self.done(name)).await.is_none());
        self.finish(&format!("{name}, over"));
    }
    fn wait_until_cancelled(&self, name: &str) {
        self.0.lock().unwrap().entry(name.to_owned()).or_default().waiting.push(Waker::noop().clone());
        let cancelled = stoop::current_call().unwrap().cancelled();
        assert!(cancelled.wait_timeout(crate::harness::LIMIT));
        self.finish(&format!("{name}, over"));
    }
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

fn kitchen_with(transport: &str, server: Server) -> (RunningServer, Stove, KitchenClient) {
    let stove = Stove::default();
    let server = server.export(KitchenServer::new(stove.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = KitchenClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    (server, stove, client)
}

fn kitchen(transport: &str) -> (RunningServer, Stove, KitchenClient) {
    kitchen_with(transport, Server::new())
}

fn a_procedure_that_is_ready_at_once_answers_like_any_other(transport: &str) {
    let (_server, _stove, client) = kitchen(transport);
    assert_eq!(client.ready(1).unwrap(), 2);
    assert_eq!(client.begin().ready(2).wait().unwrap(), 3);
    assert_eq!(client.twice(2).unwrap(), 6);
}

fn a_procedure_that_awaits_answers_when_it_is_ready(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let call = client.begin().meal("soup");
    eventually(|| stove.awaits("soup"));
    stove.finish("soup");
    assert_eq!(call.wait().unwrap(), 4);
    assert_eq!(client.meal("soup").unwrap(), 4, "it is done");
}

fn a_panic_after_an_await_is_an_error_to_its_caller_and_nothing_to_others(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let call = client.begin().burnt("toast");
    eventually(|| stove.awaits("toast"));
    stove.finish("toast");
    for error in [call.wait().unwrap_err(), client.burnt("toast").unwrap_err()] {
        assert!(
            matches!(&error, CallError::Failed(failure, ..) if failure.code == FailureCode::Panicked),
            "{error}"
        );
    }
    assert_eq!(client.ready(1).unwrap(), 2);
}

fn borrowed_arguments_live_as_long_as_the_procedure(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let texts = || vec!["salt".to_owned(), "pepper".to_owned()];
    let many: Vec<u64> = (0..5000).collect();
    let calls = [
        client.begin().joined("stew", &[7, 8, 9], texts(), Some(&[1, 2])),
        client.begin().joined("stew", &[], texts(), Some(&[0; 3])),
        client.begin().joined("stew", &many, texts(), None),
    ];
    eventually(|| stove.awaits("stew"));
    // Other arguments come where these came.
    for number in 0..20 {
        assert_eq!(client.ready(number).unwrap(), number + 1);
    }
    stove.finish("stew");
    let [first, second, third] = calls.map(Pending::wait);
    assert_eq!(first.unwrap(), r#"stew [7, 8, 9] ["salt", "pepper"] Some([1, 2])"#);
    assert!(matches!(second, Err(stoop::Error::Application(3))), "{second:?}");
    assert_eq!(third.unwrap(), format!("stew {many:?} {:?} None", texts()));
}

fn procedures_that_await_hold_no_worker(transport: &str) {
    let (_server, stove, client) = kitchen_with(transport, Server::new().workers(1));
    let calls: Vec<_> = (0..200).map(|_| client.begin().meal("bread")).collect();
    eventually(|| stove.awaits("bread"));
    assert_eq!(client.ready(1).unwrap(), 2);
    stove.finish("bread");
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), 5));
}

fn procedures_that_return_at_once_go_on_beside_those_that_await(transport: &str) {
    let (_server, stove, client) = kitchen_with(transport, Server::new().workers(1));
    let call = client.begin().meal("rice");
    eventually(|| stove.awaits("rice"));
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    stove.finish("rice");
    call.wait().unwrap();
}

fn the_current_call_is_right_after_each_await(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let calls = [client.begin().contexts("tea"), client.begin().contexts("tea")];
    eventually(|| stove.awaits("tea"));
    stove.finish("tea");
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), (true, true, true)));
    assert!(stoop::current_call().is_none());
}

/// A server whose tasks one thread runs, that of a runtime; as long as the runtime is there.
fn under_one_thread() -> (tokio::runtime::Runtime, Server) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let handle = runtime.handle().clone();
    (runtime, Server::new().executor(move |task| drop(handle.spawn(task))))
}

fn an_executor_of_one_thread_runs_all_procedures(transport: &str) {
    let (_runtime, server) = under_one_thread();
    let (_server, stove, client) = kitchen_with(transport, server);
    let calls: Vec<_> = (0..50).map(|_| client.begin().meal("pie")).collect();
    eventually(|| stove.awaits("pie"));
    assert_eq!(client.ready(1).unwrap(), 2);
    assert_eq!(client.next(1).unwrap(), 2);
    stove.finish("pie");
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), 3));
    let panicked = client.burnt("pie").unwrap_err();
    assert!(
        matches!(&panicked, CallError::Failed(failure, ..) if failure.code == FailureCode::Panicked),
        "{panicked}"
    );
}

fn an_executor_that_drops_a_task_fails_its_call(transport: &str) {
    let begin = |task: Task| drop(task.start());
    let (_server, stove, client) = kitchen_with(transport, Server::new().executor(begin));
    let error = client.meal("pie").unwrap_err();
    assert!(
        matches!(&error, CallError::Failed(failure, ..) if failure.code == FailureCode::Abandoned),
        "{error}"
    );
    assert!(stove.awaits("pie"));
    assert_eq!(client.next(1).unwrap(), 2);
}

/// The procedure has not run.
fn check_not_started(transport: &str, executor: impl Fn(Task) + Send + Sync + 'static) {
    let (_server, stove, client) = kitchen_with(transport, Server::new().executor(executor));
    let error = client.meal("pie").unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
    assert!(error.to_string().contains("the executor of the server did not start it"), "{error}");
    assert!(!stove.awaits("pie"));
    assert_eq!(client.next(1).unwrap(), 2);
}

fn a_call_whose_task_the_executor_does_not_start_has_not_run(transport: &str) {
    check_not_started(transport, drop::<Task>);
}

fn a_call_whose_executor_panics_has_not_run(transport: &str) {
    // No runtime is entered here.
    check_not_started(transport, |task| drop(tokio::spawn(task)));
}

fn a_cancel_reaches_a_procedure_that_awaits_it_and_one_that_waits_for_it(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let call = client.begin().until_cancelled("egg");
    eventually(|| stove.awaits("egg"));
    drop(call);
    eventually(|| stove.is_done("egg, over"));
    let call = client.begin().wait_until_cancelled("ham");
    eventually(|| stove.awaits("ham"));
    drop(call);
    eventually(|| stove.is_done("ham, over"));
    assert_eq!(client.ready(1).unwrap(), 2);
}

fn a_deadline_reaches_a_procedure_that_awaits_it(transport: &str) {
    let (_server, stove, client) = kitchen(transport);
    let mut timeout = Duration::from_millis(20);
    while !stove.awaits("fish") {
        let error = client.with_timeout(timeout).until_cancelled("fish").unwrap_err();
        assert!(error.is_timeout() || error.ran() != Ran::Yes, "{error}");
        timeout *= 2;
    }
    eventually(|| stove.is_done("fish, over"));
}

fn check_overloaded(error: &CallError) {
    assert!(
        matches!(error, CallError::Refused(refusal, ..) if refusal.code == RefusalCode::Overloaded),
        "{error}"
    );
}

fn a_task_counts_for_its_caller_until_it_has_ended_though_its_call_is_over(transport: &str) {
    let (server, stove, client) = kitchen_with(transport, Server::new().limits(Limits::new().open_calls(8)));
    let waiting = || stove.0.lock().unwrap().get("roast").map_or(0, |meal| meal.waiting.len());
    // Three quarters of the room, by calls that nobody waits for any more.
    while server.counters().open < 6 {
        let before = waiting();
        let call = client.begin().meal("roast");
        eventually(|| waiting() > before);
        drop(call);
    }
    check_overloaded(&client.meal("roast").unwrap_err());
    assert_eq!(client.next(1).unwrap(), 2);
    stove.finish("roast");
    eventually(|| server.counters().open == 0);
    assert_eq!(client.meal("roast").unwrap(), 5);
}

fn the_arguments_of_tasks_are_bounded_and_a_call_beyond_is_refused(transport: &str) {
    let limits = Limits::new().argument_bytes(1 << 20);
    let (server, stove, client) =
        kitchen_with(transport, Server::new().max_message(256 << 10).limits(limits));
    let numbers = vec![7; 16_000];
    let begin = || client.begin().joined("stock", &numbers, Vec::new(), None);
    // Three quarters of a megabyte.
    let calls: Vec<_> = (0..6)
        .map(|count| {
            let call = begin();
            eventually(|| server.counters().open > count);
            call
        })
        .collect();
    let error = begin().wait().unwrap_err();
    assert!(error.to_string().contains("Limits::argument_bytes"), "{error:?}");
    stove.finish("stock");
    calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
    assert!(begin().wait().is_ok());
}
