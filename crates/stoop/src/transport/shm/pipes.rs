//! Pipes over shared memory: both programs use the rings of their call themselves, and threads of the transport only what is left over.
//!
//! A program's thread writes items into the ring, or takes them out, and sleeps in the kernel until the other end has moved on. The thread
//! that receives for the binding (a server's receiver, a caller's background thread) *attends* to an end for which no such thread waits: it
//! wakes a task, and writes bytes for which there was no room before.

pub(crate) mod callers;
pub(crate) mod reading;
pub(crate) mod side;
pub(crate) mod writing;
