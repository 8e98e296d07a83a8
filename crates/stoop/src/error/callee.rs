//! The called procedure and its server, as errors of calls name them.

use crate::error::{CallError, Failure, Refusal, SendError};
use std::borrow::Cow;
use std::fmt;

/// The procedure that a call was for, and the address of its server, as far as they are known.
///
/// ```
/// # #[stoop::interface]
/// # trait Greeter { fn greet(&self, name: &str) -> String; }
/// let lazy = stoop::BindOptions::new().lazy();
/// let greeter = GreeterClient::bind_with("local:not-there", &lazy).unwrap();
/// let error = greeter.greet("world").unwrap_err();
/// let callee = error.callee().unwrap();
/// assert_eq!(callee.interface(), Some("Greeter"));
/// assert_eq!(callee.procedure(), Some("greet"));
/// assert_eq!(callee.server(), Some("local:not-there"));
/// assert!(error.to_string().starts_with("Greeter.greet at local:not-there: not sent"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callee {
    interface: Option<Cow<'static, str>>,
    procedure: Option<Cow<'static, str>>,
    server: Option<String>,
}

impl Callee {
    /// The name of the interface; of a client of Sun RPC without one, the number of the program and of its version.
    ///
    /// ```
    /// use stoop::CallError;
    ///
    /// /// The labels of a counter of failures: few values, unlike the text of the error.
    /// fn labels(error: &CallError) -> (String, &'static str) {
    ///     let callee = error.callee();
    ///     let interface = callee.and_then(|callee| callee.interface()).unwrap_or("unknown");
    ///     let procedure = callee.and_then(|callee| callee.procedure()).unwrap_or("unknown");
    ///     let kind = match error {
    ///         CallError::NotSent(..) | CallError::Refused(..) => "did not run",
    ///         _ => "may have run",
    ///     };
    ///     (format!("{interface}.{procedure}"), kind)
    /// }
    /// ```
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// The name of the procedure; of a client of Sun RPC without an interface, its number.
    pub fn procedure(&self) -> Option<&str> {
        self.procedure.as_deref()
    }

    /// The address of the server, as it was given to the client. `None` only for a begun call whose result cannot be decoded.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The procedure of that name in an interface, at a server that is not known.
    pub(crate) fn named(interface: &'static str, procedure: Option<&'static str>) -> Self {
        Self { interface: Some(interface.into()), procedure: procedure.map(Into::into), server: None }
    }

    /// The same procedure, at that server.
    pub(crate) fn at_server(self, server: &str) -> Self {
        Self { server: Some(server.to_owned()), ..self }
    }

    /// A procedure by its numbers.
    #[cfg(feature = "onc")]
    pub(crate) fn numbered((program, version): (u32, u32), procedure: u32, server: String) -> Self {
        let interface = format!("program {program} version {version}");
        let (interface, procedure) = (Some(interface.into()), Some(procedure.to_string().into()));
        Self { interface, procedure, server: Some(server) }
    }

    /// A procedure that is not known, at that server.
    pub(crate) fn at(server: &str) -> Self {
        Self { server: Some(server.to_owned()), ..Self::default() }
    }

    /// Takes from `other` what it knows.
    pub(crate) fn learn(&mut self, other: Self) {
        let Self { interface, procedure, server } = other;
        if interface.is_some() {
            (self.interface, self.procedure) = (interface, procedure);
        }
        if server.is_some() {
            self.server = server;
        }
    }
}

/// `Greeter.greet at udp://10.0.0.1:7400`.
impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, procedure, server } = self;
        f.write_str(interface.as_deref().unwrap_or("a call"))?;
        if let Some(procedure) = procedure {
            let dot =
                if procedure.starts_with(|first: char| first.is_ascii_digit()) { " procedure " } else { "." };
            write!(f, "{dot}{procedure}")?;
        }
        match server {
            Some(server) => write!(f, " at {server}"),
            None => Ok(()),
        }
    }
}

impl CallError {
    pub(crate) fn not_sent(why: SendError) -> Self {
        Self::NotSent(why, None)
    }

    pub(crate) fn refused(why: Refusal) -> Self {
        Self::Refused(why, None)
    }

    pub(crate) fn failed(why: Failure) -> Self {
        Self::Failed(why, None)
    }

    /// The same error, of a call to the server at that address.
    #[cold]
    pub(crate) fn at(self, server: &str) -> Self {
        self.knowing(Callee::at(server))
    }

    /// The same error, of a call of which this is known, too.
    #[cold]
    pub(crate) fn knowing(mut self, known: Callee) -> Self {
        self.note(known);
        self
    }

    /// This is known of the call, too.
    #[cold]
    pub(crate) fn note(&mut self, known: Callee) {
        self.callee_place().get_or_insert_default().learn(known);
    }

    fn callee_place(&mut self) -> &mut Option<Box<Callee>> {
        match self {
            Self::NotSent(_, callee)
            | Self::Refused(_, callee)
            | Self::Failed(_, callee)
            | Self::Unknown { callee, .. }
            | Self::Peer(_, callee)
            | Self::Sun(_, callee) => callee,
        }
    }

    /// The procedure and the server of the call. `None` while the call is still in the hands of [interceptors](crate::intercept), which
    /// know them by themselves.
    ///
    /// ```
    /// /// One line for each pair of procedure and server, however different the errors are.
    /// fn key(error: &stoop::CallError) -> String {
    ///     error.callee().map_or("?".into(), |callee| callee.to_string()) // Greeter.greet at udp://10.0.0.1:7400
    /// }
    /// ```
    pub fn callee(&self) -> Option<&Callee> {
        match self {
            Self::NotSent(_, callee)
            | Self::Refused(_, callee)
            | Self::Failed(_, callee)
            | Self::Unknown { callee, .. }
            | Self::Peer(_, callee)
            | Self::Sun(_, callee) => callee.as_deref(),
        }
    }
}
