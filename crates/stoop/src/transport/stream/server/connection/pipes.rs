//! The pipes of the calls on a connection: what leaves and what arrives of them.

use crate::pipes::contract::{FIRST_WINDOW, Pipes};
use crate::pipes::helper;
use crate::pipes::queue::{Disorder, PipeQueue};
use crate::pipes::window::Window;
use crate::transport::stream::pipes::{CallPipes, PacketsSent};
use crate::transport::stream::server::connection::Connection;
use crate::transport::stream::server::numbers::Numbers;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use stoop_exchange::stream::StreamEvent;
use stoop_net::poller::{Interest, Poller};
use stoop_wire::{BindingId, Header, Kind};

impl Connection {
    /// Sends what is due of the pipes, as far as the stream takes it: nothing more is taken from them while something waits for room.
    ///
    /// # Errors
    /// The connection is broken.
    #[cold]
    pub(in crate::transport::stream::server) fn send_pipes(&self, poller: &Poller) -> io::Result<()> {
        let _sending = self.pipes.gathering.begin();
        let binding = BindingId(self.bound.load(Ordering::Relaxed));
        loop {
            let mut outgoing = self.outgoing();
            if outgoing.held_back() > 0 {
                self.send_together(poller, &mut outgoing)?;
            }
            if self.is_closed() || !outgoing.is_empty() {
                return Ok(());
            }
            let rest = outgoing.rest_of_packet();
            match self.pipes.send_next(binding, |slices| self.stream.try_send(slices), rest)? {
                PacketsSent::Whole => {
                    drop(outgoing);
                    self.outgoing.let_others_pass();
                }
                PacketsSent::Nothing => return Ok(()),
                PacketsSent::Part => {
                    outgoing.keep_rest_of_packet();
                    return poller.modify(&self.stream, self.token, Interest::READ_WRITE);
                }
            }
        }
    }

    /// The pipes of a call that has arrived and has not been answered, whose data comes before they are known. `None`: it is no such call.
    fn early_pipes(&self, call: &Header) -> Option<Arc<CallPipes>> {
        let outgoing = self.outgoing();
        if !outgoing.answered.is_before(call) {
            return None;
        }
        self.pipes.forget_early(|(lane, number)| {
            let known = Header::bare(Kind::Call, call.binding, lane, number);
            lane == call.lane && !outgoing.answered.is_before(&known)
        });
        let pipes = CallPipes::early(PipeQueue::new(FIRST_WINDOW, Window::Usual));
        self.pipes.add(call.lane, call.number, &pipes);
        Some(pipes)
    }

    /// Takes data of a pipe, or a receipt for some, that has arrived on the binding.
    #[cold]
    pub(in crate::transport::stream::server) fn take_of_pipe(
        &self,
        arrived: &Numbers,
        of_pipe: &StreamEvent<'_>,
    ) -> Result<(), Disorder> {
        let header = of_pipe.header();
        let call = match self.pipes.find(header) {
            Some(call) => call,
            None if arrived.is_before(header) => return Err(Disorder),
            // That of a call which has ended goes nowhere.
            None if !arrived.is_latest(header) || header.kind == Kind::Receipt => return Ok(()),
            None => match self.early_pipes(header) {
                Some(call) => call,
                None => return Ok(()),
            },
        };
        let taken = match of_pipe {
            StreamEvent::Data(data) => self.pipes.take_data(&call, data)?,
            StreamEvent::Message(message) => self.pipes.take_receipt(&call, header, message.payload())?,
            StreamEvent::NotTaken(..) => return Err(Disorder),
        };
        // The calling thread has the receiving half, and no other lock.
        helper::wake_unlocked(taken);
        Ok(())
    }

    /// The pipes of a call that is about to be open: with what has arrived for them.
    pub(in crate::transport::stream::server) fn open_pipes(
        &self,
        call: &Header,
        pipes: Pipes,
    ) -> Arc<CallPipes> {
        // Data may arrive at the same time.
        let _incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let early = self.pipes.find(call).and_then(|early| early.into.clone());
        let out = pipes.from_procedure.then(|| Arc::new(PipeQueue::new(0, Window::Usual)));
        let into = pipes
            .to_procedure
            .then(|| early.unwrap_or_else(|| Arc::new(PipeQueue::new(FIRST_WINDOW, Window::Usual))));
        let pipes = CallPipes::of(out, into);
        self.pipes.add(call.lane, call.number, &pipes);
        pipes
    }
}
