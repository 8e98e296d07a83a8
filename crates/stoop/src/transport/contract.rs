//! The transport contract: what carries the calls of a client to a server, and their results back.
//!
//! A transport has two ends. The client's end is a [`Binding`] with a [`Lane`] for each calling thread, and tables of
//! [`OutstandingCalls`] for begun calls. The server's end is a [`Listener`], and from the start of the server on an
//! [`Endpoint`](crate::serving::workers::Endpoint) that gives calls to a worker pool. The list of all transports is
//! [`transports`](crate::transports); it dispatches statically, so that no call goes through a `dyn` object.
//!
//! # Obligations
//!
//! - *Outcomes.* A call runs at most once, unless its procedure is idempotent. It ends with its result or with an error
//!   that says whether it ran, and no later than a few milliseconds after its deadline.
//! - *Who frees.* A lane belongs to one call from [`hold`](Binding::hold) to the drop of the lane; the result is read
//!   from the lane's own buffer and is gone with it. A binding lives until its client and the last handle of a begun
//!   call are dropped; its drop tells the server. In a forked child nothing of the parent's is dropped.
//! - *Who may block.* `hold` may wait for a free lane, `transport` and its relatives until the call's deadline, `bind`
//!   until the given deadline. Nothing else blocks for longer than it takes to send.
//! - *Who notices death.* The transport. A lost server or session ends or repeats each call as
//!   [`recovery`](crate::calling::recovery) allows, within the call's deadline; the user never binds again.
//! - *Who waits.* A blocking call waits in its own thread. A begun call needs no thread of the user: a background thread
//!   drives it when nobody waits for it.
//! - *Locks.* No lock is held while code of the user runs: procedures, encoders, decoders, wakers. The exception is the lane of a
//!   blocking call, which its thread holds while arguments are encoded and the result is decoded: a call made then takes another lane.
//!
//! # What the contract leaves open
//!
//! - *The form of the data.* Stubs write arguments into the [`Writer`] that the lane gives, and read results from its bytes.
//!   Where they lie in the packet and what surrounds them is the transport's; so would be another encoding.
//! - *The address of a procedure.* Stubs pass the number of the procedure in the interface; `bind` gets the whole
//!   interface and may map the numbers to something else.
//! - *The vocabulary of refusals.* Errors are [`CallError`]s; how they travel is the transport's.
//! - *Who suppresses duplicates.* The packet exchange does it with numbered calls and retained results; over a
//!   byte stream or shared memory there are none.
//!
//! # Exemptions
//!
//! - *Blocking `local:` calls* have no lane: the stub calls the server's object through the trait, and the client knows
//!   that transport by name ([`Local`](crate::transport::local::caller::Local)).
//! - *Begun calls over shared memory* mostly stay out of any table: the answer waits in the lane until the handle takes it.
//! - *Buffers in place*: [`transport_with_buffers`](Lane::transport_with_buffers) may call the encoder once more, for
//!   another server, in whose memory the buffers do not lie.
//!
//! # The latency account
//!
//! A transport stamps the [points](stoop_probe::Point) of a call from `CallLeaves` to `CallFound` at its two ends, and those of its result
//! from `ResultLeaves` to `ResultFound`. Stubs, dispatch and `client/call.rs` stamp the others.

use crate::account::calls::Recorder;
use crate::buffers::{NamedRanges, SharedBuffers, WriteArguments};
use crate::calling::begun::BegunCalls;
use crate::calling::counters::CallCounters;
use crate::calling::handshake::NotBound;
use crate::error::{CallError, Callee, InPlaceError, SendError};
use crate::interface::Interface;
use crate::metadata::outgoing::Carried;
use crate::options::{BindOptions, OwnOptions};
use crate::serving::running::Listener;
use crate::uri::Scheme;
use std::any::Any;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_shm::{InPlace, Number};

/// A transport: how to bind by it, and how to listen.
pub(crate) trait Transport {
    /// The schemes of its addresses, the one to prefer first.
    const SCHEMES: &'static [Scheme];

    /// Whether calls by it may have pipes.
    const CARRIES_PIPES: bool = false;

    /// The client's end.
    type Binding: Binding;
    /// The tables of a binding's begun calls.
    type Begun: BegunCalls;

    /// Binds to a server.
    ///
    /// # Errors
    /// There is no binding by `deadline`, or there can be none.
    fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self::Binding, NotBound>;

    /// The address by which this process may reach the server that offers `offer`, an address of this transport, and that it has
    /// reached at `reached`; `None` if that would be no better. The offer itself for a transport within a machine.
    fn nearer(offer: &str, _reached: &str) -> Option<String> {
        Some(offer.into())
    }

    /// Makes the tables of a binding's begun calls, when the first call is begun.
    ///
    /// # Errors
    /// The system gives no socket or no thread.
    fn begun_calls(binding: &Arc<Self::Binding>) -> io::Result<Self::Begun>;

    /// Takes an address, to be served later.
    ///
    /// # Errors
    /// The address cannot be listened at.
    fn listen(at: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>>;
}

/// An address at which a server is to listen.
pub(crate) struct ListenAddress<'a> {
    pub(crate) scheme: &'static Scheme,
    /// The whole address.
    pub(crate) uri: &'a str,
    /// The text behind the scheme.
    pub(crate) address: &'a str,
    /// The options of transports.
    pub(crate) own: &'a OwnOptions,
}

