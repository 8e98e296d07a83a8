//! The end of a pipe at which items are sent.

use crate::error::UnknownCause;
use crate::pipes::alarm::Alarm;
use crate::pipes::contract::{Close, SendingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::item::Item;
use crate::pipes::record::Record;
use crate::pipes::served::Served;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use stoop_marshal::{EncodeError, Form};
use stoop_net::{clock, fork};

/// Sends items through a pipe, in their order: to the procedure, if its caller has it, or to the caller.
///
/// An item waits for room while the reader has not taken what was sent before: at a caller at most as long as the call's timeout, at a
/// procedure as long as [`Limits::pipe_step`](crate::Limits::pipe_step) says. Then it is [`PipeError::NoRoom`]. Threads may share a sender.
///
/// # Ends
///
/// - A caller says by [`finish`](Self::finish) that all items have been sent. A sender that is *dropped* without it aborts the pipe, so that a
///   loop that ends early does not look like a whole upload: the procedure's receiver gives [`PipeError::Aborted`].
/// - A procedure's pipe ends with the answer of its call: whole if the procedure returns, aborted if it panics. A procedure may drop its
///   sender before.
///
/// # Older receivers
///
/// An item may have parts that the other end does not know yet (`docs/evolution.md`), and that cannot be left out: it is [`PipeError::Encode`]. At a caller the next item may still be sent. At a procedure it ends the call, because what the procedure has to say
/// cannot be told: its caller gets [`FailureCode::Inexpressible`](crate::FailureCode::Inexpressible).
pub struct Sender<T: Item + ?Sized> {
    end: Arc<dyn SendingEnd>,
    older: Option<Older>,
    /// Of a procedure.
    served: Option<Arc<Served>>,
    /// The process that has it, see [`fork::generation`].
    generation: u32,
    item: PhantomData<fn(&T)>,
}

/// What is different if the other end knows the items in an older form only.
pub(crate) struct Older {
    pub(crate) form: Form,
    /// Ends the call of a procedure's pipe with this error of an item.
    pub(crate) fail: Option<Box<dyn Fn(EncodeError) + Send + Sync>>,
}

impl<T: Item + ?Sized> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("over", &self.over()).finish_non_exhaustive()
    }
}

impl<T: Item + ?Sized> Sender<T> {
    pub(crate) fn new(end: Arc<dyn SendingEnd>, older: Option<Older>) -> Self {
        Self { end, older, served: None, generation: fork::generation(), item: PhantomData }
    }

    /// Of a procedure of that server.
    pub(super) fn of_server(mut self, served: Option<Arc<Served>>) -> Self {
        self.served = served;
        self
    }

    /// Sends an item. Waits for room, if there is none.
    ///
    /// # Errors
    /// It was not sent.
    pub fn send(&self, item: &T) -> Result<(), PipeError> {
        self.with_record(item, |record| match self.end.append_patiently(record)? {
            true => Ok(()),
            false => self.send_when_there_is_room(record),
        })
    }

    /// Sends an item if there is room for it. Returns whether there was.
    ///
    /// # Errors
    /// Nothing more can be sent, or not this item.
    pub fn try_send(&self, item: &T) -> Result<bool, PipeError> {
        self.with_record(item, |record| self.end.append(record))
    }

    /// Sends an item without ever waiting: if there is no room, it is kept until there is, in place of the item of the same `key` that is
    /// still kept. The receiver is told [how many](crate::Receiver::skipped) items were skipped so.
    ///
    /// # Errors
    /// As [`try_send`](Self::try_send).
    pub fn send_latest(&self, key: u64, item: &T) -> Result<(), PipeError> {
        self.with_record(item, |record| self.end.append_latest(key, record))
    }

    /// Sends all items of an iterator.
    ///
    /// # Errors
    /// As [`send`](Self::send); the items before have been sent.
    pub fn send_all<I: std::borrow::Borrow<T>>(
        &self,
        items: impl IntoIterator<Item = I>,
    ) -> Result<(), PipeError> {
        items.into_iter().try_for_each(|item| self.send(item.borrow()))
    }

