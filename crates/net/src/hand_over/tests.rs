//! Tests and models of the hand-over.

use super::*;

fn places<T>(values: impl IntoIterator<Item = T>) -> (Arc<Queue>, Vec<Place<T>>) {
    let queue = Arc::<Queue>::default();
    let places = values.into_iter().enumerate();
    let places = places.map(|(number, value)| Place::new(value, number, Arc::clone(&queue))).collect();
    (queue, places)
}

fn lock_any<'a, T>(queue: &Queue, places: &'a [Place<T>], deadline_ns: u64) -> Option<PlaceGuard<'a, T>> {
    queue.lock_any(places.iter(), |number| &places[number], deadline_ns)
}

/// The order of all steps of the threads, by loom. Its cell reports two threads that are inside at once, and loom a thread that is
/// never woken.
#[cfg(loom)]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    type World = (Arc<Queue>, Vec<Place<UnsafeCell<u32>>>);

    fn add(value: &UnsafeCell<u32>) {
        // SAFETY: loom checks that no other thread does this at the same time.
        value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Threads that each take a place, until these deadlines. Returns how often one has been taken, and how many places are free then.
    fn explore(places: usize, deadlines_ns: &'static [u64]) {
        // Of three threads all orders with as many preemptions: without a bound they take hours.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = (deadlines_ns.len() > 2).then_some(2);
        model.check(move || {
            let world = Arc::<World>::new(super::places((0..places).map(|_| UnsafeCell::new(0))));
            let take = |world: &World, deadline_ns| {
                let taken = lock_any(&world.0, &world.1, deadline_ns);
                taken.iter().for_each(|taken| add(taken));
                assert!(taken.is_some() || deadline_ns == 0, "it has waited in vain");
                u32::from(taken.is_some())
            };
            let start = |&deadline_ns: &u64| {
                let world = Arc::clone(&world);
                thread::spawn(move || take(&world, deadline_ns))
            };
            let (first, others) = deadlines_ns.split_first().unwrap();
            let others: Vec<_> = others.iter().map(start).collect();
            let taken = take(&world, *first);
            let taken = others.into_iter().fold(taken, |taken, other| taken + other.join().unwrap());
            assert!(world.0.is_empty());
            // SAFETY: the other threads have ended.
            let count =
                |place: &Place<UnsafeCell<u32>>| place.try_lock().unwrap().with(|value| unsafe { *value });
            assert_eq!(world.1.iter().map(count).sum::<u32>(), taken);
        });
    }

    #[test]
    fn of_three_threads_each_is_given_the_one_place() {
        explore(1, &[u64::MAX, u64::MAX, u64::MAX]);
    }

    #[test]
    fn a_place_is_handed_over_beside_a_thread_that_gives_up() {
        explore(1, &[u64::MAX, 0, u64::MAX]);
    }

    #[test]
    fn of_two_threads_each_is_given_the_one_place_or_gives_up() {
        explore(1, &[u64::MAX, u64::MAX]);
        explore(1, &[u64::MAX, 0]);
    }

    #[test]
    fn three_threads_take_two_places() {
        explore(2, &[u64::MAX, u64::MAX, 0]);
    }
}

#[cfg(not(loom))]
mod real {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn await_waiting(queue: &Queue, count: usize) {
        while queue.len() != count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_released_place_goes_to_the_thread_that_has_waited_longest() {
        let (queue, places) = &places([0, 1, 2]);
        let mut held: Vec<_> = places.iter().map(|place| place.try_lock().unwrap()).collect();
        let (send, turns) = mpsc::channel();
        thread::scope(|scope| {
            for turn in 0..20 {
                let send = send.clone();
                scope.spawn(move || {
                    let place = lock_any(queue, places, u64::MAX).unwrap();
                    send.send(turn).unwrap();
                    drop(place);
                });
                await_waiting(queue, turn + 1);
            }
            // Each thread releases the place only after it has told its turn, so the next one is given it after that.
            drop(held.pop());
            assert!((0..20).all(|turn| turns.recv().unwrap() == turn));
        });
        drop(held);
        assert!(queue.is_empty() && places.iter().all(|place| place.try_lock().is_some()));
    }

    #[test]
    fn no_thread_takes_a_place_before_one_that_waits() {
        let (queue, places) = &places([(), ()]);
        let _first = places[0].try_lock_or_mark();
        let second = places[1].try_lock();
        assert!(places[1].try_lock_or_mark().is_none());
        let waiter = Arc::<Waiter>::default();
        queue.waiting().push_back(Arc::clone(&waiter));
        drop(second);
        assert!(queue.is_empty() && *waiter.given() == Some(1));
        assert!(places[1].try_lock().is_none() && lock_any(queue, places, 0).is_none());
        drop(places[1].take(GIVEN, WANTED).expect("the thread that was told takes it"));
        assert!(places[1].try_lock().is_some());
    }

    #[test]
    fn a_thread_waits_until_its_deadline_and_no_longer() {
        let (queue, places) = &places([()]);
        let held = places[0].try_lock();
        let deadline_ns = clock::now_ns() + 20_000_000;
        assert!(lock_any(queue, places, deadline_ns).is_none());
        assert!(clock::now_ns() >= deadline_ns && queue.is_empty());
        drop(held);
        assert!(lock_any(queue, places, 0).is_some(), "a free place needs no time");
    }

    #[test]
    fn places_are_handed_over_while_threads_give_up() {
        let (queue, places) = &places([0_u64, 0]);
        let taken: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut taken = 0;
                        for turn in 0..500 {
                            let patience_ns = (thread * 7919 + turn * 104_729) % 30_000;
                            if let Some(mut place) = lock_any(queue, places, clock::now_ns() + patience_ns) {
                                *place += 1;
                                taken += 1;
                                thread::yield_now();
                            }
                        }
                        taken
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(queue.is_empty());
        assert_eq!(places.iter().map(|place| *place.try_lock().unwrap()).sum::<u64>(), taken);
    }

    #[test]
    fn a_place_is_released_by_a_panic() {
        let (_, places) = places([()]);
        let panicked = std::panic::catch_unwind(|| {
            let _held = places[0].try_lock();
            panic!("as the test wants");
        });
        assert!(panicked.is_err() && places[0].try_lock().is_some());
    }
}
