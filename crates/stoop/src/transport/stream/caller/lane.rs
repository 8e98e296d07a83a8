//! A thread's lane: sends one call after another, and waits for the answer to each.

use crate::calling::fate::Ended;
use crate::calling::receive_role::Pause;
use crate::calling::recovery::{lacks_form, refused_in_advance};
use crate::calling::waiting_thread::WaitingThread;
use crate::error::{CallError, SendError};
use crate::transport::stream::caller::answer::Answer;
use crate::transport::stream::caller::mailbox::Mailbox;
use crate::transport::stream::caller::sending_half::Unsent;
use crate::transport::stream::caller::session::{Lost, Role, Session};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stoop_exchange::stream::{OutgoingMessage, Reassembler, StreamEvent};
use stoop_net::clock;
use stoop_net::waiting::{ActiveWaiters, OngoingWait, Waiter, Waiting};
use stoop_probe::{Point, stamp};
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, MAX_DATAGRAM, STREAM_FRAGMENT, left_of_nanos};

/// A lane with all that a call needs.
pub(crate) struct StreamLane {
    pub(crate) session: Arc<Session>,
    /// `None` until the server owes an answer less.
    mailbox: Option<Arc<Mailbox>>,
    pub(crate) call: Vec<u8>,
    /// Bytes of the last call's arguments.
    call_len: usize,
    result: Vec<u8>,
    /// Bytes of the result in it.
    pub(crate) result_len: usize,
    pub(crate) waiter: Waiter,
    /// When the last call that [notes its end](Self::exchange) had its result, in nanoseconds.
    pub(crate) ended_ns: Option<u64>,
    pub(crate) calls: u64,
    /// Calls whose answers another thread has received.
    pub(crate) followed: u64,
    /// Calls that took one send and one receive, by the calling thread itself.
    pub(crate) fast: u64,
}

/// How a wait for an answer ended.
enum Waited {
    Answered(Answer),
    Lost,
    Late,
}

/// Receives after the deadline, as long as something is there: no peer keeps a call from its end.
const LAST_LOOKS: u32 = 64;
/// A buffer beyond this is given back when it has become far too large.
const KEPT_MAX: usize = 4 << 20;
/// How often a thread looks for a free lane while the server owes answers on all.
const LANE_LOOKS: Duration = Duration::from_millis(1);

impl StreamLane {
    /// A lane of `session`.
    pub(crate) fn of(session: Arc<Session>, waiting: Waiting) -> Self {
        Self {
            mailbox: session.lane(),
            waiter: Waiter::new(waiting, session.placement),
            session,
            call: vec![0; MAX_DATAGRAM],
            call_len: 0,
            result: vec![0; Reassembler::BUFFER_LEN],
            result_len: 0,
            ended_ns: None,
            calls: 0,
            followed: 0,
            fast: 0,
        }
    }

    /// Goes over to another session.
    pub(crate) fn move_to(&mut self, session: Arc<Session>) {
        self.waiter.set_placement(session.placement);
        (self.mailbox, self.session) = (session.lane(), session);
    }

    /// The bytes of the result.
    pub(crate) fn received(&self) -> &[u8] {
        &self.result[HEADER_LEN..HEADER_LEN + self.result_len]
    }

    /// How long the call that has just ended with a result was at the server, in nanoseconds.
    #[inline]
    pub(crate) fn server_ns(&self) -> Option<u64> {
        Header::server_ns_of(&self.result)
    }

    #[inline]
    fn mailbox(&self) -> &Mailbox {
        self.mailbox.as_ref().expect("a call has a mailbox")
    }

    /// Makes one call: sends the message, and waits for the result. `NOTES_END`: the time of the result, which is read anyway, is kept for
    /// an account.
    #[inline]
    pub(crate) fn exchange<const NOTES_END: bool>(
        &mut self,
        begun_ns: u64,
        deadline_ns: u64,
        procedure: u16,
        len: usize,
    ) -> Result<(), Ended> {
        if !self.session.takes_calls(begun_ns) {
            return Err(self.not_taken());
        }
        let Some(procedure) = self.session.bound.known(procedure) else {
            return Err(Ended::With(lacks_form()));
        };
        if self.mailbox.is_none() {
            self.await_lane(deadline_ns)?;
        }
        self.call_len = len;
        let number = self.mailbox().expect();
        let bound = &self.session.bound;
        let mut header = Header::bare(Kind::Call, bound.binding, self.mailbox().lane, number);
        header.procedure = procedure;
        header.message_len = len as u32;
        header.time = left_of_nanos(deadline_ns.saturating_sub(begun_ns));
        let message = OutgoingMessage::new(header, &mut self.call);
        stamp(Point::CallLeaves);
        let sent = self.session.outgoing.send(&self.session.stream, &self.call, message, deadline_ns);
        stamp(Point::CallLeft);
        let at_once = match sent {
            Ok(at_once) => at_once,
            Err(unsent) => return Err(self.not_sent(unsent)),
        };
        self.calls += 1;
        let (waited, fast) = self.await_answer::<NOTES_END>(begun_ns, deadline_ns, number);
        match waited {
            Waited::Answered(Answer::Message(header)) if header.kind == Kind::Result => {
                self.result_len = header.message_len as usize;
                let is_short = len.max(self.result_len) <= STREAM_FRAGMENT;
                self.fast += u64::from(fast && at_once && is_short);
                Ok(())
            }
            other => Err(self.no_result(other)),
        }
    }