/// The server to which a client binds.
pub(crate) struct Target<'a> {
    pub(crate) interface: &'static Interface,
    /// The whole address, for error texts.
    pub(crate) uri: &'a str,
    pub(crate) scheme: &'static Scheme,
    /// The text behind the scheme.
    pub(crate) address: &'a str,
    /// Whether an object that a server of this process exports has the client's type.
    pub(crate) is_ours: IsOurs,
    pub(crate) options: &'a BindOptions,
}

/// Tells whether an exported object has the type of a client's trait.
pub(crate) type IsOurs = fn(&(dyn Any + Send + Sync)) -> bool;

/// The client's end of a transport. All threads of a process share it.
pub(crate) trait Binding: Send + Sync + Sized + 'static {
    /// A lane held by a call.
    type Lane<'a>: Lane;

    /// Holds the calling thread's lane, for a call that may take `timeout_ns`. If the thread has to wait for a lane, the call has
    /// so much less time.
    ///
    /// # Errors
    /// A new lane is needed and cannot be made, or none became free in time. The call has not run.
    fn hold(&self, timeout_ns: u64) -> Result<Self::Lane<'_>, CallError>;

    /// The procedure of that number in the binding's interface, and the server's address, for errors.
    fn callee(&self, procedure: u16) -> Callee;

    /// In words: what carries the calls, why it was chosen, and with which options.
    fn describe(&self) -> String;

    /// In words: whether buffers are copied, as the last part of a description.
    fn describe_buffers(&self) -> String {
        "; buffers are copied, because only `shm:` shares memory with the server".into()
    }

    /// In words: what protects the data instead of the checksums that the user asked for.
    fn describe_checksums(&self) -> &'static str;

    /// The counters of the calls of all lanes.
    fn counters(&self) -> CallCounters;

    /// The account of the calls of all lanes, if the binding keeps one.
    fn recorder(&self) -> Option<&Recorder> {
        None
    }

    /// The other addresses of the server, as [`offers`](crate::offers) writes them.
    fn offers(&self) -> String {
        String::new()
    }

    /// Bytes of the longest block of metadata that the server takes; 0 if it knows none.
    fn metadata_max(&self) -> usize;

    /// The number of the form in which calls of a procedure are made at present: the procedure itself, or that of an older form; `None` if
    /// the server lacks it.
    fn form(&self, procedure: u16) -> Option<u16> {
        Some(procedure)
    }

    /// The number that tells this start of the server from others; 0 where the address does.
    fn incarnation(&self) -> u64 {
        0
    }

    /// Makes a buffer of `len` numbers for procedures to use where it lies, if the two ends share memory.
    ///
    /// # Errors
    /// The shared memory has no room for it, or the binding was lost and cannot be made again.
    fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        Ok(InPlace::private(len))
    }
}

/// A lane held by a call: takes the arguments, and gives the result.
pub(crate) trait Lane {
    /// Whether large arguments can stay where the caller has them, and large results be placed there.
    const CAN_GATHER: bool = false;

    /// As [`Binding::callee`].
    fn callee(&self, procedure: u16) -> Callee;

    /// The writer of the arguments.
    fn arguments(&mut self) -> Writer<'_>;

    /// For a call of a procedure with arguments in the form of the number `made`, if the server of the lane knows another form of it: the
    /// number of that form. What is left of the time of the call is then the time of the next.
    fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        let _ = (procedure, made);
        None
    }

    /// Sends the call, which has `len` bytes of arguments, and waits for the result.
    ///
    /// # Errors
    /// There is no result.
    fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError>;

    /// As [`transport`](Self::transport), with arguments and results that are in the caller's memory.
    ///
    /// # Errors
    /// There is no result.
    fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        _: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        self.transport(procedure, len)
    }

    /// As [`transport_gathered`](Self::transport_gathered), of a call that carries metadata: this, and what goes on of the call that the
    /// thread serves.
    ///
    /// # Errors
    /// There is no result.
    fn transport_carrying(
        &mut self,
        procedure: u16,
        len: usize,
        list: &mut GatherList<'_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError>;

    /// All of a call with buffers: `write` writes its arguments, and may be called once more for another server. It carries metadata as in
    /// [`transport_carrying`](Self::transport_carrying).
    ///
    /// # Errors
    /// There is no result.
    fn transport_with_buffers(
        &mut self,
        procedure: u16,
        write: &mut WriteArguments<'_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        let mut arguments = self.arguments();
        write(&mut arguments, &mut SharedBuffers::new(None, &mut NamedRanges::default()));
        let len = arguments.finish().map_err(|why| CallError::not_sent(SendError::Arguments(why)))?;
        self.transport_carrying(procedure, len, &mut GatherList::none(), carried)
    }

    /// The bytes of the result.
    fn result(&self) -> &[u8];

    /// The rest of a result of which some was placed in the caller's memory; `None` if none was.
    fn scattered(&self) -> Option<Reader<'_>> {
        None
    }

    /// Whether the server has used `buffer` where it lies, in the call that was just made.
    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        let _ = buffer;
        false
    }
}
