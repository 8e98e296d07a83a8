//! Handles of begun calls.

mod waits;

use crate::callbacks::nested;
use crate::calling::begun::Outcome;
use crate::calling::short_result::Short;
pub use crate::client::pending::waits::{wait_all, wait_any};
use crate::error::{CallError, UnknownCause};
use crate::transports::AnyCalls;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::fork;

/// The handle of a call that `client.begin()` or the asynchronous form of a client has begun: it gives the call's result.
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
/// runtime. The call goes on whether a thread waits or not, and ends by its deadline. Its time runs from when it leaves; that
/// of a call which waits for its client to be bound, from when it was begun.
///
/// *Dropping* the handle abandons the call: the server is told, and the result is not kept. The procedure may still
/// run. [`detach`](Self::detach) lets the call go on instead. Dropping the handle of a one-way call does not abandon the
/// call: it goes on as if it was detached. A handle that is forgotten ([`std::mem::forget`]) keeps its slot in the binding, and
/// the binding alive, for good; nothing dangles.
///
/// The handle keeps the binding: the client may be dropped before.
#[must_use = "dropping it abandons the call, unless it is a one-way call; wait for it, or detach it"]
pub struct Pending<R> {
    state: State<R>,
}

enum State<R> {
    Outstanding {
        begun: BegunCall,
        decode: Decode<R>,
    },
    /// `None` when the result has been given.
    Rare(Option<Box<Rare<R>>>),
}

/// States that few handles have.
enum Rare<R> {
    /// The call has not been waited for, and the length of its result is known to the caller alone.
    Decoding { begun: BegunCall, decode: DecodeWith<R> },
    /// The call could not be begun.
    Ready(R),
}

// Programs keep many handles in vectors and move them.
const _: () = assert!(size_of::<Pending<Result<[u8; 1440], CallError>>>() == 32);

/// A call that has been begun.
pub(crate) struct BegunCall {
    pub(crate) calls: AnyCalls,
    pub(crate) call: u32,
    /// The process that has begun it, see [`fork::generation`]; of a one-way call, with all bits inverted.
    origin: u32,
}

impl BegunCall {
    #[inline]
    pub(crate) fn new(calls: AnyCalls, call: u32, generation: u32) -> Self {
        Self { calls, call, origin: generation }
    }

    /// Marks a one-way call, which goes on when its handle is dropped.
    #[inline]
    pub(crate) fn one_way(self) -> Self {
        Self { origin: !self.origin, ..self }
    }

    #[inline]
    fn is_of_this_process(&self) -> bool {
        self.origin == fork::generation() || self.is_one_way_of_this_process()
    }

    /// No process has so many ancestors that both kinds could be mistaken for each other.
    #[inline]
    fn is_one_way_of_this_process(&self) -> bool {
        self.origin == !fork::generation()
    }

    /// The call belongs to the process from which this one was forked, and goes on there.
    #[cold]
    fn leave(self) {
        mem::forget(self.calls);
    }

    /// As [`OutstandingCalls::take`](crate::calling::begun::OutstandingCalls::take).
    #[inline]
    fn take(&self, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        self.calls.take(self.call, with)
    }
}

/// Makes a handle's value of the outcome of its call.
pub(crate) type Decode<R> = fn(Outcome<'_>) -> R;

/// As [`Decode`], with something that only the caller knows.
pub(crate) type DecodeWith<R> = Box<dyn FnMut(Outcome<'_>) -> R + Send>;

// Nothing in it is pinned: the result is moved out when it is there.
impl<R> Unpin for Pending<R> {}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Rare(None) => "Pending(taken)",
            State::Rare(Some(rare)) if matches!(**rare, Rare::Ready(_)) => "Pending(ready)",
            State::Outstanding { .. } | State::Rare(_) => "Pending(outstanding)",
        })
    }
}

impl<R> Pending<R> {
    #[inline]
    pub(crate) fn outstanding(begun: BegunCall, decode: Decode<R>) -> Self {
        Self { state: State::Outstanding { begun, decode } }
    }

    /// The handle of a call of whose result `decode` knows the length.
    pub(crate) fn decoding(begun: BegunCall, decode: DecodeWith<R>) -> Self {
        Self { state: State::Rare(Some(Box::new(Rare::Decoding { begun, decode }))) }
    }

