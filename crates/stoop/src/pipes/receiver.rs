//! The end of a pipe at which items are received.

use crate::error::UnknownCause;
use crate::pipes::contract::{Arrival, Ends, ReceivingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::item::{InPlaceItem, Item};
use crate::pipes::record::{HEAD, Head};
use crate::pipes::served::Served;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use stoop_marshal::{DecodeError, Form};
use stoop_net::{clock, fork};

/// Receives the items of a pipe, in the order in which they were sent: from the procedure, if its caller has it, or from the caller.
///
/// As an iterator it gives the items, and ends with the pipe or with the first error. A pipe that was cut short never looks like one that
/// has ended: the iterator's last item is an error then.
///
/// Waiting for an item has no deadline, because a quiet pipe is no error; a server or connection that is lost is one
/// ([`PipeError::Lost`]). *Dropping* a receiver stops its pipe: the sender learns it by [`PipeError::Stopped`], and the call goes on.
pub struct Receiver<T: Item + ?Sized> {
    end: Arc<dyn ReceivingEnd>,
    /// Bytes that were taken from the end, and the offset in them of the next record.
    bytes: Vec<u8>,
    at: usize,
    /// They were taken for the last item that was received.
    are_fresh: bool,
    /// The offset of that record in the pipe, and the one from which on the sender is told.
    taken: u64,
    tell: u64,
    skipped: u64,
    over: Option<Over>,
    /// The older form of the items, if the other end knows only that.
    form: Option<Form>,
    /// Of a procedure.
    served: Option<Arc<Served>>,
    /// The process that has it, see [`fork::generation`].
    generation: u32,
    item: PhantomData<fn() -> Box<T>>,
}

/// How the pipe has ended for the program.
#[derive(Clone, Debug)]
enum Over {
    End,
    Error(Box<PipeError>),
}

/// What a look for the next item has found.
pub(crate) enum Next {
    /// An item, which lies there in the bytes.
    Item(Range<usize>),
    End,
    Nothing,
}

/// Bytes of an empty buffer that is kept while nothing comes: for items of 64 KiB. A thread that waits keeps larger ones for this long.
const KEPT_MAX: usize = 128 * 1024;
const KEPT_NS: u64 = 20_000_000;

impl<T: Item + ?Sized> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("over", &self.over).finish_non_exhaustive()
    }
}

impl<T: Item + ?Sized> Receiver<T> {
    pub(crate) fn new(end: Arc<dyn ReceivingEnd>, form: Option<Form>) -> Self {
        let (bytes, at, are_fresh, taken, tell, skipped) = (Vec::new(), 0, false, 0, 1, 0);
        let (served, generation) = (None, fork::generation());
        let over = None;
        Self {
            end,
            bytes,
            at,
            are_fresh,
            taken,
            tell,
            skipped,
            over,
            form,
            served,
            generation,
            item: PhantomData,
        }
    }

    /// Of a procedure of that server.
    pub(super) fn of_server(mut self, served: Option<Arc<Served>>) -> Self {
        self.served = served;
        self
    }

    /// Waits for the next item. `None`: the pipe has ended, and all its items have been received.
    ///
    /// # Errors
    /// The pipe has ended before its end. Items that were received before are valid.
    pub fn recv(&mut self) -> Result<Option<T::Owned>, PipeError> {
        let range = self.wait()?;
        range.map(|range| self.read(range)).transpose()
    }

    /// As [`recv`](Self::recv), but waits at most for so long.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    #[inline(never)]
    pub fn recv_timeout(&mut self, limit: Duration) -> Result<Received<T::Owned>, PipeError> {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = clock::now_ns().saturating_add(nanos);
        Ok(match self.wait_until(until_ns)? {
            Next::Item(range) => Received::Item(self.read(range)?),
            Next::End => Received::End,
            Next::Nothing => Received::Nothing,
        })
    }

