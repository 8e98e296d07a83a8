//! Pipes: streams of items that are arguments of a call. A procedure sends by a [`Sender`](crate::Sender) or receives by a
//! [`Receiver`](crate::Receiver), and its caller has the other end.
//!
//! A pipe is a sequence of bytes with absolute offsets, in which items are [records](record). It belongs to one call: it begins with the
//! call and ends with it at the latest. The [`contract`] says what a transport gives, and is the seam between the ends that programs hold
//! and the transports; the [`queue`] is memory for the bytes of one pipe, for transports that have none of their own.

mod alarm;
pub(crate) mod contract;
pub(crate) mod ends;
pub(crate) mod error;
pub(crate) mod fed;
#[cfg(feature = "futures")]
mod futures;
pub(crate) mod helper;
pub(crate) mod item;
pub(crate) mod queue;
pub(crate) mod receiver;
pub(crate) mod record;
pub(crate) mod sender;
pub(crate) mod served;
pub(crate) mod waiters;
pub(crate) mod window;
