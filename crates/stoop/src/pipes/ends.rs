//! The ends of pipes whose bytes are in a [queue](super::queue), and of pipes whose call could not be begun.

use crate::pipes::contract::{Arrival, Close, Ends, ReceivingEnd, SendingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::helper::SendsPipes;
use crate::pipes::item::Item;
use crate::pipes::queue::{Appended, Awaited, PipeQueue};
use crate::pipes::receiver::Receiver;
use crate::pipes::record::Record;
use crate::pipes::sender::{Older, Sender};
use crate::pipes::served::Served;
use crate::pipes::waiters::Wakeup;
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::task::Waker;
use stoop_marshal::{EncodeError, Form};

/// Which of the ends of a call's pipes at one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Sending,
    Receiving,
}

/// Carries the bytes of a call's queues between this side and the other, or says there how much has been taken.
pub(crate) trait Carrier: Send + Sync + Sized + 'static {
    /// The queue of that end. `None`: the call has no such pipe.
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>>;

    /// Bytes were appended; so many are in the queue now. If others are to follow them, the helper [flushes](Self::flush) by `own`.
    fn appended(&self, bytes: usize, own: &Weak<QueueEnds<Self>>);

    /// More may be sent than before.
    fn granted(&self);

    /// The program has closed its sending end, or stopped its receiving end.
    fn ended(&self, side: Side);

    /// Bytes in the queue are to leave now.
    fn flush(&self);

    /// Waits until the queue has that, at most until that time; or less, without reason.
    fn wait(&self, queue: &Arc<PipeQueue>, awaited: Awaited, until_ns: u64) {
        queue.wait(awaited, until_ns);
    }

    /// A task waits for the queue.
    fn polled(&self, queue: &Arc<PipeQueue>) {
        let _ = queue;
    }

    /// How long the caller's program may wait for room, in nanoseconds. `None`: the program is a procedure. Its server knows how long, and
    /// the answer of its call closes the pipe.
    fn callers_step_ns(&self) -> Option<u64> {
        None
    }

    /// Bytes of the longest item.
    fn item_max(&self) -> usize;
}

/// The ends of a call's pipes at one side, whose bytes are in queues. Both ends are one object: a call that is quiet takes little memory.
pub(crate) struct QueueEnds<C> {
    carrier: C,
    own: Weak<Self>,
}

impl<C: Carrier> QueueEnds<C> {
    /// The ends for which there are queues.
    pub(crate) fn of(carrier: C) -> Ends {
        let both = Arc::new_cyclic(|own| Self { carrier, own: own.clone() });
        let has = |side| both.carrier.queue(side).map(|_| Arc::clone(&both));
        Ends {
            sending: has(Side::Sending).map(|end| end as _),
            receiving: has(Side::Receiving).map(|end| end as _),
        }
    }

    fn out(&self) -> &Arc<PipeQueue> {
        self.carrier.queue(Side::Sending).expect("a sending end has a queue")
    }

    fn into(&self) -> &Arc<PipeQueue> {
        self.carrier.queue(Side::Receiving).expect("a receiving end has a queue")
    }

    /// A record has found no room. The first has what gathers leave now.
    fn refused(&self, is_first: bool) {
        if is_first {
            self.carrier.flush();
        }
    }

    fn poll(&self, queue: &Arc<PipeQueue>, awaited: Awaited, waker: &Waker, is_own: bool) -> bool {
        let has = queue.poll(awaited, waker, is_own);
        if !has {
            self.carrier.polled(queue);
        }
        has
    }
}

impl<C: Carrier> SendsPipes for QueueEnds<C> {
    fn send_pipes(&self) {
        self.carrier.flush();
    }
}

impl<C: Carrier> SendingEnd for QueueEnds<C> {
    fn append(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        match self.out().append(record)? {
            Appended::Full { is_first } => {
                self.refused(is_first);
                Ok(false)
            }
            Appended::Queued(bytes) => {
                self.carrier.appended(bytes, &self.own);
                Ok(true)
            }
        }
    }

