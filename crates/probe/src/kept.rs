//! Samples that have ended, as their threads noted them: a list for each thread, until an account takes it.
//!
//! To keep a sample takes one lock that no other thread holds, and a copy. To make figures of it takes longer; so a thread does that for a
//! whole list at once, or the program's thread that asks for the figures does.

use crate::{Claim, Sample};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Samples of a list.
const ROOM: usize = 64;

type Samples = Vec<(Claim, Sample)>;

/// The lists of all threads, and those of threads that have ended, until they are taken or other threads go on with them.
static ALL: Mutex<Vec<Arc<Mutex<Samples>>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<Mutex<Samples>> = own_list();
}

/// A list for a thread that begins: that of a thread that has ended, with the samples in it, or a new one. So there are never more lists
/// than threads have run at the same time.
fn own_list() -> Arc<Mutex<Samples>> {
    let mut all = locked(&ALL);
    if let Some(left) = all.iter().find(|list| Arc::strong_count(list) == 1) {
        return Arc::clone(left);
    }
    let own = Arc::new(Mutex::new(Vec::with_capacity(ROOM)));
    all.push(Arc::clone(&own));
    own
}

/// Keeps a sample of this thread. Returns whether its list is full now; if it was before, the sample is lost.
pub(crate) fn keep(claim: Claim, sample: Sample) -> bool {
    let keep = |own: &Arc<Mutex<Samples>>| {
        let mut own = locked(own);
        if own.len() < ROOM {
            own.push((claim, sample));
        }
        own.len() == ROOM
    };
    // A thread that is ending may have no list any more.
    OWN.try_with(keep).unwrap_or(false)
}

/// Takes the samples of this thread.
pub fn take_own(taken: &mut Vec<(Claim, Sample)>) {
    let _ = OWN.try_with(|own| taken.append(&mut locked(own)));
}

/// Takes the samples of all threads.
pub fn take_all(taken: &mut Vec<(Claim, Sample)>) {
    locked(&ALL).retain(|list| {
        // Asked before: a thread that ends meanwhile may have kept one more.
        let may_grow = Arc::strong_count(list) > 1;
        taken.append(&mut locked(list));
        may_grow
    });
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::alone;
    use std::thread;

    fn alone_without_samples() -> MutexGuard<'static, ()> {
        let one = alone();
        take_all(&mut Vec::new());
        one
    }

    fn claim(account: u64) -> Claim {
        Claim { account, procedure: 1, server_ns: None }
    }

    /// Of those that all threads have kept, the samples of one account: other tests of this process take and keep some, too.
    fn taken(account: u64) -> usize {
        let mut taken = Vec::new();
        take_all(&mut taken);
        taken.iter().filter(|(claim, _)| claim.account == account).count()
    }

    #[test]
    fn a_list_takes_no_more_than_it_has_room_for_until_it_is_taken() {
        let _one = alone_without_samples();
        thread::spawn(|| {
            let keep = || super::keep(claim(11), Sample::default());
            assert_eq!((1..ROOM).filter(|_| keep()).count(), 0);
            assert!(keep() && keep(), "full");
            let mut taken = Vec::new();
            take_own(&mut taken);
            assert_eq!(taken.len(), ROOM);
            assert!(!keep());
        })
        .join()
        .expect("the assertions hold");
    }

    #[test]
    fn threads_that_begin_go_on_with_the_lists_of_those_that_have_ended() {
        let _one = alone_without_samples();
        let keep_one = || {
            thread::spawn(|| keep(claim(13), Sample::default())).join().expect("it ends");
            locked(&ALL).len()
        };
        let lists = keep_one();
        assert!((0..5).all(|_| keep_one() <= lists));
        assert_eq!(taken(13), 6);
    }

    #[test]
    fn samples_of_a_thread_that_has_ended_are_taken_once() {
        let _one = alone_without_samples();
        thread::spawn(|| assert!(!(0..5).any(|_| keep(claim(12), Sample::default()))))
            .join()
            .expect("it ends");
        assert_eq!(taken(12), 5);
        assert_eq!(taken(12), 0);
    }
}
