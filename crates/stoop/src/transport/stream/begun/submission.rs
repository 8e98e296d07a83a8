//! How begun calls leave: as many as there are lanes for, by one write.

use crate::error::{CallError, SendError, UnknownCause};
use crate::transport::stream::begun::{Outstanding, OutstandingCall, Progress, State, locked};
use crate::transport::stream::caller::mailbox::Mailbox;
use crate::transport::stream::caller::outgoing::Unsent;
use crate::transport::stream::caller::session::Session;
use std::io;
use std::sync::Arc;
use stoop_exchange::stream::OutgoingMessage;
use stoop_net::clock;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, STREAM_FRAGMENT, left_of_nanos};

/// Bytes of calls that leave by one write, about.
const WRITE_MAX: usize = 64 * 1024;

/// What the queue has for whoever sends.
enum Next {
    Nothing,
    /// Calls are stamped and ready to leave; there may be more.
    Together,
    /// A call of several fragments, to be sent by itself.
    Long(LongCall),
}

/// A call that is sent fragment by fragment, between which others go.
struct LongCall {
    call: (u32, u64),
    mailbox: Arc<Mailbox>,
    header: Header,
    packet: Vec<u8>,
    deadline_ns: u64,
}

impl Outstanding {
    /// Sends what is queued, as far as there are lanes. Whoever may not wait for a long call to leave calls the background
    /// to it.
    pub(super) fn launch(self: &Arc<Self>, may_wait: bool) {
        loop {
            if !self.state().has_queued() {
                return;
            }
            let now_ns = clock::now_ns();
            let session = self.binding.present();
            if !session.is_there(now_ns) {
                // It gets another connection.
                return self.background.call();
            }
            let mut bytes = locked(&self.sending);
            bytes.clear();
            match self.choose(&session, &mut bytes, now_ns, may_wait) {
                Next::Nothing => return,
                Next::Together => {
                    if session.outgoing.post(&session.stream, &bytes).is_err() {
                        session.lose();
                        return self.background.call();
                    }
                }
                Next::Long(long) => {
                    drop(bytes);
                    self.send_long(&session, long);
                }
            }
        }
    }

    /// Takes calls from the queue, gives each a lane, and puts them into `bytes`.
    fn choose(
        self: &Arc<Self>,
        session: &Arc<Session>,
        bytes: &mut Vec<u8>,
        now_ns: u64,
        may_wait: bool,
    ) -> Next {
        let mut state = self.state();
        state.added = (0, 0);
        while let Some(&(call, id)) = state.queue.front() {
            let deadline_ns = state.slots.deadline_ns(call);
            let State { slots, spares: _, queue, .. } = &mut *state;
            let flight = slots.get_mut(call).filter(|flight| flight.id == id);
            let Some(flight) = flight.filter(|flight| matches!(flight.progress, Progress::Queued)) else {
                queue.pop_front();
                continue;
            };
            let is_long = flight.packet.len() > HEADER_LEN + STREAM_FRAGMENT;
            if is_long && !may_wait {
                self.background.call();
                break;
            }
            if !bytes.is_empty() && (is_long || bytes.len() + flight.packet.len() > WRITE_MAX) {
                break;
            }
            let Some(mailbox) = session.lane() else { break };
            queue.pop_front();
            let number = mailbox.expect_in_flight(self, (call, id));
            let header = header(session, flight, &mailbox, number, deadline_ns.saturating_sub(now_ns));
            if is_long {
                flight.progress = Progress::Leaving;
                let packet = std::mem::take(&mut flight.packet);
                return Next::Long(LongCall { call: (call, id), mailbox, header, packet, deadline_ns });
            }
            bytes.extend_from_slice(&header.to_bytes());
            bytes.extend_from_slice(&flight.packet[HEADER_LEN..]);
            flight.progress = Progress::Sent(Arc::clone(session), mailbox);
            if !self.is_idempotent(flight.procedure) {
                let packet = std::mem::take(&mut flight.packet);
                state.keep_spare(packet);
            }
        }
        if bytes.is_empty() { Next::Nothing } else { Next::Together }
    }

    fn is_idempotent(&self, procedure: u16) -> bool {
        self.binding.interface.procedures[usize::from(procedure)].idempotent
    }

