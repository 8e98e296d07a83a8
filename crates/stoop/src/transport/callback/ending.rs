//! The ends of callbacks that are not answered: by their deadlines, and with their client.

use crate::calling::call_table::{CallTable, Wakeup};
use crate::context::cancelled::CallId;
use crate::context::keeper::{self, Kept};
use crate::error::{CallError, UnknownCause};
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::pipes::error::PipeError;
use crate::pipes::receiver::Receiver;
use crate::pipes::record::Record;
use crate::transport::callback::handle::{Handle, HandleEnds, Outstanding, number};
use std::mem;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::task::Waker;
use stoop_calls::callbacks::record::{CallHead, CallKind};
use stoop_exchange::Instant;
use stoop_net::clock;

impl Handle {
    /// The client has gone: ends all calls.
    pub(crate) fn end(&self) {
        self.end_calls().into_iter().for_each(Waker::wake);
        self.let_go();
    }

    /// Gives the ends of the pipes back, and with them the connection: programs may keep handles of clients that have gone.
    pub(super) fn let_go(&self) {
        let Ends { sending: Some(sending), receiving: Some(receiving) } = Ends::dead(PipeError::Ended) else {
            unreachable!("there are two")
        };
        let before = mem::replace(&mut *locked(&self.sending), Arc::clone(&sending));
        drop(before);
        // A thread that receives comes here when it stops.
        if let Some(mut ends) = self.role.try_take() {
            *ends = HandleEnds { receiver: Receiver::new(receiving, None), sending };
        }
    }

    pub(super) fn end_calls(&self) -> Vec<Waker> {
        self.is_over.store(true, Ordering::SeqCst);
        // As in `calls`.
        fence(Ordering::SeqCst);
        let mut wakeups = Vec::new();
        if let Some(mut table) = self.known_table() {
            let now = Instant::from_nanos(clock::now_ns());
            for call in table.open_where(|_| true) {
                wakeups.push(table.end_unknown(call, now, UnknownCause::ConnectionLost));
            }
        }
        self.role.notify_all();
        wakeups.into_iter().filter_map(Wakeup::unpark).collect()
    }

    /// Ends the calls whose deadlines have passed, and tells the client.
    pub(super) fn expire_calls(&self, now_ns: u64) {
        let mut table = self.table();
        let expired = table.expired(now_ns);
        if expired.is_empty() {
            return;
        }
        self.has_given_up.store(true, Ordering::SeqCst);
        let now = Instant::from_nanos(now_ns);
        let mut ended = Vec::with_capacity(expired.len());
        for call in expired {
            let id = table.get_mut(call).map_or(0, |known| known.id);
            ended.push((number(call, id), table.end_unknown(call, now, UnknownCause::DeadlinePassed)));
        }
        drop(table);
        for (number, wakeup) in ended {
            self.send_cancel(number);
            wakeup.give();
        }
    }

    pub(super) fn send_cancel(&self, number: u64) {
        let head = CallHead { number, kind: CallKind::Cancel, procedure: 0, left_ns: 0 };
        // Without room for it, the client runs the callback until its deadline.
        let _ = self.sending().append(&Record::of(&head.to_bytes()));
    }

    /// Has calls end at their deadlines though no thread waits for them; one of them has this.
    pub(super) fn expire_by(&self, deadline_ns: u64) {
        if self.looks_ns.fetch_min(deadline_ns, Ordering::SeqCst) > deadline_ns {
            let own: Weak<Self> = self.own.clone();
            keeper::keep(CallId::NONE, deadline_ns, own);
        }
    }
}

impl Kept for Handle {
    fn expire(&self) {
        self.looks_ns.store(u64::MAX, Ordering::SeqCst);
        self.expire_calls(clock::now_ns());
        let (is_any, earliest_ns) = {
            let table = self.table();
            (table.open_count() > 0, table.earliest_ns())
        };
        if is_any {
            self.expire_by(earliest_ns);
        }
    }
}

impl Drop for Handle {
    /// The server needs the object no more.
    fn drop(&mut self) {
        self.end_calls().into_iter().for_each(Waker::wake);
    }
}

impl CallTable<Outstanding> {
    /// Ends a call of which it is not known whether it has run.
    fn end_unknown(&mut self, call: u32, now: Instant, cause: UnknownCause) -> Wakeup {
        let begun = self.get_mut(call).map_or(now, |known| known.begun);
        let waited = now.since(begun);
        self.end(call, Err(CallError::Unknown { transmissions: 1, waited, cause, callee: None }))
    }
}
