//! The keeper: a thread of the process that ends what no other thread waits for, at its deadline or when its call is cancelled.
//!
//! It exists while there is something to keep, and ten seconds longer. It sleeps until the earliest deadline. The thread that learns of a
//! cancel holds locks then; so the keeper does what follows from it, too. A forked process has a keeper of its own.

use crate::context::cancelled::{self, CallId};
use crate::locked::locked;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::fork::PerProcess;
use stoop_net::{clock, threads};
use stoop_wire::BindingId;

/// Something that belongs to a call that is served, and ends with it.
pub(crate) trait Kept: Send + Sync + 'static {
    /// The deadline of its call has passed, its caller has cancelled it, or the binding has ended.
    fn expire(&self);
}

/// What the keeper keeps, by its call, and by a number that nothing else there has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    call: CallId,
    number: u64,
}

struct Entry {
    deadline_ns: u64,
    what: Weak<dyn Kept>,
}

#[derive(Default)]
struct Keeper {
    all: BTreeMap<Key, Entry>,
    /// Those that have a deadline: most calls that are quiet have none.
    by_deadline: BTreeSet<(u64, Key)>,
    /// Entries that were taken out, for the thread to end them.
    due: Vec<Weak<dyn Kept>>,
    last_number: u64,
    thread: Option<Thread>,
    /// When it wakes by itself.
    wakes_ns: u64,
}

/// The thread stays for so long when there is nothing to keep.
const LINGER: Duration = Duration::from_secs(10);

/// The lock also orders the threads that cancel a call, or end a binding, with those that keep something of it: either they find it
/// here, or the thread that keeps it finds the call cancelled.
static KEEPER: PerProcess<Mutex<Keeper>> = PerProcess::new();

fn keeper() -> MutexGuard<'static, Keeper> {
    let Ok(keeper) = KEEPER.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
    locked(keeper)
}

/// Keeps what belongs to this call, until its deadline at most. If the system gives no thread, it ends when the system gives one the next
/// time.
pub(crate) fn keep(call: CallId, deadline_ns: u64, what: Weak<dyn Kept>) -> Key {
    let mut keeper = keeper();
    keeper.last_number += 1;
    let key = Key { call, number: keeper.last_number };
    keeper.insert(key, Entry { deadline_ns, what });
    if deadline_ns < keeper.wakes_ns {
        keeper.wake();
    }
    keeper.start();
    // The call may have been cancelled before; the list tells, for as long as it has not ended.
    if cancelled::is_cancelled(call) {
        keeper.end_now([key]);
    }
    key
}

/// This has ended.
pub(crate) fn forget(key: Key) {
    keeper().remove(key);
}

/// Ends what belongs to a call that its caller has cancelled.
#[cold]
pub(crate) fn end_call(call: CallId) {
    end_between(call, call);
}

/// Ends what belongs to a call by that time at the latest.
pub(crate) fn end_call_by(call: CallId, deadline_ns: u64) {
    let mut keeper = keeper();
    for key in keeper.keys(call, call) {
        if let Some(entry) = keeper.remove(key) {
            keeper.insert(key, Entry { deadline_ns: entry.deadline_ns.min(deadline_ns), ..entry });
        }
    }
    if deadline_ns < keeper.wakes_ns {
        keeper.wake();
    }
}

/// Ends what belongs to the calls of a binding that has ended.
pub(crate) fn end_binding(binding: BindingId) {
    let (first, last) = CallId::all_of(binding);
    end_between(first, last);
}

fn end_between(first: CallId, last: CallId) {
    let mut keeper = keeper();
    let keys = keeper.keys(first, last);
    keeper.end_now(keys);
}

impl Keeper {
    fn insert(&mut self, key: Key, entry: Entry) {
        if entry.deadline_ns != u64::MAX {
            self.by_deadline.insert((entry.deadline_ns, key));
        }
        self.all.insert(key, entry);
    }

    fn remove(&mut self, key: Key) -> Option<Entry> {
        let entry = self.all.remove(&key)?;
        self.by_deadline.remove(&(entry.deadline_ns, key));
        Some(entry)
    }

    /// What belongs to these calls and those between them.
    fn keys(&self, first: CallId, last: CallId) -> Vec<Key> {
        let range = Key { call: first, number: 0 }..=Key { call: last, number: u64::MAX };
        self.all.range(range).map(|(key, _)| *key).collect()
    }

