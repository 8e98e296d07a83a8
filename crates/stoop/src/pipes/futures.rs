//! The traits of `futures` for the ends of pipes.

use crate::pipes::contract::Close;
use crate::pipes::error::PipeError;
use crate::pipes::item::Item;
use crate::pipes::receiver::Receiver;
use crate::pipes::sender::Sender;
use futures_core::stream::{FusedStream, Stream};
use futures_sink::Sink;
use std::borrow::Borrow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// With the feature `futures`: gives what the [iterator](Receiver) gives.
impl<T: Item + ?Sized> Stream for Receiver<T> {
    type Item = Result<T::Owned, PipeError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let receiver = self.get_mut();
        match receiver.is_over() {
            true => Poll::Ready(None),
            false => receiver.poll_recv(context).map(Result::transpose),
        }
    }
}

impl<T: Item + ?Sized> FusedStream for Receiver<T> {
    fn is_terminated(&self) -> bool {
        self.is_over()
    }
}

/// With the feature `futures`. Closing it [finishes](Sender::finish) the pipe. It waits for room as long as the call lasts.
impl<T: Item + ?Sized, I: Borrow<T>> Sink<I> for Sender<T> {
    type Error = PipeError;

    fn poll_ready(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        Sender::poll_ready(&self, context)
    }

    fn start_send(self: Pin<&mut Self>, item: I) -> Result<(), PipeError> {
        // Nothing else can have used the room for which `poll_ready` has waited.
        match self.try_send(item.borrow())? {
            true => Ok(()),
            false => Err(PipeError::NoRoom { waited: Duration::ZERO }),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        self.flush();
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), PipeError>> {
        self.close(Close::Whole);
        Poll::Ready(Ok(()))
    }
}