    /// As [`recv`](Self::recv); passes the item to `with` where it lies, and returns what that gives.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_with<R>(&mut self, with: impl FnOnce(&T) -> R) -> Result<Option<R>, PipeError>
    where
        T: InPlaceItem,
    {
        let Some(range) = self.wait()? else { return Ok(None) };
        let viewed = T::view(&self.bytes[range], with);
        viewed.map(Some).map_err(|why| self.fail(PipeError::Peer(why)))
    }

    /// As [`recv_with`](Self::recv_with), without waiting.
    pub(crate) fn look_with<R>(&mut self, with: impl FnOnce(&T) -> R) -> Result<Received<R>, PipeError>
    where
        T: InPlaceItem,
    {
        Ok(match self.look()? {
            Next::Item(range) => {
                let viewed = T::view(&self.bytes[range], with);
                Received::Item(viewed.map_err(|why| self.fail(PipeError::Peer(why)))?)
            }
            Next::End => Received::End,
            Next::Nothing => Received::Nothing,
        })
    }

    /// Shows the items that have arrived and are to be received later, those from that offset of the pipe on. Returns the offset behind
    /// them.
    pub(crate) fn look_ahead(&mut self, from: u64, mut see: impl FnMut(&T)) -> u64
    where
        T: InPlaceItem,
    {
        if self.over.is_none() && !self.is_forked() && !self.are_fresh && self.end.has_arrived() {
            if self.at >= self.bytes.len() / 2 {
                self.bytes.drain(..self.at);
                self.at = 0;
            }
            // What ends the pipe is found when it is received.
            let _ = self.end.take(&mut self.bytes);
        }
        let mut offset = from.max(self.taken);
        let mut rest = self.bytes.get(self.at + (offset - self.taken) as usize..).unwrap_or_default();
        while let Ok(Some(head)) = Head::of(rest, self.end.item_max())
            && let Some((record, behind)) = rest.split_at_checked(head.record_len())
        {
            let _ = T::view(&record[HEAD..HEAD + head.item], &mut see);
            (rest, offset) = (behind, offset + record.len() as u64);
        }
        offset
    }

