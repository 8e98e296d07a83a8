//! Operations for tests that decide themselves what happens in a world.

use crate::events::ThreadId;
use crate::scenario::Wish;
use crate::world::BEGINNING;
use crate::{CallId, Losses, Side, Sim, Stop, Told};
use core::time::Duration;
use stoop_exchange::Instant;
use stoop_wire::Kind;

impl Sim {
    /// Makes a call on the caller's thread `thread` of a procedure that runs for `work`, and runs until it has ended.
    ///
    /// # Panics
    /// When a promise is broken, or the thread has a call already.
    pub fn call(&mut self, thread: usize, work: Duration) -> (CallId, Told) {
        let id = self.start_call(thread, work, Duration::from_secs(10));
        (id, self.end_of(id))
    }

    /// Begins a call that ends after `limit` at the latest.
    ///
    /// # Panics
    /// When the thread has a call already.
    pub fn start_call(&mut self, thread: usize, work: Duration, limit: Duration) -> CallId {
        self.begin_call(ThreadId { caller: 0, thread }, Wish { work, limit, ..Wish::default() })
    }

    /// Begins a call of so many bytes of arguments and of result on a thread of a caller.
    ///
    /// # Panics
    /// When the thread has a call already.
    pub fn start_long_call(
        &mut self,
        (caller, thread): (usize, usize),
        (arguments, result): (usize, usize),
        limit: Duration,
    ) -> CallId {
        let wish = Wish { arguments, result, limit, ..Wish::default() };
        self.begin_call(ThreadId { caller, thread }, wish)
    }

    /// The outcome that a call's caller was told, if the call has ended.
    pub fn told(&self, id: CallId) -> Option<Told> {
        self.ledger.told(id)
    }

    /// Handles the next event; false if none is left.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn go_on(&mut self) -> bool {
        self.step().unwrap_or_else(|violation| panic!("{violation}"))
    }

    /// Time since the world began.
    pub fn elapsed(&self) -> Duration {
        self.now.since(Instant::from_nanos(BEGINNING))
    }

    /// Bytes of frames that the lines have carried: to the server, and back.
    pub fn carried(&self) -> (u64, u64) {
        (self.network.there.carried, self.network.back.carried)
    }

    /// Packets dropped by full queues and too small lines: on the way to the server, and back.
    pub fn losses(&self) -> (Losses, Losses) {
        (self.network.there.losses, self.network.back.losses)
    }

    /// A caller's thread no longer waits for its call.
    pub fn cancel(&mut self, thread: usize, id: CallId) {
        self.cancel_call(ThreadId { caller: 0, thread }, id);
    }

    /// Runs until a call has ended.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn end_of(&mut self, id: CallId) -> Told {
        loop {
            if let Some(told) = self.ledger.told(id) {
                return told;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => panic!("{id:?} never ends"),
                Err(violation) => panic!("{violation}"),
            }
        }
    }

    /// Number of executions of a call.
    pub fn executions(&self, id: CallId) -> u32 {
        self.ledger.executions(id)
    }

    /// The next packet of that kind is lost.
    pub fn drop_next(&mut self, from: Side, kind: Kind) {
        self.network.drop_next(from, kind);
    }

    /// The next packet of that kind travels for so long.
    pub fn delay_next(&mut self, from: Side, kind: Kind, by: Duration) {
        self.network.delay_next(from, kind, by);
    }

    /// The next packet of that kind arrives once more, so much later.
    pub fn repeat_next(&mut self, from: Side, kind: Kind, later: Duration) {
        self.network.repeat_next(from, kind, later);
    }

    /// Packets of that kind sent so far.
    pub fn transmissions(&self, from: Side, kind: Kind) -> u64 {
        self.network.transmissions(from, kind)
    }

    /// The server's process ends at once; nothing is there until [`start_server`](Self::start_server).
    pub fn crash_server(&mut self) {
        self.server_ends();
    }

    /// The caller's process ends at once, and begins anew soon.
    pub fn crash_caller(&mut self) {
        self.caller_crashes(0);
    }

    /// Bytes that the server holds of calls of many packets that are arriving, wait or run.
    pub fn incomplete_bytes(&self) -> usize {
        self.server.server.as_ref().map_or(0, |server| server.incomplete_bytes())
    }

    /// Another start of the server.
    pub fn start_server(&mut self) {
        self.server_starts();
    }

    /// The server shuts down cleanly.
    pub fn shut_down_server(&mut self) {
        self.server_shuts_down();
    }

    /// The caller's packets come from another address from now on.
    pub fn move_caller(&mut self) {
        self.caller_moves(0);
    }

    /// The caller gives up its binding.
    pub fn unbind_caller(&mut self) {
        self.unbind(0);
    }

    /// A machine stops for so long: the server's (0), or that of the first caller (1).
    pub fn stop_machine(&mut self, machine: usize, stop: Stop, lasts: Duration) {
        self.stops(machine, stop, lasts);
    }

    /// The server's address leads to another server, and by the next such change back to the first.
    pub fn wander(&mut self) {
        self.address_wanders();
    }

    /// Bindings that the server knows.
    pub fn bindings(&self) -> usize {
        self.server.server.as_ref().map_or(0, |server| server.bindings())
    }
}