    /// The handle of a call that has ended before it was begun.
    pub(crate) fn ready(value: R) -> Self {
        Self { state: State::Rare(Some(Box::new(Rare::Ready(value)))) }
    }

    /// Waits for the end of the call, its deadline at the latest, and gives its result.
    ///
    /// # Panics
    /// When it has been awaited as a future, which has given the result.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let client = AdderClient::bind(&uri)?;
    ///
    /// let call = client.begin().add(1, 2);
    /// // Something else, while the call is under way.
    /// assert_eq!(call.wait()?, 3);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn wait(mut self) -> R {
        match self.take_short() {
            Some((short, decode)) => {
                // Nothing is left in it to drop, which the compiler sees to by a call each time.
                mem::forget(self);
                decode(Ok(Reader::new(short.bytes())))
            }
            None => self.wait_long(),
        }
    }

    #[inline(never)]
    fn wait_long(mut self) -> R {
        loop {
            if let Some(value) = self.take() {
                return value;
            }
            if self.wait_until(Instant::NEVER) {
                if let Some(value) = self.take() {
                    return value;
                }
                self.distrust();
            }
        }
    }

    /// Waits for the end of the call, at most until that time. Returns whether it has ended.
    #[inline(never)]
    fn wait_until(&self, until: Instant) -> bool {
        let Some(begun) = self.outstanding_here() else { return true };
        nested::waiting(|| begun.calls.wait_any(&[begun.call], until)).is_some()
    }

    /// The table said that the call had ended, and its result could not be taken.
    #[cold]
    fn distrust(&self) {
        if let Some(begun) = self.outstanding_here() {
            begun.calls.distrust(begun.call);
        }
    }

    /// The call, until its result has been taken.
    #[inline]
    fn begun(&self) -> Option<&BegunCall> {
        match &self.state {
            State::Outstanding { begun, .. } => Some(begun),
            State::Rare(None) => None,
            State::Rare(Some(rare)) => match &**rare {
                Rare::Decoding { begun, .. } => Some(begun),
                Rare::Ready(_) => None,
            },
        }
    }

    /// The call, while there is something to wait for. A call of the process from which this one was forked has ended here.
    #[inline]
    fn outstanding_here(&self) -> Option<&BegunCall> {
        self.begun().filter(|begun| begun.is_of_this_process())
    }

    /// Waits for the end of the call, but at most so long.
    ///
    /// # Errors
    /// The handle, when the call has not ended by then. It goes on.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:wait-timeout")?.start()?;
    /// # let client = AdderClient::bind("local:wait-timeout")?;
    /// let mut call = client.begin().add(1, 2);
    /// let sum = loop {
    ///     match call.wait_timeout(Duration::from_millis(100)) {
    ///         Ok(sum) => break sum?,
    ///         Err(later) => call = later, // do something else meanwhile
    ///     }
    /// };
    /// assert_eq!(sum, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_timeout(mut self, limit: Duration) -> Result<R, Self> {
        let until = Instant::from_nanos(stoop_net::clock::now_ns()) + limit;
        loop {
            let has_ended = self.wait_until(until);
            match self.take() {
                Some(value) => return Ok(value),
                None if has_ended => self.distrust(),
                None => return Err(self),
            }
        }
    }

    /// Whether the call has ended, so that [`wait`](Self::wait) will not wait.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let client = AdderClient::bind(&uri)?;
    ///
    /// let call = client.begin().add(1, 2);
    /// while !call.is_ready() {
    ///     std::hint::spin_loop(); // or a step of other work
    /// }
    /// assert_eq!(call.wait()?, 3); // does not wait
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.outstanding_here().is_none_or(|begun| begun.calls.is_ready(begun.call))
    }

    /// Whether the call has ended; if not, its end wakes `waker`.
    #[inline]
    fn is_ready_or_wakes(&self, waker: &Waker) -> bool {
        self.outstanding_here().is_none_or(|begun| begun.calls.poll(begun.call, waker))
    }

    /// Lets the call go on without its handle, until its result, its deadline, or the end of the process: it is sent again when
    /// it is lost, also when the client has been dropped. Its result is not kept. A process that ends does not wait for it:
    /// call the client's `close`, or [`Binding::flush`](crate::Binding::flush), before `main` returns.
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:detach")?.start()?;
    /// # let client = AdderClient::bind("local:detach")?;
    /// client.begin().add(1, 2).detach();
    /// client.close(Duration::from_secs(1))?; // waits for it
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) {
        match self.take_call() {
            Some(begun) if begun.is_of_this_process() => {
                begun.calls.detach(begun.call, None);
            }
            // The call goes on in that process anyway.
            Some(begun) => begun.leave(),
            None => {}
        }
    }

    /// A short result of the call, if it has ended with one that can be taken at once, and the function that decodes it.
    #[inline]
    fn take_short(&mut self) -> Option<(Short, Decode<R>)> {
        let State::Outstanding { begun, decode } = &self.state else { return None };
        if !begun.is_of_this_process() {
            return None;
        }
        let (short, decode) = (begun.calls.take_short(begun.call)?, *decode);
        // Before `decode`, which may be code of the user and panic: the slot was given back just now, and must not be again.
        self.state = State::Rare(None);
        Some((short, decode))
    }

    /// The result of the call, if it has ended.
    #[inline]
    fn take(&mut self) -> Option<R> {
        match self.take_short() {
            Some((short, decode)) => Some(decode(Ok(Reader::new(short.bytes())))),
            None => self.take_any(),
        }
    }

    /// As [`take`](Self::take), of any result.
    #[inline(never)]
    fn take_any(&mut self) -> Option<R> {
        let mut value = None;
        match mem::replace(&mut self.state, State::Rare(None)) {
            State::Outstanding { begun, decode } if begun.is_of_this_process() => {
                if !begun.take(&mut |outcome| value = Some(decode(outcome))) {
                    self.state = State::Outstanding { begun, decode };
                }
            }
            State::Outstanding { begun, decode } => {
                let error = begun.calls.name(forked());
                begun.leave();
                value = Some(decode(Err(error)));
            }
            State::Rare(rare) => {
                let mut rare = rare.expect("the result of this call has been taken already");
                match &mut *rare {
                    Rare::Decoding { begun, decode } if begun.is_of_this_process() => {
                        if let Some(short) = begun.calls.take_short(begun.call) {
                            return Some(decode(Ok(Reader::new(short.bytes()))));
                        }
                        if !begun.take(&mut |outcome| value = Some(decode(outcome))) {
                            self.state = State::Rare(Some(rare));
                        }
                    }
                    _ => match *rare {
                        Rare::Decoding { begun, mut decode } => {
                            let error = begun.calls.name(forked());
                            begun.leave();
                            value = Some(decode(Err(error)));
                        }
                        Rare::Ready(result) => value = Some(result),
                    },
                }
            }
        }
        value
    }
}

