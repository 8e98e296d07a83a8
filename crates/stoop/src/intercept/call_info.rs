//! A call, as interceptors see it.

use crate::context::Caller;
use crate::interface::{Interface, Procedure};
use crate::metadata::outgoing::Carried;
use crate::metadata::{Metadata, served};
use std::any::Any;
use std::fmt;
use std::time::Duration;
use stoop_net::clock;

/// A call, as interceptors see it.
///
/// ```
/// use stoop::Caller;
/// use stoop::error::Refusal;
/// use stoop::intercept::{Before, CallInfo, Intercept};
///
/// /// At a server: only processes of this machine may call what is not `#[idempotent]`, in this program all that changes something.
/// struct ReadFromAfar;
///
/// impl Intercept for ReadFromAfar {
///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
///         match call.caller() {
///             Some(Caller::Local | Caller::Process(_)) => Before::Go,
///             _ if call.is_idempotent() => Before::Go,
///             _ => Before::Refuse(Refusal::denied(format!("{} changes something", call.procedure()))),
///         }
///     }
/// }
/// let server = stoop::Server::new().interceptor(ReadFromAfar);
/// ```
pub struct CallInfo<'a> {
    /// The address of its server, at the client.
    server: Option<&'a str>,
    pub(crate) call: InterceptedCall,
}

/// The part of a [`CallInfo`] that can be kept while the call is outstanding.
pub(crate) struct InterceptedCall {
    interface: &'static Interface,
    procedure: u16,
    /// `None` at the client.
    caller: Option<Caller>,
    pub(crate) deadline_ns: u64,
    /// When the call began; 0 if no interceptor asks.
    pub(super) begun_ns: u64,
    /// The interceptor that looks at it.
    pub(super) place: usize,
    /// What interceptors keep, by their places.
    kept: Vec<(usize, Box<dyn Any + Send>)>,
    /// What it carries, at the client.
    pub(crate) carried: Option<Carried>,
    /// The metadata of its answer: at the client, and at a server between two dispatches of the call.
    pub(crate) answer: Metadata,
    /// Of a call that was begun: its result brings metadata, and more than interceptors asks for that.
    pub(crate) brings_metadata: bool,
    pub(crate) asks_for_metadata: bool,
}

impl InterceptedCall {
    #[inline]
    pub(crate) fn new(
        (interface, procedure): (&'static Interface, u16),
        caller: Option<Caller>,
        deadline_ns: u64,
        is_timed: bool,
    ) -> Self {
        let begun_ns = if is_timed { clock::now_ns() } else { 0 };
        let (kept, carried, answer) = (Vec::new(), None, Metadata::new());
        let (brings_metadata, asks_for_metadata) = (false, false);
        Self {
            interface,
            procedure,
            caller,
            deadline_ns,
            begun_ns,
            place: 0,
            kept,
            carried,
            answer,
            brings_metadata,
            asks_for_metadata,
        }
    }

    /// With the address of its server, at the client.
    #[inline]
    pub(crate) fn at(self, server: Option<&str>) -> CallInfo<'_> {
        CallInfo { server, call: self }
    }

    fn declared(&self) -> &'static Procedure {
        &self.interface.procedures[usize::from(self.procedure)]
    }
}

