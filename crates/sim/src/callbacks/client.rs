//! The client: the turns of its callbacks are those that ship.

use super::CallbackSabotage;
use super::ledger::{Checked, Id};
use super::world::{Event, World};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use stoop_calls::callbacks::record::{AnswerHead, AnswerKind, CallHead, CallKind};
use stoop_calls::callbacks::{Admitted, DEPTH_MAX, Turns};
use stoop_exchange::Instant;
use stoop_wire::RefusalCode;

/// The client's process.
#[derive(Debug)]
pub(super) struct Client {
    /// Callbacks that run at once.
    most: usize,
    is_down: bool,
    /// The session in which the object is offered now.
    pub(super) session: Option<u64>,
    sessions: BTreeMap<u64, Session>,
}

#[derive(Debug)]
struct Session {
    turns: Turns,
    /// Records that have come and were not looked at.
    inbox: VecDeque<Vec<u8>>,
    begun: Vec<Begun>,
}

/// A callback that has begun.
#[derive(Debug)]
struct Begun {
    id: Id,
    number: u64,
    is_one_way: bool,
    /// How many callbacks are to run within it.
    depth: u8,
    deadline: Instant,
    calls: Calls,
    /// A mistake runs it out of turn.
    is_out_of_turn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    NotYet,
    Waits,
    NoMore,
}

/// The arguments of a callback.
pub(super) fn arguments(id: Id, depth: u8) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[depth]].concat()
}

fn id_and_depth(arguments: &[u8]) -> (Id, u8) {
    let (id, depth) = arguments.split_first_chunk().expect("the server writes nine bytes");
    (Id::from_le_bytes(*id), depth[0])
}

impl Client {
    pub(super) fn new(most: usize) -> Self {
        Self { most, is_down: false, session: None, sessions: BTreeMap::new() }
    }

    /// Whether it runs, and its object is not offered.
    pub(super) fn may_offer(&self) -> bool {
        !self.is_down && self.session.is_none()
    }

    pub(super) fn begin(&mut self, session: u64) {
        let turns = Turns::new(self.most);
        self.sessions.insert(session, Session { turns, inbox: VecDeque::new(), begun: Vec::new() });
        self.session = Some(session);
    }

    /// The process ends.
    pub(super) fn end(&mut self) {
        (self.is_down, self.session, self.sessions) = (true, None, BTreeMap::new());
    }

    pub(super) fn start(&mut self) {
        self.is_down = false;
    }

    pub(super) fn is_idle(&self) -> bool {
        let is_idle = |it: &Session| it.begun.is_empty() && (it.inbox.is_empty() || it.turns.is_over());
        self.sessions.values().all(is_idle)
    }
}

impl World {
    pub(super) fn arrive_at_client(&mut self, session: u64, record: Vec<u8>) -> Checked {
        if self.links.contains_key(&session)
            && let Some(it) = self.client.sessions.get_mut(&session)
        {
            it.inbox.push_back(record);
        }
        self.look(session)
    }

    /// The client handles the records that have arrived, up to the first whose callback may not run yet.
    fn look(&mut self, session: u64) -> Checked {
        loop {
            let Some(it) = self.client.sessions.get_mut(&session) else { return Ok(()) };
            let Some(mut record) = it.inbox.pop_front() else { return Ok(()) };
            let (head, _) = CallHead::split(&record).map_err(|why| why.to_string())?;
            if head.kind == CallKind::Cancel {
                let mut cancelled = Vec::new();
                it.turns.cancel_kept(|record| {
                    let Ok((of, rest)) = CallHead::split(record) else { return false };
                    let is_it = of.number == head.number;
                    cancelled.extend(is_it.then(|| id_and_depth(rest).0));
                    is_it
                });
                cancelled.into_iter().for_each(|id| self.ledger.cancels(id));
                continue;
            }
            let mut is_one_way = head.kind == CallKind::OneWay;
            if self.sabotage == CallbackSabotage::ForgetsOrder {
                is_one_way = false;
            }
            match it.turns.admit(is_one_way, &mut record) {
                Admitted::Run => self.run(session, &record)?,
                Admitted::Kept => self.ledger.report.count("one-way callback kept"),
                Admitted::NotYet => {
                    it.inbox.push_front(record);
                    return Ok(());
                }
                Admitted::TooDeep if self.sabotage == CallbackSabotage::DepthIsUnbounded => {
                    self.run_out_of_turn(session, &record)?;
                }
                Admitted::TooDeep => {
                    self.ledger.report.count("refused: too deep");
                    self.answer(
                        session,
                        head.number,
                        AnswerKind::Refusal,
                        RefusalCode::Overloaded.code(),
                        &[],
                    );
                }
                Admitted::Over => return Ok(()),
            }
        }
    }

