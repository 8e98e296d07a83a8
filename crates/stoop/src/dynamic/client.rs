//! Calls of an interface that is known at run time only.

use crate::calling::begun::Outcome;
use crate::client::Binding;
use crate::client::pending::Pending;
use crate::client::{self, Route};
use crate::dynamic::Interface;
use crate::error::{BindError, CallError};
use crate::options::BindOptions;
use crate::{Receiver, Sender};
use std::time::Duration;
use stoop_marshal::{DecodeError, EncodeError, Reader, Writer};

/// The trait of all interfaces that are known at run time only. It has no implementation, so that no call goes through it.
trait ByBytes: Send + Sync {}

/// A client of an interface that is known at run time only. Clones share the binding; any thread may call.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// use stoop::BindOptions;
/// use stoop::dynamic::{Client, Interface};
///
/// let interface = Interface::ask(&uri, "Adder", &BindOptions::new())?;
/// let client = Client::bind(&uri, interface, &BindOptions::new())?;
/// let add = client.interface().number_of("add").ok_or("the server has no such procedure")?;
/// let sum: u32 = client.call(add, |arguments| { arguments.value(&3_u32); arguments.value(&4_u32) }, |result| result.value())?;
/// assert_eq!(sum, 7);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: client::Client<dyn ByBytes>,
    interface: Interface,
    /// Whether calls wait for the thread's earlier one-way calls.
    in_order: bool,
}

impl Client {
    /// Binds to the server at `uri`.
    ///
    /// # Errors
    /// The text is not an address, no server answers there in time, or it does not export this interface.
    pub fn bind(uri: &str, interface: Interface, options: &BindOptions) -> Result<Self, BindError> {
        let client = client::Client::bind(interface.0, uri, options)?;
        Ok(Self { client, interface, in_order: interface.has_order() })
    }

    /// The interface.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// The binding: its address, its transport in words (`describe`), and what its calls have seen (`counters`).
    pub fn binding(&self) -> &Binding {
        self.client.binding()
    }

    /// The same binding, with another time in which each call has to end.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { client: self.client.with_timeout(timeout), ..*self }
    }

    /// Calls the procedure of that number and waits for its result: `write` writes the arguments, `read` reads the result, and has to read
    /// all of it.
    ///
    /// # Errors
    /// The call gives no result; the error says why, and `ran()` whether the procedure ran.
    ///
    /// # Panics
    /// The interface has no procedure of that number.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let interface = stoop::dynamic::Interface::ask(&uri, "Adder", &stoop::BindOptions::new())?;
    /// # let client = stoop::dynamic::Client::bind(&uri, interface, &stoop::BindOptions::new())?;
    ///
    /// // A result that is not read to its end is an error: the types differ.
    /// let half = client.call(0, |arguments| { arguments.value(&3_u32); arguments.value(&4_u32) }, |result| result.value::<u16>());
    /// assert!(matches!(half, Err(stoop::CallError::Peer(..))));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn call<R>(
        &self,
        procedure: u16,
        write: impl FnOnce(&mut Writer<'_>),
        read: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, CallError> {
        self.check(procedure);
        let route = match self.in_order {
            true => self.client.route_in_order(procedure)?,
            false => self.client.route(procedure)?,
        };
        let Route::Remote(route) = route else { unreachable!("nothing implements the trait") };
        let mut call = route.start(procedure)?;
        let written = {
            let mut arguments = call.arguments();
            write(&mut arguments);
            arguments.finish()
        };
        call.transport(written)?;
        let mut result = call.reader();
        let decoded = read(&mut result).and_then(|value| result.finish().map(|()| value));
        call.end(decoded)
    }

    /// Sends a call of a one-way procedure. The thread's next call of this client waits until it has returned.
    ///
    /// # Errors
    /// The call could not be sent, and will not run.
    ///
    /// # Panics
    /// As [`call`](Self::call).
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let interface = stoop::dynamic::Interface::ask(&uri, "Adder", &stoop::BindOptions::new())?;
    /// # let client = stoop::dynamic::Client::bind(&uri, interface, &stoop::BindOptions::new())?;
    ///
    /// let note = client.interface().number_of("note").ok_or("the server has no such procedure")?;
    /// client.tell(note, |arguments| arguments.value(&7_u32))?;
    /// client.binding().flush(std::time::Duration::from_secs(5))?; // it has run
    /// # Ok(())
    /// # }
    /// ```
    pub fn tell(&self, procedure: u16, write: impl FnOnce(&mut Writer<'_>)) -> Result<(), CallError> {
        self.check(procedure);
        let begin = self.client.begin();
        let mut call = begin.start(procedure);
        let written = {
            let mut arguments = call.arguments();
            write(&mut arguments);
            arguments.finish()
        };
        self.client.tell_in_order(call, written)
    }

    /// Begins calls without waiting for them: those that are begun with one value of this method travel together, and leave when it is
    /// dropped.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    /// # let interface = stoop::dynamic::Interface::ask(&uri, "Adder", &stoop::BindOptions::new())?;
    /// # let client = stoop::dynamic::Client::bind(&uri, interface, &stoop::BindOptions::new())?;
    ///
    /// let begin = client.begin();
    /// let calls: Vec<_> = (0..3_u32)
    ///     .map(|n| begin.call(0, move |arguments| { arguments.value(&n); arguments.value(&n) }, |result| result.value::<u32>()))
    ///     .collect();
    /// drop(begin); // now they leave
    /// let sums: Vec<u32> = stoop::wait_all(calls).into_iter().collect::<Result<_, _>>()?;
    /// assert_eq!(sums, [0, 2, 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(&self) -> Begin<'_> {
        Begin { begin: self.client.begin(), client: self }
    }

    #[inline]
    fn check(&self, procedure: u16) {
        assert!(
            usize::from(procedure) < self.interface.0.procedures.len(),
            "the interface has no such procedure"
        );
    }
}