impl CallInfo<'_> {
    /// The name of the interface.
    ///
    /// ```
    /// use stoop::Server;
    /// use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
    ///
    /// /// Prints a line for each call.
    /// struct Log;
    ///
    /// impl Intercept for Log {
    ///     fn name(&self) -> &str {
    ///         "log"
    ///     }
    ///
    ///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
    ///         println!("{:?}: {:?} left, one way: {}", call.caller(), call.time_left(), call.is_one_way());
    ///         Before::Go
    ///     }
    ///
    ///     fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
    ///         let (interface, procedure) = (call.interface(), call.procedure());
    ///         println!("{interface}.{procedure} at {:?}: {:?} in {:?}", call.server(), ended.ran(), ended.took());
    ///         if let (true, Err(why)) = (ended.is_known(), ended.outcome()) {
    ///             println!("idempotent: {}: {why}", call.is_idempotent());
    ///         }
    ///         After::Return
    ///     }
    /// }
    ///
    /// let server = Server::new().interceptor(Log);
    /// ```
    pub fn interface(&self) -> &'static str {
        self.call.interface.name
    }

    /// The name of the procedure.
    pub fn procedure(&self) -> &'static str {
        self.call.declared().name
    }

    /// Whether the procedure is `#[idempotent]`.
    pub fn is_idempotent(&self) -> bool {
        self.call.declared().idempotent
    }

    /// Whether it is `#[one_way]`.
    pub fn is_one_way(&self) -> bool {
        self.call.declared().one_way
    }

    /// The address to which the client was bound; `None` at the server.
    pub fn server(&self) -> Option<&str> {
        self.server
    }

    /// The caller; `None` at the client.
    pub fn caller(&self) -> Option<Caller> {
        self.call.caller
    }

    /// Time until the call's deadline; zero afterwards. Of a call that is begun and has not left, what it would have if it left now.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::error::Refusal;
    /// use stoop::intercept::{Before, CallInfo, Intercept};
    ///
    /// /// At a server whose procedures take 50 ms: calls with less time would run in vain.
    /// struct Enough;
    ///
    /// impl Intercept for Enough {
    ///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
    ///         match call.time_left() < Duration::from_millis(50) {
    ///             true => Before::Refuse(Refusal::overloaded("too little time is left")),
    ///             false => Before::Go,
    ///         }
    ///     }
    /// }
    /// ```
    pub fn time_left(&self) -> Duration {
        Duration::from_nanos(self.call.deadline_ns.saturating_sub(clock::now_ns()))
    }

    /// The metadata of the call: at a client the pairs that it will carry, at a server those that came with it. Values may be credentials.
    pub fn metadata(&self) -> Metadata {
        match self.call.caller {
            Some(_) => served::current(),
            None => {
                served::going_on().and(self.call.carried.iter().flat_map(|carried| carried.metadata.pairs()))
            }
        }
    }

    /// Adds pairs, in place of those with the same names. At a client they leave with the call, so this is for
    /// [`before`](crate::intercept::Intercept::before); at a server they come back with its result, if the call came with metadata.
    ///
    /// ```
    /// use stoop::Metadata;
    /// use stoop::intercept::{Before, CallInfo, Intercept};
    ///
    /// /// At a client: gives each call the token of the program.
    /// struct Token(String);
    ///
    /// impl Intercept for Token {
    ///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
    ///         call.add_metadata(&Metadata::new().set("token", &self.0));
    ///         Before::Go
    ///     }
    /// }
    /// let options = stoop::BindOptions::new().interceptor(Token("secret".into()));
    /// ```
    pub fn add_metadata(&mut self, more: &Metadata) {
        match self.call.caller {
            Some(_) => served::set_answer(served::answer().and_all(more)),
            None => {
                let Carried { metadata, .. } = self.call.carried.get_or_insert_default();
                *metadata = std::mem::take(metadata).and_all(more);
            }
        }
    }

    /// The metadata of the answer: at a client what its result has brought, at a server what its result is to bring, while the thread
    /// serves the call.
    ///
    /// ```
    /// use stoop::intercept::{After, CallInfo, Ended, Intercept};
    ///
    /// /// At a client: notes which replica has answered, as that says beside its result.
    /// struct Replica;
    ///
    /// impl Intercept for Replica {
    ///     fn after(&self, call: &CallInfo<'_>, _: &Ended<'_>) -> After {
    ///         if let Some(name) = call.answer_metadata().get("replica") {
    ///             println!("{} by {}", call.procedure(), name.escape_ascii());
    ///         }
    ///         After::Return
    ///     }
    /// }
    /// ```
    pub fn answer_metadata(&self) -> Metadata {
        match self.call.caller {
            Some(_) => served::answer(),
            None => self.call.answer.clone(),
        }
    }

    /// Keeps a value for [`after`](crate::intercept::Intercept::after) of the same interceptor and call; it replaces the one before.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    /// use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
    ///
    /// /// The calls that are under way: a permit is given back when its call has ended, or has not gone on.
    /// #[derive(Default)]
    /// struct UnderWay(Arc<AtomicUsize>);
    /// struct Permit(Arc<AtomicUsize>);
    ///
    /// impl Drop for Permit {
    ///     fn drop(&mut self) {
    ///         self.0.fetch_sub(1, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// impl Intercept for UnderWay {
    ///     fn before(&self, call: &mut CallInfo<'_>) -> Before {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///         call.keep(Permit(Arc::clone(&self.0)));
    ///         Before::Go
    ///     }
    ///     fn after(&self, call: &CallInfo<'_>, _: &Ended<'_>) -> After {
    ///         assert!(call.kept::<Permit>().is_some());
    ///         After::Return
    ///     }
    /// }
    /// ```
    pub fn keep<T: Any + Send>(&mut self, value: T) {
        let place = self.call.place;
        self.call.kept.retain(|(of, _)| *of != place);
        self.call.kept.push((place, Box::new(value)));
    }

    /// The value that this interceptor [keeps](Self::keep) of the call.
    pub fn kept<T: Any + Send>(&self) -> Option<&T> {
        let own = self.call.kept.iter().find(|(of, _)| *of == self.call.place);
        own.and_then(|(_, value)| value.downcast_ref())
    }
}

impl fmt::Debug for CallInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallInfo")
            .field("interface", &self.interface())
            .field("procedure", &self.procedure())
            .field("server", &self.server)
            .field("caller", &self.call.caller)
            .finish_non_exhaustive()
    }
}
