//! Binds to a server that may not be there yet: tries again and again, if the client's options say so.

use crate::calling::timed_lock::{TimedGuard, TimedLock};
use crate::error::BindError;
use crate::locked::locked;
use crate::options::BindOptions;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// Between attempts to bind.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long any client tries while a server answers that it shuts down: the next one may be about to take the address over, or has
/// done so and shares the socket with it.
const TAKEOVER: Duration = Duration::from_millis(100);

fn now() -> Instant {
    Instant::from_nanos(clock::now_ns())
}

/// Attempts to bind, of one thread at a time, and why the latest has failed: for threads and calls that wait meanwhile.
#[derive(Default)]
pub(crate) struct Attempts {
    binding: TimedLock,
    failed: Mutex<Option<Box<BindError>>>,
}

impl Attempts {
    /// Waits until `deadline` for other threads that try.
    pub(crate) fn take(&self, server: &str, deadline: Instant) -> Result<TimedGuard<'_>, BindError> {
        let begun = now();
        self.binding.take(deadline.since(begun)).ok_or_else(|| self.report(server, now().since(begun)))
    }

    /// Why there is no binding after that time.
    pub(crate) fn report(&self, server: &str, waited: Duration) -> BindError {
        let silent = || BindError::NoAnswer { server: server.into(), waited };
        locked(&self.failed).as_deref().cloned().unwrap_or_else(silent)
    }

    /// An attempt has failed. If it had `less` than its time, silence does not tell more than what was answered before.
    fn note(&self, why: BindError, less: bool) -> BindError {
        let mut latest = locked(&self.failed);
        if !(less && matches!(why, BindError::NoAnswer { .. })) {
            *latest = Some(Box::new(why.clone()));
            return why;
        }
        latest.as_deref().cloned().unwrap_or(why)
    }

    fn clear(&self) {
        *locked(&self.failed) = None;
    }
}

/// Binds by `attempt`, which gets a deadline; with [`BindOptions::wait_for_server`] until that succeeds, or `deadline` has passed, or
/// waiting is of no use. Without it, tries again while the server prefers other callers, and for a moment if a server shuts down; then
/// returns that error if no server answers.
///
/// # Errors
/// Why the last attempt has failed.
pub(crate) fn bind<T>(
    options: &BindOptions,
    deadline: Instant,
    attempts: &Attempts,
    mut attempt: impl FnMut(Instant) -> Result<T, BindError>,
) -> Result<T, BindError> {
    let mut bound = None;
    bind_by(options, deadline, attempts, &mut |limit| {
        bound = Some(attempt(limit)?);
        Ok(())
    })?;
    Ok(bound.expect("an attempt has succeeded"))
}

// Compiled once, and not for each kind of binding.
fn bind_by(
    options: &BindOptions,
    deadline: Instant,
    attempts: &Attempts,
    attempt: &mut dyn FnMut(Instant) -> Result<(), BindError>,
) -> Result<(), BindError> {
    let begun = now();
    let mut pause = FIRST_PAUSE;
    let mut refused = None;
    attempts.clear();
    loop {
        // A server that shuts down may no longer answer at its address.
        let patience = if refused.is_some() { TAKEOVER } else { options.bind_timeout };
        let limit = now() + patience;
        let mut why = match attempt(deadline.min(limit)) {
            Ok(()) => {
                attempts.clear();
                return Ok(());
            }
            Err(why) => attempts.note(why, deadline < limit),
        };
        let until = match () {
            () if options.waits_for_server() && why.may_pass() => deadline,
            () if why.is_crowded() => deadline.min(begun + options.bind_timeout),
            () if why.is_shutting_down() => deadline.min(begun + TAKEOVER),
            () if matches!(why, BindError::NoAnswer { .. }) => return Err(refused.unwrap_or(why)),
            () => return Err(why),
        };
        let left = until.since(now());
        if left.is_zero() {
            if let BindError::NoAnswer { waited, .. } = &mut why {
                *waited = now().since(begun);
            }
            return Err(why);
        }
        refused = Some(why).filter(|why| why.is_shutting_down() && !options.waits_for_server());
        thread::sleep(pause.min(left));
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}
