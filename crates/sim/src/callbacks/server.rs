//! The server: its program, and its table of outstanding callbacks.

use super::CallbackSabotage;
use super::client::arguments;
use super::ledger::{Checked, Id, Told};
use super::world::{Event, World};
use core::time::Duration;
use std::collections::BTreeMap;
use stoop_calls::callbacks::record::{AnswerHead, AnswerKind, CallHead, CallKind};
use stoop_exchange::Instant;

/// The server's process.
#[derive(Debug, Default)]
pub(super) struct Server {
    is_down: bool,
    pub(super) starts: u64,
    /// The objects that clients offer, by session.
    handles: BTreeMap<u64, Handle>,
}

/// An object that a client offers.
#[derive(Debug, Default)]
struct Handle {
    last: u64,
    outstanding: BTreeMap<u64, Outstanding>,
}

#[derive(Debug)]
struct Outstanding {
    id: Id,
    /// The callback for whose call it was made.
    within: Option<Id>,
}

/// A callback that the server makes: the callback within which it is made, if any, and its terms.
struct Made {
    within: Option<Id>,
    is_one_way: bool,
    depth: u8,
    deadline: Instant,
}

impl Server {
    pub(super) fn is_up(&self) -> bool {
        !self.is_down
    }

    pub(super) fn start(&mut self) {
        *self = Self { starts: self.starts + 1, ..Self::default() };
    }

    pub(super) fn accept(&mut self, session: u64) {
        self.handles.insert(session, Handle::default());
    }
}

impl World {
    /// The program calls the object that was offered last, or one that was before.
    pub(super) fn call_client(&mut self) -> Checked {
        if self.server.is_down {
            return Ok(());
        }
        let newest = self.server.handles.last_key_value().map_or(0, |(session, _)| *session);
        let session = if self.random.chance(50) { newest.saturating_sub(1) } else { newest };
        let depth = self.random.pick(&[0, 0, 0, 1, 2, 14]);
        let is_one_way = depth == 0 && self.random.chance(500);
        let time = self.random.pick(&[5, 300, 3_000]);
        let deadline = self.now + Duration::from_millis(time);
        self.make(session, Made { within: None, is_one_way, depth, deadline })
    }

    fn make(&mut self, session: u64, Made { within, is_one_way, depth, deadline }: Made) -> Checked {
        let id = self.ledger.make(session, is_one_way, deadline);
        let Some(handle) = self.server.handles.get_mut(&session) else {
            self.ledger.report.count("no object to be called");
            self.ledger.told(self.now, id, Told::DidNotRun)?;
            return self.conclude(session, within);
        };
        handle.last += 1;
        let number = handle.last;
        let left_ns = deadline.as_nanos() - self.now.as_nanos();
        let kind = if is_one_way { CallKind::OneWay } else { CallKind::Call };
        let head = CallHead { number, kind, procedure: 0, left_ns };
        if is_one_way {
            self.ledger.told(self.now, id, Told::Sent)?;
        } else {
            handle.outstanding.insert(number, Outstanding { id, within });
            let late = if self.sabotage == CallbackSabotage::WaitsOn { 50 } else { 0 };
            self.plan(deadline + Duration::from_millis(late), Event::Expires(session, number));
        }
        self.send(session, true, [&head.to_bytes()[..], &arguments(id, depth)].concat());
        Ok(())
    }

    /// A callback made for the call of another has ended: so does that call.
    fn conclude(&mut self, session: u64, within: Option<Id>) -> Checked {
        if let Some(id) = within
            && self.links.contains_key(&session)
        {
            let delay = self.delay();
            self.plan_after(delay, Event::CallEnds(session, id, true));
        }
        Ok(())
    }

    pub(super) fn arrive_at_server(&mut self, session: u64, record: &[u8]) -> Checked {
        if !self.links.contains_key(&session) {
            return Ok(());
        }
        let (head, rest) = AnswerHead::split(record).map_err(|why| why.to_string())?;
        let Some(handle) = self.server.handles.get_mut(&session) else { return Ok(()) };
        let Some(Outstanding { id, within }) = handle.outstanding.remove(&head.number) else { return Ok(()) };
        let told = match head.kind {
            AnswerKind::Result => {
                self.ledger.report.count("result");
                Told::Result(rest.first_chunk().map_or(Id::MAX, |id| Id::from_le_bytes(*id)))
            }
            AnswerKind::Refusal | AnswerKind::Failure => Told::DidNotRun,
        };
        self.ledger.told(self.now, id, told)?;
        self.conclude(session, within)
    }

    /// A procedure that a callback has called: it calls the object back.
    pub(super) fn serve(&mut self, session: u64, id: Id, (deadline, depth): (Instant, u8)) -> Checked {
        let is_bound = self.links.get(&session).is_some_and(|link| link.server == self.server.starts);
        if self.server.is_down || !is_bound || deadline <= self.now {
            return Ok(());
        }
        self.make(session, Made { within: Some(id), is_one_way: false, depth, deadline })
    }

    pub(super) fn expire(&mut self, session: u64, number: u64) -> Checked {
        let Some(handle) = self.server.handles.get_mut(&session) else { return Ok(()) };
        let Some(Outstanding { id, within }) = handle.outstanding.remove(&number) else { return Ok(()) };
        self.ledger.report.count("deadline passed");
        self.ledger.told(self.now, id, Told::Perhaps)?;
        let head = CallHead { number, kind: CallKind::Cancel, procedure: 0, left_ns: 0 };
        self.send(session, true, head.to_bytes().to_vec());
        self.conclude(session, within)
    }

    /// The client offers its object once more: what it offered before is gone.
    pub(super) fn server_replaces(&mut self) -> Checked {
        let before: Vec<_> = self.server.handles.keys().copied().collect();
        before.into_iter().try_for_each(|session| self.server_loses(session))
    }

    /// The server learns that a client has gone.
    pub(super) fn server_loses(&mut self, session: u64) -> Checked {
        self.links.remove(&session);
        let Some(handle) = self.server.handles.remove(&session) else { return Ok(()) };
        for Outstanding { id, .. } in handle.outstanding.into_values() {
            self.ledger.report.count("client gone");
            if self.ledger.has_run(id) {
                self.ledger.report.count("ran, and its client was gone");
            }
            let told = match self.sabotage {
                CallbackSabotage::LostIsNotRun => Told::DidNotRun,
                _ => Told::Perhaps,
            };
            self.ledger.told(self.now, id, told)?;
        }
        Ok(())
    }

    /// The server's process ends: nobody is left who waits.
    pub(super) fn end_server(&mut self) -> Checked {
        self.server.is_down = true;
        let handles = std::mem::take(&mut self.server.handles);
        let outstanding = handles.into_values().flat_map(|handle| handle.outstanding.into_values());
        outstanding
            .into_iter()
            .try_for_each(|Outstanding { id, .. }| self.ledger.told(self.now, id, Told::Nobody))
    }
}
