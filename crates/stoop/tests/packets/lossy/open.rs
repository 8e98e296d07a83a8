//! Calls whose answers come later than their procedures return.

use super::*;

/// Answers, until it is dropped, the calls that wait: those that came last first.
struct Clerk {
    ledger: Ledger,
    thread: Option<thread::JoinHandle<()>>,
}

impl Clerk {
    fn of(world: &World) -> Self {
        let ledger = world.ledger.clone();
        let its = ledger.clone();
        let thread = thread::spawn(move || {
            loop {
                let has_none = |book: &mut Book| book.waiting.is_empty() && !book.closed;
                let mut book = its.0.1.wait_while(its.book(), has_none).unwrap();
                let Some((id, reply)) = book.waiting.pop() else { return };
                drop(book);
                // An error: its caller has given it up, or binds anew.
                let _ = reply.send(result_of(id));
            }
        });
        Self { ledger, thread: Some(thread) }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.ledger.book().closed = true;
        self.ledger.0.1.notify_all();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn each_call_gets_its_own_answer_though_that_comes_later_over_a_bad_network() {
    in_each(&[(90, LOSSY), (91, DISORDERLY), (92, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let _clerk = Clerk::of(&world);
        let ends = call_from_threads(6, 40, |id| world.client.add_later(id));
        assert_all_succeeded(&ends);
        assert_eq!(world.ledger.book().runs.len(), 240);
        world.end(&ends);
    });
}

#[test]
fn a_call_that_is_given_up_while_it_is_open_runs_at_most_once() {
    in_each(&[93, 94], |link, seed| {
        let world = World::new(link, seed, STORM);
        let _clerk = Clerk::of(&world);
        let hasty = world.client.with_timeout(Duration::from_millis(2));
        let ends =
            call_from_threads(5, 40, |id| if id % 2 == 0 { &hasty } else { &world.client }.add_later(id));
        assert!(ends.iter().filter(|(id, _)| id % 2 == 1).all(|(_, end)| end.is_ok()), "{ends:?}");
        world.end(&ends);
    });
}

#[test]
fn duplicates_of_an_open_call_are_acknowledged_and_do_not_run() {
    in_each(&[95], |link, seed| {
        let world = World::new(link, seed, STORM);
        let ends = thread::scope(|scope| {
            let open = scope.spawn(|| call_from_threads(4, 1, |id| world.client.add_later(id)));
            world.network.await_seen(Kind::Probe, 5);
            world.ledger.check(&[]);
            let _clerk = Clerk::of(&world);
            open.join().unwrap()
        });
        assert_all_succeeded(&ends);
        world.end(&ends);
    });
}

#[test]
fn a_server_that_restarts_while_calls_are_open_never_runs_one_a_second_time() {
    in_each(&[96, 97], |link, seed| {
        let mut world = World::new(link, seed, STORM);
        let _clerk = Clerk::of(&world);
        let client = world.client.clone();
        let (threads, restarts) = (5, [40, 80, 120]);
        let ends = thread::scope(|scope| {
            let calling = scope.spawn(|| call_from_threads(threads, 40, |id| client.add_later(id)));
            for runs in restarts {
                world.ledger.await_runs(runs);
                world.restart_server();
            }
            calling.join().unwrap()
        });
        let unknown: Vec<_> = ends.iter().filter(|(_, end)| end.is_err()).collect();
        let by_restart =
            |end| matches!(end, &Err(CallError::Unknown { cause: UnknownCause::ServerRestarted, .. }));
        assert!(unknown.iter().all(|(_, end)| by_restart(end)), "{unknown:?}");
        assert!(unknown.len() <= threads as usize * restarts.len(), "{unknown:?}");
        world.end(&ends);
    });
}