    fn append_latest(&self, key: u64, record: &Record<'_>) -> Result<(), PipeError> {
        match self.out().append_latest(key, record)? {
            Appended::Full { is_first } => self.refused(is_first),
            Appended::Queued(bytes) => self.carrier.appended(bytes, &self.own),
        }
        Ok(())
    }

    fn over(&self) -> Option<PipeError> {
        self.out().over()
    }

    fn has_room(&self) -> bool {
        self.out().has(Awaited::Room)
    }

    fn wait_for_room(&self, until_ns: u64) {
        self.carrier.flush();
        self.carrier.wait(self.out(), Awaited::Room, until_ns);
    }

    fn poll_room(&self, waker: &Waker) -> bool {
        self.poll(self.out(), Awaited::Room, waker, false)
    }

    fn flush(&self) {
        self.out().flush();
        self.carrier.flush();
    }

    fn grant(&self, limit: u64) {
        self.out().grant(limit).give();
    }

    fn close(&self, how: Close) {
        match self.carrier.callers_step_ns() {
            None => self.flush(),
            Some(_) => {
                if let Some(wakeups) = self.out().close(how) {
                    wakeups.into_iter().for_each(Wakeup::give);
                    self.carrier.ended(Side::Sending);
                }
            }
        }
    }

    fn step_ns(&self) -> u64 {
        self.carrier.callers_step_ns().unwrap_or(u64::MAX)
    }

    fn item_max(&self) -> usize {
        self.carrier.item_max()
    }
}

impl<C: Carrier> ReceivingEnd for QueueEnds<C> {
    fn has_arrived(&self) -> bool {
        self.into().has(Awaited::Bytes)
    }

    fn take(&self, into: &mut Vec<u8>) -> Result<Arrival, PipeError> {
        self.into().take(into)
    }

    fn taken(&self, up_to: u64, wanted: Option<u64>) -> u64 {
        let noted = self.into().note_taken(up_to, wanted);
        noted.wakeup.give();
        if noted.is_granted {
            self.carrier.granted();
        }
        noted.next
    }

    fn wait_for_bytes(&self, until_ns: u64) {
        self.carrier.wait(self.into(), Awaited::Bytes, until_ns);
    }

    fn poll_bytes(&self, waker: &Waker) -> bool {
        self.poll(self.into(), Awaited::Bytes, waker, false)
    }

    fn poll_bytes_at_once(&self, waker: &Waker) -> bool {
        self.poll(self.into(), Awaited::Bytes, waker, true)
    }

    fn rest(&self) {
        self.into().rest();
    }

    fn stop(&self) {
        self.into().stop(PipeError::Stopped).give();
        self.carrier.ended(Side::Receiving);
    }

    fn item_max(&self) -> usize {
        self.carrier.item_max()
    }
}

/// Both ends of the pipes of a call that could not be begun.
struct DeadEnd(PipeError);

impl SendingEnd for DeadEnd {
    fn append(&self, _: &Record<'_>) -> Result<bool, PipeError> {
        Err(self.0.clone())
    }

    fn append_latest(&self, _: u64, _: &Record<'_>) -> Result<(), PipeError> {
        Err(self.0.clone())
    }

    fn over(&self) -> Option<PipeError> {
        Some(self.0.clone())
    }

    fn has_room(&self) -> bool {
        true
    }

    fn wait_for_room(&self, _: u64) {}

    fn poll_room(&self, _: &Waker) -> bool {
        true
    }

    fn flush(&self) {}

    fn grant(&self, _: u64) {}

    fn close(&self, _: Close) {}

    fn step_ns(&self) -> u64 {
        0
    }

    fn item_max(&self) -> usize {
        u32::MAX as usize
    }
}

impl ReceivingEnd for DeadEnd {
    fn has_arrived(&self) -> bool {
        true
    }

    fn take(&self, _: &mut Vec<u8>) -> Result<Arrival, PipeError> {
        Err(self.0.clone())
    }

    fn taken(&self, up_to: u64, _: Option<u64>) -> u64 {
        up_to
    }