impl<R> Future for Pending<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        loop {
            if !self.is_ready_or_wakes(context.waker()) {
                return Poll::Pending;
            }
            if let Some(value) = self.take() {
                return Poll::Ready(value);
            }
            // No waker is registered now, so the loop polls once more.
            self.distrust();
        }
    }
}

impl<R> Drop for Pending<R> {
    #[inline]
    fn drop(&mut self) {
        match self.begun() {
            Some(begun) if begun.is_one_way_of_this_process() => {
                begun.calls.detach(begun.call, None);
            }
            Some(begun) if begun.is_of_this_process() => {
                begun.calls.cancel(begun.call);
            }
            Some(_) => self.leave(),
            None => {}
        }
    }
}

impl<R> Pending<R> {
    /// Takes the call out of the handle, unless its result has been taken.
    fn take_call(&mut self) -> Option<BegunCall> {
        match mem::replace(&mut self.state, State::Rare(None)) {
            State::Outstanding { begun, .. } => Some(begun),
            State::Rare(rare) => match *rare? {
                Rare::Decoding { begun, .. } => Some(begun),
                Rare::Ready(_) => None,
            },
        }
    }

    #[cold]
    fn leave(&mut self) {
        if let Some(begun) = self.take_call() {
            begun.leave();
        }
    }
}

#[cold]
fn forked() -> CallError {
    CallError::Unknown { transmissions: 1, waited: Duration::ZERO, cause: UnknownCause::Forked, callee: None }
}
