//! Callbacks from a server in the client's process: a thread that waits for one runs it, as calls within a process run.

use crate::callbacks::session::Session;
use crate::callbacks::{PANIC_STAYS, nested};
use crate::calling::message::Message;
use crate::context::served_call;
use crate::error::{CallError, FailureCode};
use crate::locked::locked;
use crate::serving::here::{self, result_len};
use crate::serving::outcome::Outcome;
use std::collections::HashMap;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, Weak};

/// The sessions of clients that are bound to a server of this process, by the number of their objects.
static SESSIONS: LazyLock<Mutex<HashMap<u64, Weak<Session>>>> = LazyLock::new(Mutex::default);

/// The session of the client whose object has that number.
pub(crate) fn find(client: u64) -> Option<Arc<Session>> {
    locked(&SESSIONS).get(&client)?.upgrade()
}

impl Session {
    /// Threads of its server can find it, if that is in this process.
    pub(super) fn be_found(self: &Arc<Self>) {
        if let Some(client) = self.here {
            locked(&SESSIONS).insert(client, Arc::downgrade(self));
        }
    }

    pub(super) fn be_lost(&self) {
        if let Some(client) = self.here {
            // There may be a later one by now.
            locked(&SESSIONS).retain(|of, known| *of != client || !ptr::eq(known.as_ptr(), self));
        }
    }

    /// Runs a callback in this thread, with those bytes of `message` as arguments, and leaves its result there. `None`: there is no place for
    /// it, or others come before it, of which so many records have been sent; a record of it has to be sent, too.
    pub(crate) fn run_here(
        self: &Arc<Self>,
        records: u64,
        message: &mut Message,
        (procedure, arguments): (u16, Range<usize>),
        deadline_ns: u64,
    ) -> Option<Result<(), CallError>> {
        let turn = self.take_turn(records)?;
        // A cancel of the call that this thread serves cancels this one, too.
        let limits = self.limits(deadline_ns, served_call().id());
        let (procedure, arguments) = (self.own(procedure), &message.arguments[arguments]);
        let ran = here::run(&self.exports, &mut message.packet, limits, |packet| {
            let run = || self.exports.run(0, procedure, arguments, packet, limits);
            let ran = nested::running(Arc::clone(self) as _, run);
            drop(turn);
            ran
        });
        let len = match ran {
            // The message of a panic is the client's own affair.
            Outcome::Failed(why) if why.0 == FailureCode::Panicked => {
                result_len(Outcome::failed(why.0, PANIC_STAYS.into()))
            }
            ran => result_len(ran),
        };
        Some(len.map(|len| message.set_result_len(len)))
    }

    fn take_turn(self: &Arc<Self>, records: u64) -> Option<Turn<'_>> {
        let mut state = self.state();
        let begins = state.turns.begin_after(records);
        state.threads += usize::from(begins);
        begins.then(|| Turn(self))
    }
}

/// A callback that this thread runs.
struct Turn<'a>(&'a Arc<Session>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Self(session) = self;
        let mut state = session.state();
        // They have come while it waited for a call of its own; the session's own threads may wait for others.
        let leaves_kept = state.turns.end();
        state.threads -= 1;
        session.wake_delayed(state);
        if leaves_kept {
            // Without a thread they wait for the next callback.
            let _ = session.start_thread();
        }
    }
}