    fn wait_for_bytes(&self, _: u64) {}

    fn poll_bytes(&self, _: &Waker) -> bool {
        true
    }

    fn stop(&self) {}

    fn item_max(&self) -> usize {
        0
    }
}

impl Ends {
    /// Those of a call that could not be begun, or has ended, for this reason.
    pub(crate) fn dead(why: PipeError) -> Self {
        let end = Arc::new(DeadEnd(why));
        Self { sending: Some(Arc::clone(&end) as _), receiving: Some(end) }
    }

    /// In place of the end of a pipe whose program has learned that it has ended.
    pub(crate) fn left() -> Arc<dyn ReceivingEnd> {
        static LEFT: LazyLock<Arc<DeadEnd>> = LazyLock::new(|| Arc::new(DeadEnd(PipeError::Ended)));
        LEFT.clone()
    }
}

/// For stubs: the ends of a call's pipes at its caller, to be taken once each.
pub struct CallerEnds {
    ends: Ends,
    /// The older form of the items, if the other end knows only that.
    form: Option<Form>,
}

impl fmt::Debug for CallerEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerEnds").finish_non_exhaustive()
    }
}

impl CallerEnds {
    /// The ends, for bytes.
    pub(crate) fn into_ends(self) -> Ends {
        self.ends
    }

    pub(crate) fn new(ends: Ends) -> Self {
        Self { ends, form: None }
    }

    /// The same, of pipes whose items have an older form.
    #[must_use]
    pub fn in_form(self, form: Form) -> Self {
        Self { form: Some(form), ..self }
    }

    /// The sender of the pipe to the procedure.
    pub fn sender<T: Item + ?Sized>(&mut self) -> Sender<T> {
        let end = self.ends.sending.take().expect("a call with that pipe has its end");
        Sender::new(end, self.form.map(|form| Older { form, fail: None }))
    }

    /// The receiver of the pipe from the procedure.
    pub fn receiver<T: Item + ?Sized>(&mut self) -> Receiver<T> {
        let end = self.ends.receiving.take().expect("a call with that pipe has its end");
        Receiver::new(end, self.form)
    }
}

/// The ends of a call's pipes at its procedure, to be taken once each: for stubs, and for [exports by bytes](crate::dynamic::Exported).
pub struct ServedEnds {
    ends: Ends,
    /// The older form of the items, if the other end knows only that.
    form: Option<Form>,
    fail: Box<dyn Fn(EncodeError) + Send + Sync>,
    served: Option<Arc<Served>>,
}

impl fmt::Debug for ServedEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedEnds").finish_non_exhaustive()
    }
}

impl ServedEnds {
    /// `fail` ends the call with this error of an item.
    pub(crate) fn new(
        ends: Ends,
        served: Option<Arc<Served>>,
        fail: Box<dyn Fn(EncodeError) + Send + Sync>,
    ) -> Self {
        Self { ends, form: None, fail, served }
    }

    /// The same, of pipes whose items have an older form.
    #[must_use]
    pub fn in_form(self, form: Form) -> Self {
        Self { form: Some(form), ..self }
    }

    /// The sender of the pipe from the procedure, whose caller has granted so many bytes.
    ///
    /// # Panics
    /// The procedure has no such pipe, or the end was taken.
    pub fn sender<T: Item + ?Sized>(&mut self, window: u64) -> Sender<T> {
        let end = self.ends.sending.take().expect("a call with that pipe has its end");
        end.grant(window);
        let fail = std::mem::replace(&mut self.fail, Box::new(|_| ()));
        let older = self.form.map(|form| Older { form, fail: Some(fail) });
        Sender::new(end, older).of_server(self.served.clone())
    }

    /// The receiver of the pipe to the procedure.
    ///
    /// # Panics
    /// The procedure has no such pipe, or the end was taken.
    pub fn receiver<T: Item + ?Sized>(&mut self) -> Receiver<T> {
        let end = self.ends.receiving.take().expect("a call with that pipe has its end");
        Receiver::new(end, self.form).of_server(self.served.clone())
    }
}