/// Begins calls by bytes; see [`Client::begin`].
#[derive(Debug)]
#[must_use = "it begins calls by its methods"]
pub struct Begin<'a> {
    begin: client::Begin<'a>,
    client: &'a Client,
}

impl Begin<'_> {
    /// Begins a call of the procedure of that number, as [`Client::call`] makes it. Its handle gives the result.
    ///
    /// # Panics
    /// The interface has no procedure of that number.
    pub fn call<R: 'static>(
        &self,
        procedure: u16,
        write: impl FnOnce(&mut Writer<'_>),
        mut read: impl FnMut(&mut Reader<'_>) -> Result<R, DecodeError> + Send + 'static,
    ) -> Pending<Result<R, CallError>> {
        let (call, written) = self.started(procedure, write);
        call.submit_with(written, move |outcome| decoded(outcome, &mut read))
    }

    /// As [`call`](Self::call), of a procedure with [pipes](Sender): their items are bytes, as `docs/native-form.md` has values. `write` gets
    /// the number that is written, as a `u64`, in the place of a pipe *from* the procedure; for one *to* the procedure nothing is written.
    ///
    /// # Panics
    /// As [`call`](Self::call).
    ///
    /// ```
    /// # #[stoop::interface] trait Logs { fn tail(&self, from: u32, lines: stoop::Sender<str>) -> u32; }
    /// # struct Disk;
    /// # impl Logs for Disk {
    /// #     fn tail(&self, from: u32, lines: stoop::Sender<str>) -> u32 { lines.send("one").unwrap(); from + 1 }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(LogsServer::new(Disk)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let interface = stoop::dynamic::Interface::ask(&server.uris()[0], "Logs", &stoop::BindOptions::new())?;
    /// # let client = stoop::dynamic::Client::bind(&server.uris()[0], interface, &stoop::BindOptions::new())?;
    /// use stoop::dynamic::PipedCall;
    ///
    /// // tail(from: u32, lines: pipe out str) -> u32
    /// let PipedCall { pending, receiver, .. } = client.begin().call_with_pipes(
    ///     0,
    ///     |arguments, window| { arguments.value(&7_u32); arguments.value(&window) },
    ///     |result| result.value::<u32>(),
    /// );
    /// let lines: Vec<Vec<u8>> = receiver.ok_or("it has no such pipe")?.collect::<Result<_, _>>()?;
    /// assert_eq!((&*lines[0], pending.wait()?), (&b"one"[..], 8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_with_pipes<R: 'static>(
        &self,
        procedure: u16,
        write: impl FnOnce(&mut Writer<'_>, u64),
        mut read: impl FnMut(&mut Reader<'_>) -> Result<R, DecodeError> + Send + 'static,
    ) -> PipedCall<R> {
        let window = self.begin.window();
        let (call, written) = self.started(procedure, |arguments| write(arguments, window));
        let pipes = self.client.interface.pipes(procedure);
        let (pending, mut ends) =
            call.submit_with_pipes(written, pipes, move |outcome| decoded(outcome, &mut read));
        let sender = pipes.to_procedure.then(|| ends.sender());
        let receiver = pipes.from_procedure.then(|| ends.receiver());
        PipedCall { pending, sender, receiver }
    }

    fn started(
        &self,
        procedure: u16,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> (client::Beginning<'_>, Result<usize, EncodeError>) {
        self.client.check(procedure);
        let mut call = self.begin.start(procedure);
        let written = {
            let mut arguments = call.arguments();
            write(&mut arguments);
            arguments.finish()
        };
        (call, written)
    }
}

/// A call of a procedure with pipes, and its caller's ends of these.
#[derive(Debug)]
pub struct PipedCall<R> {
    /// The handle, which gives the result.
    pub pending: Pending<Result<R, CallError>>,
    /// The end of the pipe to the procedure, if it has one.
    pub sender: Option<Sender<[u8]>>,
    /// The end of the pipe from the procedure, if it has one.
    pub receiver: Option<Receiver<[u8]>>,
}

fn decoded<R>(
    outcome: Outcome<'_>,
    read: &mut impl FnMut(&mut Reader<'_>) -> Result<R, DecodeError>,
) -> Result<R, CallError> {
    let mut result = outcome?;
    let decoded = read(&mut result).and_then(|value| result.finish().map(|()| value));
    decoded.map_err(CallError::undecoded)
}
