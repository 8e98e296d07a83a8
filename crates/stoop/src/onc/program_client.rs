//! The client of an interface that is a program of Sun RPC, too: which of the two protocols it speaks, its address decides.

use crate::client::binding_task::bind_in_thread;
use crate::client::pending::Pending;
use crate::client::{Begin, Beginning, Binding, Client, Route};
use crate::error::{BindError, CallError};
use crate::interface::Interface;
use crate::metadata::{AnswerMetadata, Metadata};
use crate::onc::{self, ClientOptions};
use crate::options::BindOptions;
use crate::options::own::scheme_of;
use crate::program::VersionId;
use crate::security::Security;
use std::fmt;
use std::time::Duration;
use stoop_marshal::EncodeError;

/// A bound client of an interface whose trait object is `L`.
pub struct ProgramClient<L: ?Sized> {
    /// Not bound if `sun` is there.
    native: Client<L>,
    sun: Option<onc::Client>,
}

/// Begins calls, see [`Begin`].
#[must_use = "this begins no call yet: call a procedure on it"]
#[derive(Debug)]
pub struct ProgramBegin<'a> {
    native: Begin<'a>,
    sun: Option<onc::Client>,
}

impl<L: ?Sized> Clone for ProgramClient<L> {
    fn clone(&self) -> Self {
        Self { native: self.native.clone(), sun: self.sun.clone() }
    }
}

impl<L: ?Sized> fmt::Debug for ProgramClient<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sun {
            Some(sun) => sun.fmt(f),
            None => self.native.fmt(f),
        }
    }
}

impl<L: ?Sized + Send + Sync + 'static> ProgramClient<L> {
    /// Binds to the server at `uri`: an address of Sun RPC, which need not have the numbers of `version`, or one of Stoop.
    ///
    /// # Errors
    /// Why there is no binding; see [`BindError`].
    pub fn bind(
        interface: &'static Interface,
        version: VersionId,
        uri: &str,
        options: &BindOptions,
    ) -> Result<Self, BindError> {
        if onc::Transport::of(uri).is_none() {
            return Ok(Self { native: Client::bind(interface, uri, options)?, sun: None });
        }
        options.own.check_at_client(uri, &[scheme_of(uri)])?;
        let client = onc::Client::bind_with(&with_version(uri, version), &sun_options(options))?;
        Ok(Self::over(interface, client).with_timeout(options.timeout))
    }

    /// As [`bind`](Self::bind), in another thread.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); or the system gives no thread.
    pub async fn bind_async(
        interface: &'static Interface,
        version: VersionId,
        uri: &str,
        options: &BindOptions,
    ) -> Result<Self, BindError> {
        if onc::Transport::of(uri).is_none() {
            return Ok(Self { native: Client::bind_async(interface, uri, options).await?, sun: None });
        }
        let (server, options) = (uri.to_owned(), options.clone());
        bind_in_thread(uri, move |_| Self::bind(interface, version, &server, &options)).await
    }

    /// A client that calls by this client of Sun RPC.
    pub fn over(interface: &'static Interface, client: onc::Client) -> Self {
        let described = client.clone();
        let native = Client::elsewhere(interface, client.address(), move || described.describe());
        Self { native, sun: Some(client) }
    }
}

/// The address with a program and a version.
fn with_version(uri: &str, version: VersionId) -> String {
    let is_version = |text: &str| {
        text.contains(':')
            && text.bytes().all(|byte| byte == b':' || byte.is_ascii_hexdigit() || byte == b'x')
    };
    match uri.rsplit_once('/') {
        Some((before, last)) if !before.ends_with('/') && is_version(last) => uri.to_owned(),
        _ => format!("{}/{version}", uri.trim_end_matches('/')),
    }
}

/// The options of the client of Sun RPC: its own, and those of all bindings. Not [`upgrade`](BindOptions::upgrade), since a server of Sun
/// RPC offers no other transport, and not [`retry`](BindOptions::retry), since its protocol has no refusal for overload.
fn sun_options(options: &BindOptions) -> ClientOptions {
    let own: ClientOptions = options.own.of();
    let message_max = own.message_max.min(options.max_message);
    let own = own.timeout(options.timeout).bind_timeout(options.bind_timeout).waiting(options.waiting);
    let own = own.max_message(message_max);
    let said: Security = options.own.of();
    let own = if said.is_said() { own.security(said) } else { own };
    let own = if options.lazy { own.lazy() } else { own };
    let wait_for_server = options.wait_for_server.or(own.wait_for_server);
    let wait_for_restart = options.wait_for_restart.or(own.wait_for_restart);
    ClientOptions { wait_for_server, wait_for_restart, ..own }
}