    /// The call cannot leave: the connection is lost, or the server has said that it shuts down.
    #[cold]
    fn not_taken(&self) -> Ended {
        match self.session.is_lost() {
            true => Ended::Lost { may_have_run: false },
            false => refused_in_advance(),
        }
    }

    /// The server owes answers on all lanes: waits until one has come.
    #[cold]
    fn await_lane(&mut self, deadline_ns: u64) -> Result<(), Ended> {
        loop {
            self.mailbox = self.session.lane();
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            match () {
                () if self.session.is_lost() => return Err(Ended::Lost { may_have_run: false }),
                () if self.mailbox.is_some() => return Ok(()),
                () if left_ns == 0 => {
                    return Err(Ended::With(CallError::not_sent(SendError::DeadlinePassed)));
                }
                () => thread::sleep(LANE_LOOKS.min(Duration::from_nanos(left_ns))),
            }
            self.session.receive_all();
        }
    }

    #[cold]
    fn not_sent(&mut self, unsent: Unsent) -> Ended {
        match unsent {
            Unsent::Lost => {
                self.session.lose();
                Ended::Lost { may_have_run: false }
            }
            Unsent::Late => {
                self.mailbox().clear();
                Ended::With(CallError::not_sent(SendError::DeadlinePassed))
            }
            Unsent::LateButOnItsWay => {
                self.calls += 1;
                let waited = self.abandon();
                self.no_result(waited)
            }
        }
    }

    #[cold]
    fn no_result(&mut self, waited: Waited) -> Ended {
        match waited {
            Waited::Answered(answer) => {
                let detail_len = match answer {
                    Answer::Message(header) => header.message_len as usize,
                    Answer::TooLong(_) | Answer::NoMemory(_) => 0,
                };
                Ended::With(answer.error(&self.result[HEADER_LEN..HEADER_LEN + detail_len]))
            }
            Waited::Lost => Ended::Lost { may_have_run: self.session.may_have_run_more() },
            Waited::Late => {
                // The answer on this lane is still to come.
                self.mailbox = self.session.lane();
                Ended::Late
            }
        }
    }

    /// Waits for the answer: receives, unless another thread does; then that thread delivers the answer. Returns also whether it came
    /// with the first message that this thread received.
    #[inline]
    fn await_answer<const NOTES_END: bool>(
        &mut self,
        begun_ns: u64,
        deadline_ns: u64,
        number: CallNumber,
    ) -> (Waited, bool) {
        let session = Arc::clone(&self.session);
        match session.role.try_take() {
            Some(role) => self.receive::<NOTES_END>(&session, role, begun_ns, deadline_ns, number),
            None => self.follow(&session, deadline_ns, number),
        }
    }

    /// Receives with the role until the answer is there.
    #[inline]
    fn receive<const NOTES_END: bool>(
        &mut self,
        session: &Session,
        mut role: Role<'_>,
        begun_ns: u64,
        deadline_ns: u64,
        number: CallNumber,
    ) -> (Waited, bool) {
        let mut wait = self.waiter.begin(begun_ns);
        let mut clock_ns = begun_ns;
        let mut receives = 0;
        // Looks since the deadline has passed.
        let mut late_looks = 0;
        // The thread that had the role before may have received the answer.
        let mut waited = self.mailbox().is_ready().then(|| self.collected()).flatten();
        while waited.is_none() {
            let sleeps = wait.sleeps() && late_looks == 0;
            let limit_ns = if sleeps { deadline_ns.saturating_sub(clock_ns).max(1) } else { 0 };
            let came = session.receive(&mut role, limit_ns);
            if matches!(came, Ok(true)) {
                stamp(Point::ResultSeen);
            }
            clock_ns = clock::now_ns();
            waited = match came {
                Ok(true) => {
                    session.heard(clock_ns);
                    receives += 1;
                    let own = self.deliver(session, &mut role, number);
                    if own.is_none() && role.has_part() {
                        self.waiter.part_arrived(&mut wait, clock_ns);
                    }
                    own
                }
                Ok(false) => None,
                Err(Lost) => Some(Waited::Lost),
            };
            if waited.is_some() {
                break;
            }
            if clock_ns < deadline_ns {
                self.waiter.go_on(&mut wait, clock_ns);
            } else {
                // A thread that was kept from running sees late what came in time: it looks until nothing is there.
                late_looks += 1;
                let is_over = late_looks > 1 && !matches!(came, Ok(true)) || late_looks > LAST_LOOKS;
                waited = is_over.then_some(Waited::Late);
            }
        }
        let waited = waited.expect("the loop ends with it");
        if let Waited::Answered(_) = waited {
            self.waiter.arrived(&wait, clock_ns);
            if NOTES_END {
                self.ended_ns = Some(clock_ns);
            }
        }
        // First: the thread that takes the role next may run at once, and has a processor to spin on.
        drop(wait);
        drop(role);
        match waited {
            Waited::Answered(_) => {}
            Waited::Lost => session.lose(),
            // Another thread may have received the answer since.
            Waited::Late => return (self.abandon(), false),
        }
        (waited, receives == 1)
    }

