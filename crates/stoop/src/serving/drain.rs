//! Lets a server that shuts down wait for callers that read long results, as long as they read on.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks whether readers read on.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until `progress` is `None`, when nothing is left to read, or has been the same for `limit`. `changed` may be notified when
/// there is something to look at.
///
/// Time in which this process could not look does not count: its readers may have been stopped with it.
pub(crate) fn wait_for_readers<T>(
    mut guard: MutexGuard<'_, T>,
    changed: &Condvar,
    limit: Duration,
    progress: impl Fn(&T) -> Option<u64>,
) {
    let (mut last, mut quiet) = (None, Duration::ZERO);
    loop {
        let now = progress(&guard);
        if now.is_none() {
            return;
        }
        if std::mem::replace(&mut last, now) != now {
            quiet = Duration::ZERO;
        }
        if quiet >= limit {
            return;
        }
        let begun = Instant::now();
        guard = changed.wait_timeout(guard, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        quiet += begun.elapsed().min(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use crate::serving::drain::*;
    use std::cell::Cell;
    use std::sync::Mutex;

    const LIMIT: Duration = Duration::from_millis(200);

    /// Time for which readers with this progress after each number of looks are waited for.
    fn waited(progress: impl Fn(u32) -> Option<u64>) -> Duration {
        let (lock, changed, looks) = (Mutex::new(()), Condvar::new(), Cell::new(0));
        let begun = Instant::now();
        wait_for_readers(lock.lock().unwrap(), &changed, LIMIT, |()| {
            progress(looks.replace(looks.get() + 1))
        });
        begun.elapsed()
    }

    #[test]
    fn readers_that_go_on_are_waited_for_beyond_the_limit() {
        let ends_late = |look| (look < 20).then_some(u64::from(look / 2));
        assert!(waited(ends_late) >= 20 * LOOK_EVERY);
    }

    #[test]
    fn readers_that_have_stopped_are_waited_for_until_the_limit() {
        assert!(waited(|_| Some(7)) >= LIMIT);
        assert!(waited(|look| Some(u64::from(look.min(5)))) >= LIMIT + 5 * LOOK_EVERY);
    }
}
