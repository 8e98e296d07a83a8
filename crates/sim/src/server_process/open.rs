//! Open calls: their procedures have returned, and their answers come later, or are lost, or come too late.

use crate::clock::SERVERS;
use crate::events::Event;
use crate::ledger::Identity;
use crate::task::Manner;
use crate::world::Job;
use crate::{Sabotage, Sim};
use stoop_wire::{BindingId, FailureCode};

impl Sim {
    /// Whether the answer of a job that has run comes later.
    pub(crate) fn answers_later(&mut self, job: &Job) -> bool {
        job.task.manner == Manner::Returns && self.random.chance(self.scenario.later)
    }

    /// Lets a call that has run wait for its answer.
    pub(crate) fn leave_open(&mut self, mut job: Job) {
        let Some(server) = &mut self.server.server else { return };
        server.suspend(&mut job.assignment);
        self.report.opened += 1;
        self.server.jobs += 1;
        let (life, number, deadline) = (self.server.life, self.server.jobs, job.assignment.deadline);
        let is_lost = self.random.chance(self.scenario.replies_lost);
        self.plan_within(self.scenario.reply_after, Event::ReplyGiven { life, job: number, is_lost });
        self.plan_on(SERVERS, deadline, Event::OpenExpires { life, job: number });
        self.server.open.insert(number, job);
    }

    /// A thread of the server gives an answer, or drops the means to.
    pub(crate) fn reply_given(&mut self, number: u64, is_lost: bool) {
        let Some(mut job) = self.server.open.remove(&number) else {
            self.report.late_replies += 1;
            return;
        };
        job.assignment.resume();
        let another = self.server.open.values().next().map(|other| other.task.id);
        match (self.sabotage, another) {
            (Sabotage::AnswersForAnother, Some(another)) => job.task.id = another,
            (Sabotage::AnswersTwice, _) | (Sabotage::AnswersAbandoned, _) => {
                return self.answers_twice(job, is_lost);
            }
            _ => {}
        }
        match is_lost {
            false => self.job_returns(job),
            true => {
                self.report.abandoned += 1;
                self.open_fails(job, FailureCode::Abandoned);
            }
        }
        self.linger_if_idle();
    }

    /// Answers a call in both ways: a fault that no server may have.
    fn answers_twice(&mut self, mut job: Job, is_lost: bool) {
        let peer = job.assignment.peer;
        let result = self.make_answer(&mut job);
        let is_first = self.sabotage == Sabotage::AnswersTwice;
        if is_first {
            self.send_to_caller(peer, result.clone());
        }
        match is_first || is_lost {
            true => self.open_fails(job, FailureCode::Abandoned),
            false => return self.job_returns(job),
        }
        if !is_first {
            self.send_to_caller(peer, result);
        }
        self.linger_if_idle();
    }

    /// The keeper ends an open call at its deadline.
    pub(crate) fn open_expires(&mut self, number: u64) {
        let now = self.server_now();
        if self.server.open.get(&number).is_some_and(|job| job.assignment.deadline > now) {
            return self.ledger.complain("the server's clock has gone back".into());
        }
        if let Some(job) = self.server.open.remove(&number) {
            self.report.expired_open += 1;
            self.open_fails(job, FailureCode::FinishedTooLate);
            self.linger_if_idle();
        }
    }

    /// The caller has cancelled an open call. Returns whether there is one.
    pub(crate) fn cancel_open(&mut self, identity: Identity) -> bool {
        let number = self.server.open.iter().find(|(_, job)| job.assignment.identity() == identity);
        let Some(job) = number.map(|(number, _)| *number).and_then(|it| self.server.open.remove(&it)) else {
            return false;
        };
        self.report.cancelled_open += 1;
        self.open_fails(job, FailureCode::Abandoned);
        self.linger_if_idle();
        true
    }

    /// The caller has given up a binding, and with it the answers of its open calls.
    pub(crate) fn end_open_of(&mut self, binding: BindingId) {
        let is_of_it = |job: &Job| job.assignment.identity().0 == binding;
        let ended = self.server.open.extract_if(.., |_, job| is_of_it(job));
        let ended: Vec<_> = ended.map(|(_, job)| job).collect();
        for job in ended {
            self.ledger.returns(self.server.life, job.assignment.identity());
            self.finish(job);
        }
        self.linger_if_idle();
    }

    fn open_fails(&mut self, mut job: Job, code: FailureCode) {
        self.ledger.returns(self.server.life, job.assignment.identity());
        let failure = job.assignment.fail(code, "").to_vec();
        self.send_to_caller(job.assignment.peer, failure);
        self.finish(job);
        self.server_transmits();
        self.plan_server_timer();
    }
}
