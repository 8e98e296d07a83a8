//! A slow call whose result had long been there when its thread woke up: the kernel's note of its arrival tells that.

use crate::harness::transports;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use stoop::account::{AccountOptions, Part, SlowCall};
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Work {
    /// Interrupts the calling thread if it is asked to; the thread then does something else for a while.
    fn distract(&self, is_asked: bool);
}

struct Worker;

/// The calling thread.
static CALLER: AtomicU64 = AtomicU64::new(0);
const AWAY: Duration = Duration::from_millis(60);

impl Work for Worker {
    fn distract(&self, is_asked: bool) {
        if !is_asked {
            return;
        }
        // SAFETY: the thread waits for the result of this call.
        assert_eq!(unsafe { libc::pthread_kill(CALLER.load(SeqCst) as libc::pthread_t, libc::SIGUSR1) }, 0);
    }
}

extern "C" fn be_away(_: libc::c_int) {
    let begun = Instant::now();
    while begun.elapsed() < AWAY {
        std::hint::spin_loop();
    }
}

#[test]
fn a_result_that_waited_for_its_thread_is_told_from_one_that_came_late() {
    // SAFETY: the handler reads a clock, and nothing else.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = be_away as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut())
    };
    assert_eq!(action, 0);
    // SAFETY: nothing is required.
    CALLER.store(unsafe { libc::pthread_self() } as u64, SeqCst);
    for transport in ["udp", "tcp"] {
        let server = Server::new().export(WorkServer::new(Worker)).listen(&transports::address(transport));
        let server = server.unwrap().start().unwrap();
        let account = AccountOptions::new().slow_after(AWAY / 2).note_arrivals();
        let client = WorkClient::bind_with(&server.uris()[0], &BindOptions::new().account(account)).unwrap();
        // Over UDP the kernel begins to note arrivals some time after it was asked to.
        let mut tries = (0..100).map(|_| {
            // Most calls are short, so that a long one is unusual.
            (0..3).for_each(|_| client.distract(false).unwrap());
            client.distract(true).unwrap();
            client.binding().account().slow.pop().expect("its thread was away")
        });
        // On a busy machine the server may have had no processor while the caller was away: then its procedure was slow, too.
        let is_told = |slow: &SlowCall| slow.wake_up.is_some() && slow.slow == Part::WakeUp;
        let told = tries.find(is_told).expect("the kernel notes arrivals");
        assert_eq!(told.procedure, "distract", "{transport}: {told}");
        assert!(told.wake_up.unwrap() >= AWAY / 2, "{transport}: {told}");
    }
}