    /// As [`recv`](Self::recv), for a task.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn next(&mut self) -> Result<Option<T::Owned>, PipeError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// As [`next`](Self::next), for futures written by hand.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<T::Owned>, PipeError>> {
        loop {
            match self.look() {
                Err(why) => return Poll::Ready(Err(why)),
                Ok(Next::Item(range)) => return Poll::Ready(self.read(range).map(Some)),
                Ok(Next::End) => return Poll::Ready(Ok(None)),
                Ok(Next::Nothing) if self.end.poll_bytes(context.waker()) => {}
                Ok(Next::Nothing) => {
                    self.rest();
                    return Poll::Pending;
                }
            }
        }
    }

    /// How many items the sender has skipped by [`send_latest`](crate::Sender::send_latest), before the last item that was received.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Of a procedure: whether its server shuts down. Its calls with pipes have five seconds to end then.
    pub fn is_closing(&self) -> bool {
        self.served.as_ref().is_some_and(|served| served.is_closing())
    }

    /// Wants no more items, as if it was dropped.
    pub fn stop(self) {}

    /// Whether bytes were taken from the end that no item has had.
    pub(crate) fn has_more(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// What the transport has given.
    pub(crate) fn end(&self) -> &dyn ReceivingEnd {
        &*self.end
    }

    /// Whether the program has learned that nothing more comes.
    #[cfg(feature = "futures")]
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    pub(crate) fn read(&mut self, range: Range<usize>) -> Result<T::Owned, PipeError> {
        T::read(&self.bytes[range], self.form).map_err(|why| self.fail(PipeError::Peer(why)))
    }

    fn wait(&mut self) -> Result<Option<Range<usize>>, PipeError> {
        loop {
            match self.wait_until(u64::MAX)? {
                Next::Item(range) => return Ok(Some(range)),
                Next::End => return Ok(None),
                Next::Nothing => {}
            }
        }
    }

    fn wait_until(&mut self, until_ns: u64) -> Result<Next, PipeError> {
        let mut quiet_ns = u64::MAX;
        loop {
            let next = self.look()?;
            let Next::Nothing = next else { return Ok(next) };
            if until_ns == u64::MAX && !self.is_to_rest() {
                self.end.wait_for_bytes(until_ns);
                continue;
            }
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Ok(next);
            }
            if now_ns >= quiet_ns {
                self.rest();
            }
            quiet_ns = quiet_ns.min(now_ns + KEPT_NS);
            let until_ns = if self.is_to_rest() { until_ns.min(quiet_ns) } else { until_ns };
            self.end.wait_for_bytes(until_ns);
        }
    }

    /// Gives back the memory of many items.
    fn rest(&mut self) {
        if self.is_to_rest() {
            self.bytes = Vec::new();
            self.end.rest();
        }
    }

    fn is_to_rest(&self) -> bool {
        self.bytes.is_empty() && self.bytes.capacity() > KEPT_MAX
    }

    /// Looks for the next item, and takes it if it is there.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<Next, PipeError> {
        if self.is_forked() {
            return Err(self.fail(PipeError::lost(UnknownCause::Forked)));
        }
        self.are_fresh = false;
        loop {
            let unread = &self.bytes[self.at..];
            let head = match Head::of(unread, self.end.item_max()) {
                Ok(head) => head,
                Err(why) => return Err(self.fail(PipeError::Peer(why))),
            };
            if let Some(head) = head.filter(|head| head.record_len() <= unread.len()) {
                let begin = self.at + HEAD;
                self.at += head.record_len();
                self.taken += head.record_len() as u64;
                self.skipped += u64::from(head.skipped);
                if self.taken >= self.tell {
                    self.tell = self.end.taken(self.taken, None);
                }
                return Ok(Next::Item(begin..begin + head.item));
            }
            let wanted = head.map(|head| self.taken + head.record_len() as u64);
            if let Some(next) = self.take_more(wanted)? {
                return Ok(next);
            }
        }
    }

    /// No whole record is there. Takes the bytes that have arrived; `None` if there are some.
    fn take_more(&mut self, wanted: Option<u64>) -> Result<Option<Next>, PipeError> {
        match &self.over {
            None => {}
            Some(Over::End) => return Ok(Some(Next::End)),
            Some(Over::Error(why)) => return Err(PipeError::clone(why)),
        }
        self.bytes.drain(..self.at);
        self.at = 0;
        match self.end.take(&mut self.bytes) {
            Ok(Arrival::Bytes) => {
                self.are_fresh = true;
                Ok(None)
            }
            Ok(Arrival::Nothing) => {
                self.tell = self.end.taken(self.taken, wanted);
                Ok(Some(Next::Nothing))
            }
            Ok(Arrival::End) if self.bytes.is_empty() => {
                self.over = Some(Over::End);
                self.end = Ends::left();
                Ok(Some(Next::End))
            }
            Ok(Arrival::End) => Err(self.fail(PipeError::Peer(DecodeError::Truncated))),
            Err(why) => Err(self.fail(why)),
        }
    }

    /// Whether this process was forked from the one that has it: it must not touch what belongs to that.
    #[inline]
    fn is_forked(&self) -> bool {
        self.generation != fork::generation()
    }

    fn fail(&mut self, why: PipeError) -> PipeError {
        self.bytes = Vec::new();
        self.at = 0;
        self.over = Some(Over::Error(Box::new(why.clone())));
        if matches!(why, PipeError::Peer(_)) {
            self.end.stop();
        }
        if !self.is_forked() {
            self.end = Ends::left();
        }
        why
    }
}

/// What a wait of [limited time](Receiver::recv_timeout) has given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// An item.
    Item(T),
    /// The pipe has ended, and all its items have been received.
    End,
    /// No item has come in time.
    Nothing,
}

impl<T: Item + ?Sized> Iterator for Receiver<T> {
    type Item = Result<T::Owned, PipeError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.over {
            Some(_) => None,
            None => self.recv().transpose(),
        }
    }
}

impl<T: Item + ?Sized> std::iter::FusedIterator for Receiver<T> {}

impl<T: Item + ?Sized> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.over.is_none() && !self.is_forked() {
            self.end.stop();
        }
    }
}
