//! Memory that one caller's process and one server's process share: calls and answers at the speed of a cache line.
//!
//! The other process may write anything there, at any time. So nothing in it is ever borrowed: words are read and written
//! as atomics, each once, bytes are copied in and out, and what has been copied is what is checked. Nothing that the peer
//! writes can make this crate touch memory outside the segment.
//!
//! - [`Segment`] is the memory, and [`layout`] says what lies where.
//! - [`Requests`] is the ring by which a process sends calls to its server: one cache line for a small call.
//! - [`Answers`] has a line for each lane, in which its answer appears, and on which its caller sleeps.
//! - [`Filling`] and [`Emptying`] are the two ends of a message that is longer than a slot: a ring of chunks.
//! - [`pipe`] has the two ends of a pipe: a ring of bytes.
//! - [`Sending`] is the caller's look at a call with such arguments.
//! - [`Arena`] is memory behind all that, and [`InPlace`] a buffer in it that both processes use where it lies.
//! - [`attention`] tells whether the server looks, so that it is woken only if it sleeps.
//! - [`listening`] tells whether threads of the caller sleep until there is any answer.
//! - [`clock`] tells how far the clocks of the two ends are apart.
//! - [`descriptors`] hands the memory over when two processes bind.
//!
//! How long threads wait, and what a call means, is not known here.

#![deny(unsafe_code)]

mod answers;
#[cfg(not(all(test, loom)))]
mod arena;
pub mod attention;
#[cfg(not(all(test, loom)))]
mod bytes;
mod channel;
#[cfg(not(all(test, loom)))]
pub mod clock;
mod count;
pub mod descriptors;
#[cfg(not(all(test, loom)))]
mod futex;
#[cfg(all(test, not(loom)))]
mod garbage;
#[cfg(not(all(test, loom)))]
mod in_place;
pub mod layout;
#[cfg(not(all(test, loom)))]
pub mod listening;
#[cfg(all(test, loom))]
mod model;
#[cfg(not(all(test, loom)))]
mod number;
pub mod pipe;
mod requests;
#[cfg(not(all(test, loom)))]
mod segment;
mod sending;
mod sync;

pub use answers::{Answer, AnswerKind, Answers, WordResult};
#[cfg(not(all(test, loom)))]
pub use arena::{Arena, Full, Range};
pub use channel::{Arrived, Chunk, Disorder, Emptying, Filling, Way};
#[cfg(not(all(test, loom)))]
pub use in_place::InPlace;
#[cfg(all(test, loom))]
pub use model::Segment;
#[cfg(not(all(test, loom)))]
pub use number::Number;
pub use requests::{Request, RequestKind, Requests, Took};
#[cfg(not(all(test, loom)))]
pub use segment::Segment;
pub use sending::{Progress, Sending};