impl<L: ?Sized> ProgramClient<L> {
    /// The same binding with another time for each call.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        let sun = self.sun.as_ref().map(|sun| sun.with_timeout(timeout));
        Self { native: self.native.with_timeout(timeout), sun }
    }

    /// The same binding, whose calls carry this.
    #[must_use]
    pub fn with_metadata(&self, metadata: Metadata) -> Self {
        let sun = self.sun.as_ref().map(|sun| sun.with_metadata(&metadata));
        Self { native: self.native.with_metadata(metadata), sun }
    }

    /// The same binding; the metadata of the results goes there. Those of Sun RPC have none.
    #[must_use]
    pub fn with_answer_metadata(&self, answer: &AnswerMetadata) -> Self {
        Self { native: self.native.with_answer_metadata(answer), sun: self.sun.clone() }
    }

    /// The binding.
    pub fn binding(&self) -> &Binding {
        self.native.binding()
    }

    /// Begins calls that no thread waits for yet.
    pub fn begin(&self) -> ProgramBegin<'_> {
        ProgramBegin { native: self.native.begin(), sun: self.sun.clone() }
    }

    /// The client of Sun RPC, if calls take that way.
    #[inline]
    pub fn program(&self) -> Option<&onc::Client> {
        self.sun.as_ref()
    }

    /// See [`Client::tell`].
    ///
    /// # Errors
    /// It never left, and will not run.
    pub fn tell(&self, call: Beginning<'_>, arguments: Result<usize, EncodeError>) -> Result<(), CallError> {
        self.native.tell(call, arguments)
    }
}

impl<L: ?Sized + Send + Sync + 'static> ProgramClient<L> {
    /// As [`begin`](Self::begin), for a thread that must not wait. Over Sun RPC it waits for a connection, if there is none.
    pub fn begin_async(&self) -> ProgramBegin<'_> {
        let native = match &self.sun {
            Some(_) => self.native.begin(),
            None => self.native.begin_async(),
        };
        ProgramBegin { native, sun: self.sun.clone() }
    }

    /// The way that a call by Stoop's own protocol takes.
    ///
    /// # Errors
    /// See [`Client::route`].
    #[inline]
    pub fn route(&self, procedure: u16) -> Result<Route<'_, L>, CallError> {
        self.native.route(procedure)
    }
}

impl ProgramBegin<'_> {
    /// See [`Begin::with_timeout`].
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let sun = self.sun.as_ref().map(|sun| sun.with_timeout(timeout));
        Self { native: self.native.with_timeout(timeout), sun }
    }

    /// See [`Begin::with_metadata`].
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        let sun = self.sun.as_ref().map(|sun| sun.with_metadata(&metadata));
        Self { native: self.native.with_metadata(metadata), sun }
    }

    /// See [`Begin::with_answer_metadata`].
    pub fn with_answer_metadata(self, answer: &AnswerMetadata) -> Self {
        Self { native: self.native.with_answer_metadata(answer), sun: self.sun }
    }

    /// The client of Sun RPC, if calls take that way.
    #[inline]
    pub fn program(&self) -> Option<&onc::Client> {
        self.sun.as_ref()
    }

    /// See [`Begin::start`].
    #[inline]
    pub fn start(&self, procedure: u16) -> Beginning<'_> {
        self.native.start(procedure)
    }
}

/// The handle of a call that has ended.
pub fn ended<R>(outcome: R) -> Pending<R> {
    Pending::ready(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_numbers_gets_those_of_the_interface() {
        let version = VersionId { program: 7, version: 2 };
        for (uri, expected) in [
            ("onc+udp://host", "onc+udp://host/7:2"),
            ("onc+udp://host/", "onc+udp://host/7:2"),
            ("onc+tcp://host:2049", "onc+tcp://host:2049/7:2"),
            ("onc+tcp://[::1]:2049", "onc+tcp://[::1]:2049/7:2"),
            ("onc+tcp://host:2049/0x20000001:3", "onc+tcp://host:2049/0x20000001:3"),
            ("onc+unix:/run/a.sock", "onc+unix:/run/a.sock/7:2"),
            ("onc+unix:/run/a.sock/9:1", "onc+unix:/run/a.sock/9:1"),
            ("onc+unix:@name", "onc+unix:@name/7:2"),
        ] {
            assert_eq!(with_version(uri, version), expected);
        }
    }
}