    fn send_long(self: &Arc<Self>, session: &Arc<Session>, long: LongCall) {
        let LongCall { call, mailbox, header, mut packet, deadline_ns } = long;
        let departure = OutgoingMessage::new(header, &mut packet);
        // As long as the server takes nothing, others end at their deadlines, and what has come for them is received.
        let mut meanwhile = || {
            self.look_at_stream();
            self.expire(clock::now_ns());
            self.wake_all();
        };
        let stream = &session.stream;
        let sent = session.outgoing.send_beside(stream, &packet, departure, deadline_ns, &mut meanwhile);
        let mut state = self.state();
        // It may have expired while it left, and then nobody could end it.
        state.slots.remind(deadline_ns);
        let flight = state.slots.get_mut(call.0).filter(|flight| flight.id == call.1);
        match sent {
            Ok(()) | Err(Unsent::LateButOnItsWay) => {
                let Some(flight) = flight else {
                    // Nobody waited any more while it left.
                    drop(state);
                    return self.send_cancel(session, &mailbox, call);
                };
                if self.is_idempotent(flight.procedure) {
                    flight.packet = packet;
                }
                flight.progress = Progress::Sent(Arc::clone(session), mailbox);
            }
            Err(Unsent::Late) => {
                mailbox.forget();
                session.give_back(mailbox);
                drop(state);
                let why = "the server took nothing more until the call's deadline";
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                self.end(call, Err(CallError::NotSent(SendError::Io(error))));
            }
            Err(Unsent::Lost) => {
                mailbox.forget();
                if let Some(flight) = flight {
                    // Part of it is missing: it did not run.
                    (flight.packet, flight.progress) = (packet, Progress::Queued);
                    state.queue.push_front(call);
                }
                drop(state);
                session.lose();
                self.background.call();
            }
        }
    }

    /// Tells the server that nobody waits for a call any more. Its answer makes the lane free.
    pub(super) fn send_cancel(&self, session: &Session, mailbox: &Mailbox, call: (u32, u64)) {
        // It has not left before whoever chose its lane has let go of this.
        let bytes = locked(&self.sending);
        if let Some(number) = mailbox.abandon(call) {
            let cancel = Header::bare(Kind::Cancel, session.bound.binding, mailbox.lane, number);
            if session.outgoing.post(&session.stream, &cancel.to_bytes()).is_err() {
                session.lose();
            }
        }
        drop(bytes);
    }

    /// The calls of connections that have been lost: those that may be sent again wait for another, the others end.
    pub(super) fn see_to_lost(&self) {
        // Until whoever sends has sent: what it has stamped counts as sent.
        let sending = locked(&self.sending);
        let mut state = self.state();
        let is_lost =
            |flight: &OutstandingCall| matches!(&flight.progress, Progress::Sent(on, _) if on.is_lost());
        let mut notices = Vec::new();
        for call in state.slots.open_where(is_lost) {
            let flight = state.slots.get_mut(call).expect("it is open");
            if let Progress::Sent(_, mailbox) = std::mem::replace(&mut flight.progress, Progress::Queued) {
                mailbox.forget();
            }
            flight.earlier.lose(UnknownCause::ConnectionLost);
            if flight.earlier.allows_another(self.is_idempotent(flight.procedure)) {
                let id = flight.id;
                state.queue.push_back((call, id));
            } else {
                let error = flight.earlier.lost(flight.waited());
                notices.push(state.slots.end(call, Err(error)));
            }
        }
        drop((state, sending));
        notices.into_iter().for_each(|notice| self.tell(notice));
    }
}

impl State {
    /// Whether there is a call that has not left. Forgets those that have been given up.
    pub(super) fn has_queued(&mut self) -> bool {
        while let Some(&(call, id)) = self.queue.front() {
            if self.slots.get_mut(call).is_some_and(|flight| flight.id == id) {
                return true;
            }
            self.queue.pop_front();
        }
        false
    }
}

fn header(
    session: &Session,
    flight: &OutstandingCall,
    mailbox: &Mailbox,
    number: CallNumber,
    left_ns: u64,
) -> Header {
    let bound = &session.bound;
    let mut header = Header::bare(Kind::Call, bound.binding, mailbox.lane, number);
    header.procedure = bound.procedures[usize::from(flight.procedure)];
    header.message_len = (flight.packet.len() - HEADER_LEN) as u32;
    header.time = left_of_nanos(left_ns);
    header
}
