//! Handles of calls in flight.

use crate::client::Carrier;
use crate::error::{CallError, UnknownCause};
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::fork;

/// A call in flight: begun by `client.begin()`, and ended when its result is taken here.
///
/// ```
/// # #[stoop::interface]
/// # pub trait Adder { fn add(&self, a: i32, b: i32) -> i32; }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: i32, b: i32) -> i32 { a + b } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let client = AdderClient::bind(&server.uris()[0])?;
/// let calls = client.begin();
/// let pending: Vec<_> = (0..100).map(|n| calls.add(n, 1)).collect();
/// drop(calls); // they leave together
///
/// for (n, sum) in (0..100).zip(stoop::wait_all(pending)) {
///     assert_eq!(sum?, n + 1);
/// }
/// # Ok(())
/// # }
/// ```
///
/// It gives what the blocking method returns. It can be waited for by any thread, or awaited as a future on any
/// runtime. The call goes on whether anybody waits or not, and ends by its deadline, which counts from when the first
/// of those was begun that leave together.
///
/// *Dropping* the handle gives the call up: the server is told, and the result is not kept. The procedure may still
/// run. [`detach`](Self::detach) lets the call go on instead. A handle that is forgotten ([`std::mem::forget`]) keeps
/// its place in the binding, and the binding alive, for good; nothing dangles.
///
/// The handle keeps the binding: the client may be dropped before.
#[must_use = "dropping it gives the call up; wait for it, or detach it"]
pub struct Pending<R> {
    state: State<R>,
}

enum State<R> {
    InFlight {
        carrier: Arc<dyn Carrier>,
        call: u32,
        /// The process that has begun it, see [`fork::generation`].
        generation: u32,
        decode: Decode<R>,
    },
    Ready(R),
    /// The future has given its result.
    Taken,
}

/// How a call ended: its result, or why there is none.
pub(crate) type Outcome<'a> = Result<Reader<'a>, CallError>;

/// What makes a handle's value of the outcome of its call.
pub(crate) enum Decode<R> {
    /// For nearly all procedures.
    Plain(fn(Outcome<'_>) -> R),
    /// For those whose results have lengths that only the caller knows.
    With(Box<dyn FnMut(Outcome<'_>) -> R + Send>),
}

impl<R> Decode<R> {
    #[inline]
    pub(crate) fn apply(&mut self, outcome: Outcome<'_>) -> R {
        match self {
            Self::Plain(decode) => decode(outcome),
            Self::With(decode) => decode(outcome),
        }
    }
}

// Nothing in it is pinned: the result is moved out when it is there.
impl<R> Unpin for Pending<R> {}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::InFlight { .. } => "Pending(in flight)",
            State::Ready(_) => "Pending(ready)",
            State::Taken => "Pending(taken)",
        })
    }
}

impl<R> Pending<R> {
    #[inline]
    pub(crate) fn in_flight(
        carrier: Arc<dyn Carrier>,
        call: u32,
        generation: u32,
        decode: Decode<R>,
    ) -> Self {
        Self { state: State::InFlight { carrier, call, generation, decode } }
    }

    /// Of a call that has ended before it was begun.
    pub(crate) fn ready(value: R) -> Self {
        Self { state: State::Ready(value) }
    }

    /// Waits for the end of the call, its deadline at the latest, and gives its result.
    ///
    /// # Panics
    /// When it has been awaited as a future, which has given the result.
    #[inline]
    pub fn wait(mut self) -> R {
        loop {
            if let Some(value) = self.take() {
                return value;
            }
            if let State::InFlight { carrier, call, .. } = &self.state {
                carrier.wait_any(&[*call], Instant::NEVER);
            }
        }
    }

