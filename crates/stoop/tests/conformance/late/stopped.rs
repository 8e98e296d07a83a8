//! A caller's thread that stops in the middle of its call, as one does that the system does not run.

use super::*;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{MutexGuard, Once, PoisonError};
use stoop_net::clock;

claims! { remote: [
    a_result_made_in_time_is_delivered_to_a_caller_whose_thread_sees_it_late
] }

/// Stops a thread from another one.
#[derive(Default)]
pub(super) struct Stopper(Mutex<Option<libc::pthread_t>>);

/// While it lives, the thread that has made it can be stopped.
pub(super) struct Stopped<'a> {
    stopper: &'a Stopper,
    /// The signal's handler has one place for what it has to know.
    _turn: MutexGuard<'static, ()>,
    _this_thread: PhantomData<*const ()>,
}

static TURN: Mutex<()> = Mutex::new(());
/// The stopped thread goes on at this time of the monotonic clock.
static UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// The thread has stopped.
static HAS_STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    HAS_STOPPED.store(true, Ordering::SeqCst);
    // A time and no condition: the thread has to sleep past its call's deadline, which is a time.
    while let left @ 1.. = UNTIL_NS.load(Ordering::SeqCst).saturating_sub(clock::now_ns()) {
        thread::sleep(Duration::from_nanos(left));
    }
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler reads the clock, sleeps, and uses two static atomics: all of that may be done in a handler.
        let before = unsafe { libc::signal(libc::SIGUSR1, stop as *const () as libc::sighandler_t) };
        assert_ne!(before, libc::SIG_ERR);
    });
}

impl<'a> Stopped<'a> {
    /// When the stopper stops the calling thread, it goes on when so much time from now on has passed.
    pub(super) fn until(stopper: &'a Stopper, time: Duration) -> Self {
        install();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        HAS_STOPPED.store(false, Ordering::SeqCst);
        UNTIL_NS.store(clock::now_ns() + time.as_nanos() as u64, Ordering::SeqCst);
        // SAFETY: it has no conditions.
        *stopper.0.lock().unwrap() = Some(unsafe { libc::pthread_self() });
        Self { stopper, _turn: turn, _this_thread: PhantomData }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        *self.stopper.0.lock().unwrap() = None;
    }
}

impl Stopper {
    /// Stops the thread that can be stopped, if there is one. Returns when it has stopped.
    pub(super) fn stop_caller(&self) {
        let thread = self.0.lock().unwrap();
        let Some(id) = *thread else { return };
        // SAFETY: the thread lives: before it ends, it drops its `Stopped`, which waits for the lock held here.
        assert_eq!(unsafe { libc::pthread_kill(id, libc::SIGUSR1) }, 0);
        eventually(|| HAS_STOPPED.load(Ordering::SeqCst));
    }
}

fn a_result_made_in_time_is_delivered_to_a_caller_whose_thread_sees_it_late(transport: &str) {
    let (_server, clockwork, client) = clockwork(transport, &patient(transport).waiting(Waiting::Block));
    let value = with_enough_time(|timeout| {
        let _stopped = Stopped::until(&clockwork.stopper, timeout * 2);
        client.with_timeout(timeout).at_once().map_err(Error::Call)
    });
    assert_eq!(value, Ok(7));
    let error = with_enough_time(|timeout| {
        let _stopped = Stopped::until(&clockwork.stopper, timeout * 2);
        client.with_timeout(timeout).error_at_once()
    });
    assert_eq!(error, Err("7".into()));
}