    /// As [`send`](Self::send), for a task: the future waits for room without blocking its thread, and no longer.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_async(&self, item: &T) -> Result<(), PipeError> {
        let mut alarm = None;
        loop {
            let ready = |context: &mut Context<'_>| match self.poll_ready(context) {
                Poll::Ready(ready) => Poll::Ready(ready),
                Poll::Pending => alarm
                    .get_or_insert_with(|| Alarm::set(self.step_ns()))
                    .poll(context)
                    .map(|waited| Err(PipeError::NoRoom { waited })),
            };
            poll_fn(ready).await?;
            if self.try_send(item)? {
                return Ok(());
            }
        }
    }

    /// Waits in a task until there is room for an item.
    ///
    /// # Errors
    /// Nothing more can be sent.
    pub async fn ready(&self) -> Result<(), PipeError> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// As [`ready`](Self::ready), for futures written by hand.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        if !self.is_forked() && !self.end.has_room() {
            self.end.flush();
            if !self.end.poll_room(context.waker()) {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.over().map_or(Ok(()), Err))
    }

    /// Has the items that were sent leave now. They do so soon by themselves.
    pub fn flush(&self) {
        if !self.is_forked() {
            self.end.flush();
        }
    }

    /// All items have been sent: the other end receives them, and then the end.
    ///
    /// What becomes of them is told by the result of the call.
    pub fn finish(self) {
        self.close(Close::Whole);
    }

    /// Whether nothing more can be sent: the receiver has stopped, or the call has ended.
    pub fn is_stopped(&self) -> bool {
        self.over().is_some()
    }

    /// Of a procedure: whether its server shuts down. Its calls with pipes have five seconds to end then.
    pub fn is_closing(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.is_closing())
    }

    /// What the transport has given.
    pub(crate) fn end(&self) -> &dyn SendingEnd {
        &*self.end
    }

    /// No more items are sent; of no effect after the first time.
    pub(super) fn close(&self, how: Close) {
        if !self.is_forked() {
            self.end.close(how);
        }
    }

    fn over(&self) -> Option<PipeError> {
        match self.is_forked() {
            true => Some(PipeError::lost(UnknownCause::Forked)),
            false => self.end.over(),
        }
    }

    /// Whether this process was forked from the one that has it: it must not touch what belongs to that.
    fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    /// How long an item waits for room, in nanoseconds.
    fn step_ns(&self) -> u64 {
        self.served.as_ref().map_or_else(|| self.end.step_ns(), |served| served.step_ns())
    }

    fn with_record<R>(
        &self,
        item: &T,
        with: impl FnOnce(&Record<'_>) -> Result<R, PipeError>,
    ) -> Result<R, PipeError> {
        if self.is_forked() {
            return Err(PipeError::lost(UnknownCause::Forked));
        }
        let most = self.end.item_max();
        let form = self.older.as_ref().map(|older| older.form);
        match item.with_bytes(most, form, |bytes| with(&Record::of(bytes))) {
            Ok(done) => done,
            Err(EncodeError::TooLarge { .. }) => Err(PipeError::TooLarge { most }),
            Err(why) => Err(self.not_encoded(why)),
        }
    }

    #[cold]
    fn not_encoded(&self, why: EncodeError) -> PipeError {
        if let EncodeError::Inexpressible { .. } = why
            && let Some(Older { fail: Some(fail), .. }) = &self.older
        {
            fail(why);
        }
        PipeError::Encode(why)
    }

    #[cold]
    fn send_when_there_is_room(&self, record: &Record<'_>) -> Result<(), PipeError> {
        let begun_ns = clock::now_ns();
        let until_ns = begun_ns.saturating_add(self.step_ns());
        loop {
            self.end.wait_for_room(until_ns);
            if self.end.append_patiently(record)? {
                return Ok(());
            }
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Err(PipeError::NoRoom { waited: Duration::from_nanos(now_ns - begun_ns) });
            }
        }
    }
}

impl<T: Item + ?Sized> Drop for Sender<T> {
    fn drop(&mut self) {
        self.close(Close::Aborted);
    }
}