    /// Waits for the end of the call, but at most so long.
    ///
    /// # Errors
    /// The handle, when the call has not ended by then. It goes on.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(mut self, limit: Duration) -> Result<R, Self> {
        if let State::InFlight { carrier, call, generation, .. } = &self.state
            && *generation == fork::generation()
        {
            let until = Instant::from_nanos(stoop_net::clock::now_ns()) + limit;
            carrier.wait_any(&[*call], until);
        }
        self.take().ok_or(self)
    }

    /// Whether the call has ended, so that [`wait`](Self::wait) will not wait.
    #[inline]
    pub fn is_ready(&self) -> bool {
        match &self.state {
            State::InFlight { carrier, call, generation, .. } => {
                *generation != fork::generation() || carrier.is_ready(*call)
            }
            State::Ready(_) | State::Taken => true,
        }
    }

    /// Lets the call go on without anybody waiting for it. What it returns is not kept, and nobody will know whether it
    /// ran.
    pub fn detach(mut self) {
        match std::mem::replace(&mut self.state, State::Taken) {
            State::InFlight { carrier, call, generation, .. } if generation == fork::generation() => {
                carrier.detach(call);
            }
            // It is the parent's, where it goes on anyway.
            State::InFlight { carrier, .. } => mem::forget(carrier),
            State::Ready(_) | State::Taken => {}
        }
    }

    /// The result of the call, if it has ended.
    #[inline]
    fn take(&mut self) -> Option<R> {
        // Whatever happens in `decode`, which may be the user's: what was taken is given back once.
        match std::mem::replace(&mut self.state, State::Taken) {
            State::InFlight { carrier, generation, mut decode, .. } if generation != fork::generation() => {
                mem::forget(carrier);
                Some(decode.apply(Err(forked())))
            }
            State::InFlight { carrier, call, generation, mut decode } => {
                if let Some(short) = carrier.take_short(call) {
                    return Some(decode.apply(Ok(Reader::new(short.bytes()))));
                }
                let mut value = None;
                if !carrier.take(call, &mut |outcome| value = Some(decode.apply(outcome))) {
                    self.state = State::InFlight { carrier, call, generation, decode };
                }
                value
            }
            State::Ready(value) => Some(value),
            State::Taken => panic!("the result of this call has been taken already"),
        }
    }
}

impl<R> Future for Pending<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        match &self.state {
            State::InFlight { carrier, call, generation, .. }
                if *generation == fork::generation() && !carrier.poll(*call, context.waker()) =>
            {
                Poll::Pending
            }
            _ => self.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

impl<R> Drop for Pending<R> {
    #[inline]
    fn drop(&mut self) {
        match &self.state {
            State::InFlight { carrier, call, generation, .. } if *generation == fork::generation() => {
                carrier.cancel(*call);
            }
            State::InFlight { .. } => self.leave(),
            State::Ready(_) | State::Taken => {}
        }
    }
}

impl<R> Pending<R> {
    /// It is that of the process from which this one was forked, and goes on there.
    #[cold]
    fn leave(&mut self) {
        if let State::InFlight { carrier, .. } = std::mem::replace(&mut self.state, State::Taken) {
            mem::forget(carrier);
        }
    }
}

#[cold]
fn forked() -> CallError {
    CallError::Unknown { transmissions: 1, waited: Duration::ZERO, cause: UnknownCause::Forked }
}

/// Waits for all of these, and gives their results in the same order.
///
/// # Panics
/// When one has been awaited as a future, which has given the result.
pub fn wait_all<R>(pending: impl IntoIterator<Item = Pending<R>>) -> Vec<R> {
    // In order: whoever waits for one receives for all.
    pending.into_iter().map(Pending::wait).collect()
}

/// Waits until one of these is ready, and tells its place; `None` when there are none.
///
/// ```
/// # #[stoop::interface]
/// # pub trait Adder { fn add(&self, a: i32, b: i32) -> i32; }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: i32, b: i32) -> i32 { a + b } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let client = AdderClient::bind(&server.uris()[0])?;
/// let calls = client.begin();
/// let mut pending: Vec<_> = (0..3).map(|n| calls.add(n, n)).collect();
/// drop(calls);
///
/// let mut sum = 0;
/// while let Some(place) = stoop::wait_any(&mut pending) {
///     sum += pending.swap_remove(place).wait()?; // does not wait
/// }
/// assert_eq!(sum, 6);
/// # Ok(())
/// # }
/// ```
pub fn wait_any<R>(pending: &mut [Pending<R>]) -> Option<usize> {
    let mut calls = Vec::with_capacity(pending.len());
    let mut first: Option<&Arc<dyn Carrier>> = None;
    for (place, each) in pending.iter().enumerate() {
        match &each.state {
            State::InFlight { generation, .. } if *generation != fork::generation() => return Some(place),
            State::InFlight { carrier, call, .. } => {
                if !Arc::ptr_eq(first.get_or_insert(carrier), carrier) {
                    return Some(wait_for_wakers(pending));
                }
                calls.push(*call);
            }
            State::Ready(_) | State::Taken => return Some(place),
        }
    }
    let carrier = first?;
    loop {
        if let Some(place) = carrier.wait_any(&calls, Instant::NEVER) {
            return Some(place);
        }
    }
}

/// Wakes a thread that waits for calls of several bindings.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for calls of several bindings.
fn wait_for_wakers<R>(pending: &[Pending<R>]) -> usize {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let has_ended = |each: &Pending<R>| match &each.state {
        State::InFlight { generation, .. } if *generation != fork::generation() => true,
        State::InFlight { carrier, call, .. } => carrier.poll(*call, &waker),
        State::Ready(_) | State::Taken => true,
    };
    loop {
        if let Some(place) = pending.iter().position(has_ended) {
            return place;
        }
        thread::park();
    }
}
