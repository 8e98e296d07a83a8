//! One thread that sends items through one pipe and receives those of another meanwhile.

use crate::pipes::error::PipeError;
use crate::pipes::item::Item;
use crate::pipes::receiver::{Next, Receiver};
use crate::pipes::sender::Sender;
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_net::clock;

/// Gives the items of a receiver, and sends others meanwhile: see [`Receiver::fed_by`].
pub struct Fed<T: Item + ?Sized, U: Item + ?Sized, I: Iterator> {
    receiver: Receiver<T>,
    /// `None`: all items have been sent, or the other end wants no more.
    sender: Option<Sender<U>>,
    items: I,
    /// An item for which there was no room.
    waiting: Option<I::Item>,
    is_over: bool,
}

impl<T: Item + ?Sized> Receiver<T> {
    /// Sends the items of `items` by `sender` while there is room, finishes it, and gives the items that this receives meanwhile: in one
    /// thread, which cannot wait for itself.
    pub fn fed_by<U, I>(self, sender: Sender<U>, items: I) -> Fed<T, U, I::IntoIter>
    where
        U: Item + ?Sized,
        I: IntoIterator,
        I::Item: Borrow<U>,
    {
        Fed { receiver: self, sender: Some(sender), items: items.into_iter(), waiting: None, is_over: false }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T: Item + ?Sized, U: Item + ?Sized, I: Iterator> fmt::Debug for Fed<T, U, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fed").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

impl<T: Item + ?Sized, U: Item + ?Sized, I: Iterator> Fed<T, U, I>
where
    I::Item: Borrow<U>,
{
    /// Sends while there is room.
    fn feed(&mut self) -> Result<(), PipeError> {
        while let Some(sender) = &self.sender {
            let Some(item) = self.waiting.take().or_else(|| self.items.next()) else {
                if let Some(sender) = self.sender.take() {
                    sender.finish();
                }
                break;
            };
            match sender.try_send(item.borrow()) {
                Ok(true) => {}
                Ok(false) => {
                    self.waiting = Some(item);
                    break;
                }
                // What the procedure still sends is received; the result of the call says the rest.
                Err(PipeError::Ended | PipeError::Stopped) => self.sender = None,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<T::Owned>, PipeError> {
        let begun_ns = clock::now_ns();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            self.feed()?;
            match self.receiver.look()? {
                Next::Item(range) => return self.receiver.read(range).map(Some),
                Next::End => return Ok(None),
                Next::Nothing => {}
            }
            let Some(sender) = &self.sender else {
                self.receiver.end().wait_for_bytes(u64::MAX);
                continue;
            };
            sender.flush();
            if self.receiver.end().poll_bytes(&waker) || sender.end().poll_room(&waker) {
                continue;
            }
            let waited = Duration::from_nanos(clock::now_ns().saturating_sub(begun_ns));
            let step = Duration::from_nanos(sender.end().step_ns());
            match step.checked_sub(waited).filter(|left| !left.is_zero()) {
                Some(left) => thread::park_timeout(left),
                None => return Err(PipeError::NoRoom { waited }),
            }
        }
    }
}

impl<T: Item + ?Sized, U: Item + ?Sized, I: Iterator> Iterator for Fed<T, U, I>
where
    I::Item: Borrow<U>,
{
    type Item = Result<T::Owned, PipeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.step().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
