//! A blocking callback. Its thread receives the answer itself, if no other thread does: no table has the call then, and no other thread
//! takes part at the server.

use crate::callbacks::session::{Session, find};
use crate::calling::call_table::Outcome;
use crate::calling::message::Message;
use crate::context::{begun_latest_ns, bounded_deadline};
use crate::error::{CallError, UnknownCause};
use crate::pipes::helper;
use crate::pipes::record::Record;
use crate::transport::callback::handle::{ARGUMENTS, Handle, HandleEnds, Here, IfFull, number};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_calls::callbacks::record::{CALL_HEAD, CallHead, CallKind};
use stoop_exchange::Instant;
use stoop_net::clock;

/// The callback of the thread that receives, which is not in the table.
pub(super) struct Own {
    pub(super) number: u64,
    pub(super) outcome: Option<Outcome>,
}

/// The place of such a call in its number; no call in the table has it.
const NOWHERE: u32 = u32::MAX;

impl Handle {
    /// Makes a callback of `procedure` with `len` bytes of arguments, and leaves its result in `message`.
    pub(super) fn call(
        &self,
        message: &mut Message,
        (procedure, len): (u16, usize),
        timeout_ns: u64,
    ) -> Result<(), CallError> {
        let now_ns = begun_latest_ns(timeout_ns);
        let deadline_ns = bounded_deadline(now_ns, timeout_ns);
        if deadline_ns > now_ns
            && let Some(agreed) = self.agreed_number(procedure)
            && let Some((here, session)) = self.session_here()
        {
            let (sent, arguments) = (self.sent(), ARGUMENTS..ARGUMENTS + len);
            if let Some(ended) = session.run_here(sent, message, (agreed, arguments), deadline_ns) {
                here.run.fetch_add(1, Ordering::Relaxed);
                return ended;
            }
        }
        let times = (Instant::from_nanos(now_ns), Instant::from_nanos(deadline_ns));
        if let Some(ended) = self.call_alone(message, (procedure, len), times) {
            return ended;
        }
        let call = self.begin_call(&mut message.arguments, len, procedure, times, IfFull::Wait)?;
        while self.wait_for(&[call], Instant::NEVER).is_none() {}
        let result = self.table().take(call)?;
        message.set_result(result);
        Ok(())
    }

    /// Makes a callback whose answer this thread receives. `None`: it has not been sent, because another thread receives, there is no room
    /// at once, or it cannot be made.
    fn call_alone(
        &self,
        message: &mut Message,
        (procedure, len): (u16, usize),
        (begun, deadline): (Instant, Instant),
    ) -> Option<Result<(), CallError>> {
        let is_ended = self.is_over.load(Ordering::SeqCst) || self.is_full.load(Ordering::Relaxed);
        if is_ended || deadline <= begun || self.is_one_way(procedure) {
            return None;
        }
        let procedure = self.agreed_number(procedure)?;
        let mut ends = self.role.try_take()?;
        let id = self.last_id.fetch_add(1, Ordering::SeqCst) as u32;
        let (number, left_ns) = (number(NOWHERE, id), deadline.as_nanos() - begun.as_nanos());
        let head = CallHead { number, kind: CallKind::Call, procedure, left_ns };
        let outcome = self.send_alone(&mut ends, message, (head, len)).then(|| {
            let own = Own { number, outcome: None };
            self.receive_alone(&mut ends, own, (begun, deadline))
        });
        drop(ends);
        // Other threads could not receive meanwhile.
        if self.is_over.load(Ordering::SeqCst) || self.missed.load(Ordering::SeqCst) {
            self.receive_in_background();
        }
        Some(outcome?.map(|result| message.set_result(result)))
    }

    fn send_alone(
        &self,
        ends: &mut HandleEnds,
        message: &mut Message,
        (head, len): (CallHead, usize),
    ) -> bool {
        let arguments = &mut message.arguments;
        // Without arguments it may be empty.
        arguments.resize(arguments.len().max(ARGUMENTS + len), 0);
        let record = &mut arguments[ARGUMENTS - CALL_HEAD..ARGUMENTS + len];
        record[..CALL_HEAD].copy_from_slice(&head.to_bytes());
        let has_left = record.len() <= self.item_max as usize
            && ends.sending.append(&Record::of(record)).is_ok_and(|is_appended| is_appended);
        if has_left {
            self.note_taking();
        } else {
            self.not_sent.fetch_add(1, Ordering::SeqCst);
        }
        has_left
    }

    fn receive_alone(
        &self,
        ends: &mut HandleEnds,
        mut own: Own,
        (begun, deadline): (Instant, Instant),
    ) -> Outcome {
        let (receiver, mut wakers) = (&mut ends.receiver, Vec::new());
        let unknown = |cause| {
            let waited = Instant::from_nanos(clock::now_ns()).since(begun);
            Err(CallError::Unknown { transmissions: 1, waited, cause, callee: None })
        };
        loop {
            // No answer lies there: the thread that had the role before took all that had come.
            receiver.end().wait_for_bytes(deadline.as_nanos());
            let goes_on = self.take_answers(receiver, &mut wakers, Some(&mut own));
            // Their tasks may want to receive.
            helper::wake_all(mem::take(&mut wakers));
            if let Some(outcome) = own.outcome.take() {
                return outcome;
            }
            if !goes_on {
                return unknown(UnknownCause::ConnectionLost);
            }
            if clock::now_ns() >= deadline.as_nanos() {
                self.send_cancel(own.number);
                return unknown(UnknownCause::DeadlinePassed);
            }
        }
    }

    /// The session of the client, if it is in this process and bound within it.
    fn session_here(&self) -> Option<(&Here, Arc<Session>)> {
        let here = self.here.as_deref().filter(|_| !self.is_over.load(Ordering::SeqCst))?;
        let session = match here.session.get() {
            Some(session) => session.upgrade()?,
            None => {
                let session = find(here.object)?;
                // Another thread may have found it.
                let _ = here.session.set(Arc::downgrade(&session));
                session
            }
        };
        Some((here, session))
    }
}