    /// Delivers everything that has been received; returns this lane's answer if it was there.
    #[inline]
    fn deliver(&mut self, session: &Session, role: &mut Role<'_>, number: CallNumber) -> Option<Waited> {
        let (lane, mut own) = (self.mailbox().lane, None);
        let delivered = session.deliver_but_own(role, |arrival| {
            let header = arrival.header();
            if header.lane != lane || header.number != number || own.is_some() {
                return Some(arrival);
            }
            own = Some(Waited::Answered(match arrival {
                StreamEvent::Message(message) => {
                    let header = message.header;
                    message.take(&mut self.result);
                    Answer::Message(header)
                }
                StreamEvent::NotTaken(header, why) => Answer::not_taken(&header, why),
                StreamEvent::Data(_) => unreachable!("data is no answer"),
            }));
            stamp(Point::ResultFound);
            None
        });
        own.or_else(|| delivered.is_err().then_some(Waited::Lost))
    }

    fn collected(&mut self) -> Option<Waited> {
        let mailbox = self.mailbox.as_ref().expect("a call has a mailbox");
        mailbox.collect(&mut self.result).map(Waited::Answered)
    }

    /// The deadline has passed; perhaps the answer came at the last moment.
    fn abandon(&mut self) -> Waited {
        let mailbox = self.mailbox.as_ref().expect("a call has a mailbox");
        mailbox.abandon(&mut self.result).map_or(Waited::Late, Waited::Answered)
    }

    /// Another thread receives. Waits until it has delivered the answer, or until the role is free. How long that takes says nothing
    /// of how soon this server answers, so that the lane's way of waiting does not learn it.
    #[cold]
    fn follow(&mut self, session: &Session, deadline_ns: u64, number: CallNumber) -> (Waited, bool) {
        let thread = WaitingThread::current();
        let mailbox = Arc::clone(self.mailbox.as_ref().expect("a call has a mailbox"));
        mailbox.attend(&thread);
        let is_over = || mailbox.is_ready() || session.is_lost();
        if let Some(role) = session.role.follow(&thread, is_over, self.pauses(deadline_ns)) {
            return self.receive::<false>(session, role, clock::now_ns(), deadline_ns, number);
        }
        if !is_over() {
            // The thread that receives may have been kept from running.
            session.receive_all();
        }
        self.followed += 1;
        let waited = match self.collected() {
            Some(answered) => answered,
            None if session.is_lost() => {
                // The thread that found that may not have read all that had arrived.
                session.may_have_run_more();
                self.collected().unwrap_or(Waited::Lost)
            }
            None => self.abandon(),
        };
        (waited, false)
    }

    /// How this thread pauses while another receives for it. It spins only where there is a processor for each thread that waits: the
    /// thread that receives may need this one. Asleep, it takes no processor from others, and is not counted among those that wait.
    fn pauses(&mut self, deadline_ns: u64) -> impl FnMut() -> Pause {
        let has_processor = ActiveWaiters::of_this_process().waiting() < self.session.placement.waiting_max;
        let mut wait = has_processor.then(|| self.waiter.begin(clock::now_ns()));
        move || {
            let clock_ns = clock::now_ns();
            if clock_ns >= deadline_ns {
                return Pause::End;
            }
            if let Some(wait) = &mut wait {
                self.waiter.go_on(wait, clock_ns);
            }
            if wait.as_ref().is_some_and(OngoingWait::spins) {
                return Pause::Spin;
            }
            drop(wait.take());
            Pause::Sleep(deadline_ns - clock_ns)
        }
    }

    /// Gives back memory that a far larger call than the last one has left.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.call.len() > KEPT_MAX && self.call_len < self.call.len() / 4 {
            self.call = vec![0; MAX_DATAGRAM];
        }
        if self.result.len() > KEPT_MAX && self.result_len < self.result.len() / 4 {
            self.result = vec![0; Reassembler::BUFFER_LEN];
        }
    }
}
