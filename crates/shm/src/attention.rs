//! Whether the server looks for requests, or sleeps until its bell rings.
//!
//! A server that goes to sleep says so first and then looks once more; a caller publishes its request first and then looks
//! whether the server sleeps. Both write before they read, so at least one of them sees the other, and no request is overlooked.

use crate::Segment;
use crate::layout::ATTENTION;
use crate::sync::{Ordering, fence};

/// The value in new memory: so the first request rings the bell, whenever the server begins to look.
const ASLEEP: u32 = 0;
const LOOKS: u32 = 1;

/// The server looks from now on: no caller need ring.
pub fn look(segment: &Segment) {
    segment.half(ATTENTION).store(LOOKS, Ordering::Relaxed);
}

/// The server goes to sleep until its bell rings. It looks once more after this.
pub fn look_away(segment: &Segment) {
    segment.half(ATTENTION).store(ASLEEP, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// Whether the server sleeps, so that the caller must ring its bell for the request or chunk that it has just published.
/// [`Requests::publish`](crate::Requests::publish) and the channels end with the fence that this needs.
#[inline]
pub fn is_asleep(segment: &Segment) -> bool {
    segment.half(ATTENTION).load(Ordering::Relaxed) != LOOKS
}

/// The same, for requests that this thread has [posted](crate::Requests::post), or a thread whose writes it has seen.
#[inline]
pub fn is_asleep_after_all(segment: &Segment) -> bool {
    fence(Ordering::SeqCst);
    is_asleep(segment)
}