    fn end_now(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let entry = self.remove(key);
            self.due.extend(entry.map(|entry| entry.what));
        }
        if !self.due.is_empty() {
            self.wake();
        }
    }

    fn wake(&mut self) {
        self.wakes_ns = 0;
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    fn start(&mut self) {
        if self.thread.is_none() {
            self.thread = threads::start("stoop-keeper", run).ok().map(|started| started.thread().clone());
        }
    }

    /// Takes the entries whose deadlines have passed, and those of calls that were cancelled.
    fn take_due(&mut self, now_ns: u64) -> Vec<Arc<dyn Kept>> {
        let late: Vec<_> =
            self.by_deadline.iter().take_while(|(at, _)| *at <= now_ns).map(|(_, key)| *key).collect();
        self.end_now(late);
        std::mem::take(&mut self.due).iter().filter_map(Weak::upgrade).collect()
    }
}

/// The main function of the thread.
fn run() {
    loop {
        let now_ns = clock::now_ns();
        let mut keeper = self::keeper();
        let due = keeper.take_due(now_ns);
        let earliest_ns = keeper.by_deadline.first().map_or(u64::MAX, |(at, _)| *at);
        let next_ns = (!keeper.all.is_empty()).then_some(earliest_ns);
        keeper.wakes_ns = next_ns.unwrap_or(u64::MAX);
        drop(keeper);
        if !due.is_empty() {
            for each in due {
                // A waker of the program's may panic. The panic has been reported, and the others end all the same.
                let _ = catch_unwind(AssertUnwindSafe(|| each.expire()));
            }
            continue;
        }
        match next_ns {
            Some(next_ns) => thread::park_timeout(Duration::from_nanos(next_ns.saturating_sub(now_ns) + 1)),
            None => {
                thread::park_timeout(LINGER);
                let mut keeper = self::keeper();
                let is_idle = keeper.all.is_empty() && keeper.due.is_empty();
                if is_idle && clock::now_ns() - now_ns >= LINGER.as_nanos() as u64 {
                    keeper.thread = None;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, Sender};
    use stoop_wire::{CallNumber, LaneId};

    struct Tells(Sender<u32>, u32);

    impl Kept for Tells {
        fn expire(&self) {
            self.0.send(self.1).unwrap();
        }
    }

    fn call(binding: u64, number: u32) -> CallId {
        CallId::new(BindingId(binding), LaneId(3), CallNumber(number))
    }

    #[test]
    fn deadlines_pass_in_their_order_and_what_is_forgotten_or_gone_does_not_end() {
        let (tell, told) = mpsc::channel();
        let now_ns = clock::now_ns();
        let mut all: Vec<_> = [30, 10, 20, 15, 12]
            .into_iter()
            .map(|ms| {
                let one = Arc::new(Tells(tell.clone(), ms));
                let weak: Weak<Tells> = Arc::downgrade(&one);
                (keep(call(901, ms), now_ns + u64::from(ms) * 1_000_000, weak), Some(one))
            })
            .collect();
        forget(all[3].0);
        all[4].1 = None;
        assert_eq!([told.recv(), told.recv(), told.recv()], [Ok(10), Ok(20), Ok(30)]);
        assert!(told.try_recv().is_err() && clock::now_ns() >= now_ns + 30_000_000);
    }

    #[test]
    fn what_belongs_to_a_cancelled_call_or_an_ended_binding_ends_and_the_rest_stays() {
        let (tell, told) = mpsc::channel();
        let all: Vec<_> = [(902, 0), (902, u32::MAX), (903, 1), (903, 2)]
            .into_iter()
            .map(|(binding, number)| {
                let one = Arc::new(Tells(tell.clone(), number));
                let weak: Weak<Tells> = Arc::downgrade(&one);
                (keep(call(binding, number), u64::MAX, weak), one)
            })
            .collect();
        end_call(call(903, 2));
        assert_eq!(told.recv(), Ok(2));
        end_binding(BindingId(902));
        let mut ended = [told.recv().unwrap(), told.recv().unwrap()];
        ended.sort_unstable();
        assert_eq!(ended, [0, u32::MAX]);
        assert!(told.try_recv().is_err());
        cancelled::cancel(call(904, 1));
        let late = Arc::new(Tells(tell, 9));
        let weak: Weak<Tells> = Arc::downgrade(&late);
        keep(call(904, 1), u64::MAX, weak);
        assert_eq!(told.recv(), Ok(9), "it was cancelled before");
        cancelled::ended(call(904, 1));
        all.iter().for_each(|(key, _)| forget(*key));
    }
}
