//! Packets that the server's process sends on its own initiative, and cancelled calls.

use crate::events::Event;
use crate::ledger::Identity;
use crate::world::Job;
use crate::{Sabotage, Sim};
use stoop_wire::{Header, Kind, RefusalCode};

/// Bytes that one system call sends.
const BLAST: usize = 64 * 1024;

impl Sim {
    /// Sends what the server has to send now.
    pub(crate) fn server_transmits(&mut self) {
        let now = self.server_now();
        let mut datagrams = Vec::new();
        for turn in 0.. {
            let Some(server) = &mut self.server.server else { return };
            let Some(transmission) = server.next_transmission(now, BLAST, &mut datagrams) else { return };
            if turn > MOST_TURNS || datagrams.is_empty() || datagrams.len() > BLAST {
                let bytes = datagrams.len();
                return self.ledger.complain(format!("turn {turn}: {bytes} bytes to be sent at one moment"));
            }
            for datagram in datagrams.chunks(transmission.segment) {
                let (header, _) = Header::parse(datagram).expect("the server sends packets");
                match header.kind {
                    Kind::Receipt => self.report.server_receipts += 1,
                    _ => self.report.result_parts += 1,
                }
                self.send_to_caller(transmission.peer, datagram.to_vec());
            }
        }
    }

    /// Sees to it that receipts which the server owes are sent when it has taken all that has arrived.
    pub(crate) fn server_may_be_drained(&mut self) {
        let now = self.now;
        if !self.server.socket.has_more(now) && self.server.drains_at != Some(now) {
            // After everything else that arrives at this moment.
            self.server.drains_at = Some(now);
            self.events.plan(now, Event::ServerDrained(self.server.life));
        }
    }

    pub(crate) fn server_is_drained(&mut self) {
        self.server.drains_at = None;
        if let Some(server) = &mut self.server.server
            && server.drained()
        {
            self.server_transmits();
            self.plan_server_timer();
        }
    }

    /// Cancels a call that has been given out: one in the queue is refused, and a procedure may
    /// return early.
    pub(crate) fn cancel_assigned(&mut self, identity: Identity) {
        let is_it = |job: &Job| job.assignment.identity() == identity;
        if let Some(place) = self.server.queue.iter().position(is_it) {
            let job = self.server.queue.remove(place).expect("it is there");
            self.report.cancelled_queued += 1;
            if self.sabotage == Sabotage::RunsCancelled {
                return self.refuses_but_runs(job, RefusalCode::Cancelled);
            }
            return self.refuse(job, RefusalCode::Cancelled);
        }
        if self.cancel_open(identity) {
            return;
        }
        let Some((&number, _)) = self.server.running.iter().find(|(_, job)| is_it(job)) else { return };
        self.report.cancelled_running += 1;
        if self.random.chance(self.scenario.heeds_cancels) {
            self.events.plan(self.now, Event::JobReturns { life: self.server.life, job: number });
        }
    }
}

/// More transmissions than this at one moment come to no end.
const MOST_TURNS: u32 = 10_000;