    fn run(&mut self, session: u64, record: &[u8]) -> Checked {
        let (head, rest) = CallHead::split(record).map_err(|why| why.to_string())?;
        let (id, depth) = id_and_depth(rest);
        let is_one_way = head.kind == CallKind::OneWay;
        let Some(it) = self.client.sessions.get_mut(&session) else { return Ok(()) };
        let deadline = self.now + Duration::from_nanos(head.left_ns);
        let calls = if depth > 0 { Calls::NotYet } else { Calls::NoMore };
        let waits = it.begun.iter().any(|begun| begun.calls == Calls::Waits);
        let number = head.number;
        it.begun.push(Begun { id, number, is_one_way, depth, deadline, calls, is_out_of_turn: false });
        let begun = it.begun.len();
        if begun == self.client.most + DEPTH_MAX {
            self.ledger.report.count("eight wait");
        }
        self.ledger.executes(id, !it.turns.is_over(), (begun, waits), self.client.most)?;
        let after = self.random.pick(&[(0, 1), (0, 1), (1, 20), (20, 200)]);
        let after = self.random.between((Duration::from_millis(after.0), Duration::from_millis(after.1)));
        self.plan_after(after, Event::Runs(session, id));
        Ok(())
    }

    fn run_out_of_turn(&mut self, session: u64, record: &[u8]) -> Checked {
        self.run(session, record)?;
        let begun = self.client.sessions.get_mut(&session).and_then(|it| it.begun.last_mut());
        begun.into_iter().for_each(|begun| begun.is_out_of_turn = true);
        Ok(())
    }

    /// A callback calls its server, or returns.
    pub(super) fn go_on(&mut self, session: u64, id: Id) -> Checked {
        let Some(it) = self.client.sessions.get_mut(&session) else { return Ok(()) };
        let Some(place) = it.begun.iter().position(|begun| begun.id == id) else { return Ok(()) };
        let begun = &mut it.begun[place];
        match begun.calls {
            Calls::Waits => return Ok(()),
            Calls::NotYet if begun.deadline > self.now && !it.turns.is_over() => {
                begun.calls = Calls::Waits;
                if !begun.is_out_of_turn {
                    it.turns.begin_wait();
                }
                let (deadline, depth) = (begun.deadline, begun.depth - 1);
                let delay = self.delay();
                self.plan_after(delay, Event::CallsServer(session, id, (deadline, depth)));
                // The caller waits until its deadline at most, also if the call is lost.
                self.plan(deadline, Event::CallEnds(session, id, false));
                return self.look(session);
            }
            Calls::NotYet | Calls::NoMore => {}
        }
        let Begun { number, is_one_way, is_out_of_turn, .. } = it.begun.remove(place);
        if !is_out_of_turn {
            it.turns.end();
        }
        if !is_one_way {
            self.answer(session, number, AnswerKind::Result, 0, &id.to_le_bytes());
        }
        let mut record = Vec::new();
        while let Some(it) = self.client.sessions.get_mut(&session)
            && it.turns.begin_kept(&mut record)
        {
            self.run(session, &record)?;
        }
        self.look(session)
    }

    /// The call of a callback has ended.
    pub(super) fn call_ends(&mut self, session: u64, id: Id, has_result: bool) -> Checked {
        let Some(it) = self.client.sessions.get_mut(&session) else { return Ok(()) };
        let waits = |begun: &&mut Begun| begun.id == id && begun.calls == Calls::Waits;
        let Some(begun) = it.begun.iter_mut().find(waits) else { return Ok(()) };
        if self.now > begun.deadline {
            return Err(format!("callback {id} waits for its call beyond the deadline"));
        }
        begun.calls = Calls::NoMore;
        if !begun.is_out_of_turn {
            it.turns.end_wait();
        }
        if !has_result {
            self.ledger.report.count("call of a callback lost");
        }
        self.plan_after(Duration::from_micros(10), Event::Runs(session, id));
        Ok(())
    }

    fn answer(&mut self, session: u64, number: u64, kind: AnswerKind, code: u32, rest: &[u8]) {
        let session = match (self.sabotage, self.client.session) {
            (CallbackSabotage::AnswersInLaterSession, Some(present)) => present,
            _ => session,
        };
        let record = [&AnswerHead { number, kind, code }.to_bytes()[..], rest].concat();
        self.send(session, false, record);
    }

    /// The client learns that a session has ended, and offers its object again.
    pub(super) fn client_loses(&mut self, session: u64) -> Checked {
        self.links.remove(&session);
        let Some(it) = self.client.sessions.get_mut(&session) else { return Ok(()) };
        it.turns.close();
        let waiting: Vec<_> =
            it.begun.iter().filter(|begun| begun.calls == Calls::Waits).map(|begun| begun.id).collect();
        if self.client.session == Some(session) {
            self.client.session = None;
            self.plan_after(Duration::from_millis(10), Event::Offers);
        }
        waiting.into_iter().try_for_each(|id| self.call_ends(session, id, false))
    }
}
