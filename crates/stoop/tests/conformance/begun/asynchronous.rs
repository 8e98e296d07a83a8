//! The asynchronous form of a client.

use super::*;
use crate::harness::runtime::has_ended;
use std::panic::{RefUnwindSafe, UnwindSafe};

claims! { all and lossy: [
    futures_give_what_begun_calls_give
    tasks_of_many_threads_share_a_client
    a_dropped_future_cancels_its_call
    a_one_way_call_goes_on_without_its_future
    one_way_calls_have_the_order_in_which_they_are_awaited
    a_lazy_client_binds_for_calls_that_have_been_begun
    binding_can_be_awaited
    a_call_that_is_begun_by_a_procedure_inherits_its_deadline_before_the_client_is_bound
] }

/// Clients are shared by tasks, on any threads.
const fn is_shared_by_tasks<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + 'static>() {}
const _: () = is_shared_by_tasks::<WorksAsync>();

/// Futures of binding go to any thread.
fn can_be_spawned<F: Future + Send + 'static>(future: F) -> F {
    future
}

fn lazily(transport: &str, server: &RunningServer) -> WorksAsync {
    block_on(WorksAsync::bind_with(&server.uris()[0], &patient(transport).lazy())).unwrap()
}

fn futures_give_what_begun_calls_give(transport: &str) {
    let (_server, _, client) = works(transport);
    let client = client.to_async();
    block_on(async {
        assert_eq!(client.next(1).await.unwrap(), 2);
        assert_eq!(client.divide(3).await.unwrap(), 33);
        let error = client.divide(0).await.unwrap_err();
        assert!(matches!(&error, Error::Application(why) if why == "by zero"), "{error:?}");
        let (sum, turned, filled, name) = client.mixed(&[1, 2], 3, &"name".into()).await.unwrap();
        assert_eq!((sum, turned, filled, name.as_str()), (3, vec![2, 1], vec![7; 3], "name!"));
        assert!(matches!(client.panic("expected").await.unwrap_err(), CallError::Failed(..)));
        let long = vec![9; 300_000];
        assert_eq!(client.echo(&long).await.unwrap(), long);
    });
}

fn tasks_of_many_threads_share_a_client(transport: &str) {
    let (_server, _, client) = works(transport);
    let client = client.to_async();
    thread::scope(|scope| {
        for first in (0..4).map(|thread| 100 * thread) {
            let client = client.clone();
            scope.spawn(move || {
                let begun: Vec<_> = (first..first + 50).map(|number| client.next(number)).collect();
                for (number, call) in (first..).zip(begun) {
                    assert_eq!(block_on(call).unwrap(), number + 1);
                }
            });
        }
    });
}

fn a_dropped_future_cancels_its_call(transport: &str) {
    let (_server, works, client) = works(transport);
    let client = client.to_async();
    let mut call = client.until_cancelled();
    assert!(!has_ended(&mut call));
    works.gate.await_inside(1);
    drop(call);
    works.gate.open();
    eventually(|| works.cancelled.load(Ordering::SeqCst) == 1);
}

fn a_one_way_call_goes_on_without_its_future(transport: &str) {
    let (server, works, client) = works(transport);
    drop(client.to_async().note("bound"));
    eventually(|| works.noted() == 1);
    drop(lazily(transport, &server).note("early"));
    eventually(|| works.noted() == 2);
}

fn one_way_calls_have_the_order_in_which_they_are_awaited(transport: &str) {
    let (_server, works, client) = works(transport);
    let client = client.to_async();
    block_on(async {
        for count in 1..20 {
            client.note("again").await.unwrap();
            assert_eq!(works.noted(), count);
        }
    });
}

fn a_lazy_client_binds_for_calls_that_have_been_begun(transport: &str) {
    let (server, _, _) = works(transport);
    let client = lazily(transport, &server);
    assert!(client.binding().describe().contains("not bound yet"));
    let begun: Vec<_> = (0..40).map(|number| client.next(number)).collect();
    for (number, call) in (0..).zip(begun) {
        assert_eq!(block_on(call).unwrap(), number + 1);
    }
    assert!(!client.binding().describe().contains("not bound yet"));
    assert_eq!(client.to_blocking().next(40).unwrap(), 41);
}

fn binding_can_be_awaited(transport: &str) {
    let (server, _, _) = works(transport);
    let (uri, options) = (server.uris()[0].clone(), patient(transport));
    let bound = can_be_spawned(async move { WorksAsync::bind_with(&uri, &options).await });
    assert_eq!(block_on(block_on(bound).unwrap().next(1)).unwrap(), 2);
    let error = block_on(WorksAsync::bind("nothing://here")).unwrap_err();
    assert!(matches!(error, BindError::Uri(_)), "{error}");
}

#[stoop::interface]
trait Way {
    /// Milliseconds that are left to a call, which waits for a client to be bound.
    fn left_to_an_early_call(&self, uri: &str) -> u64;
    /// The same, by a task.
    async fn left_to_a_task(&self, uri: &str) -> u64;
}

struct Lazy(BindOptions);

impl Way for Lazy {
    fn left_to_an_early_call(&self, uri: &str) -> u64 {
        block_on(self.left_to_a_task(uri))
    }
    async fn left_to_a_task(&self, uri: &str) -> u64 {
        WorksAsync::bind_with(uri, &self.0).await.unwrap().left().await.unwrap()
    }
}

fn a_call_that_is_begun_by_a_procedure_inherits_its_deadline_before_the_client_is_bound(transport: &str) {
    let (server, _, _) = works(transport);
    let hour = Duration::from_secs(3600);
    let way = Lazy(patient(transport).timeout(hour).lazy());
    let on_the_way =
        Server::new().export(WayServer::new(way)).listen(&address("local")).unwrap().start().unwrap();
    let client = WayClient::bind_with(&on_the_way.uris()[0], &BindOptions::new().timeout(hour / 60)).unwrap();
    let (uri, client) = (&server.uris()[0], client.to_async());
    for left in [client.left_to_an_early_call(uri), client.left_to_a_task(uri)] {
        let left = block_on(left).unwrap();
        assert!(left <= 60_000, "{left}");
    }
}
