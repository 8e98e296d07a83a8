//! A client's binding to a server of its own process, and the server that takes over its name.

use crate::agreed::Agreed;
use crate::calling::begun::BegunCalls;
use crate::calling::counters::CallCounters;
use crate::error::{BindError, CallError, Callee, SendError};
use crate::intercept::chain::Interceptors;
use crate::intercept::client::ClientChain;
use crate::interface::{Interface, Procedure};
use crate::locked::locked;
use crate::transport::contract::{Binding, IsOurs, Target};
use crate::transport::local::begun::LocalCalls;
use crate::transport::local::lane::LocalLane;
use crate::transport::local::server::{LocalServer, find, is_taken};
use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex};
use stoop_exchange::{Interfaces, fingerprint};
use stoop_wire::metadata::BLOCK_MAX;

/// Where a client looks for a server of its own process.
pub(crate) struct Source {
    interface: &'static Interface,
    uri: String,
    name: String,
    is_ours: IsOurs,
    interceptors: Interceptors,
}

/// A binding to a server of this process.
pub(crate) struct LocalBinding {
    pub(crate) source: Arc<Source>,
    /// The server's export for calls through the trait, of the client's type.
    pub(crate) object: Box<dyn Any + Send + Sync>,
    pub(crate) server: Arc<LocalServer>,
    /// Of the client.
    pub(crate) interceptors: Option<ClientChain>,
    /// Whether calls have their arguments marshaled, and do not go through the trait: one of the ends has interceptors.
    pub(crate) is_marshaled: bool,
    /// The server of marshaled calls.
    present: Arc<Mutex<Present>>,
}

impl Source {
    pub(crate) fn of(target: &Target<'_>) -> Self {
        let Target { interface, is_ours, .. } = *target;
        let interceptors = target.options.interceptors.clone();
        Self { interface, uri: target.uri.into(), name: target.address.into(), is_ours, interceptors }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// As [`Binding::callee`].
    pub(crate) fn callee(&self, procedure: u16) -> Callee {
        Callee::new(self.interface, procedure, &self.uri)
    }

    /// Binds to the server that has taken the name of one that was shut down.
    pub(crate) fn find_next(self: &Arc<Self>) -> Result<LocalBinding, SendError> {
        match is_taken(&self.name) {
            true => LocalBinding::find(self).map_err(|why| SendError::Bind(Box::new(why))),
            false => Err(SendError::Closed),
        }
    }
}

impl LocalBinding {
    /// Binds to the server that has the name.
    pub(crate) fn find(source: &Arc<Source>) -> Result<Self, BindError> {
        let Source { interface, uri, name, is_ours, interceptors } = &**source;
        let Some(server) = find(name) else {
            let cause = io::Error::new(io::ErrorKind::NotFound, "no server of this process has that name");
            return Err(BindError::Unreachable { server: uri.clone(), cause });
        };
        let Some(export) = server.export(interface) else {
            let exported = server.names();
            return Err(BindError::NoSuchInterface {
                server: uri.clone(),
                interface: interface.name,
                exported,
            });
        };
        let object = export.local();
        let theirs = export.interface();
        let is_dynamic = interface.is_dynamic() || theirs.is_dynamic();
        let mut agreed = None;
        if !(is_ours(&*object) || is_dynamic && begins_as(interface, theirs)) {
            let server = Interfaces::new([theirs.for_exchange()]);
            let found = server.agree(&interface.for_exchange());
            // Without revisions, two traits of one name are taken for a mistake.
            let has_revisions = [interface, theirs].iter().any(|each| each.revision_range().0 > 0);
            agreed = found.ok().filter(|_| has_revisions).map(Agreed::from);
            if agreed.is_none() {
                return Err(mismatch(interface, theirs, uri.clone()));
            }
        }
        let interceptors = ClientChain::new(interceptors, interface, uri);
        let is_marshaled = interceptors.is_some() || export.is_marshaled() || is_dynamic || agreed.is_some();
        let present = Present { server: Arc::clone(&server), agreed };
        let (source, present) = (Arc::clone(source), Arc::new(Mutex::new(present)));
        Ok(Self { source, object, server, interceptors, is_marshaled, present })
    }

    /// The server that has the name now, with the number of the interface there.
    pub(crate) fn present(&self) -> Result<(Present, u16), SendError> {
        let mut present = locked(&self.present);
        if !present.server.is_open() {
            *present = locked(&self.source.find_next()?.present).clone();
        }
        let number =
            present.server.number(self.source.interface).expect("the interface was looked up in finding it");
        Ok((present.clone(), number as u16))
    }

    fn calls(&self) -> Arc<LocalCalls> {
        let agreed = locked(&self.present).agreed.clone();
        Arc::new(self.server.calls(self.source.interface, agreed))
    }
}

/// A server, and what it has of the client's interface.
#[derive(Clone)]
pub(crate) struct Present {
    pub(crate) server: Arc<LocalServer>,
    agreed: Option<Agreed>,
}

impl Present {
    /// As [`Agreed::number`].
    pub(crate) fn number(&self, made: u16) -> Option<u16> {
        self.agreed.as_ref().map_or(Some(made), |agreed| agreed.number(made))
    }

    /// As [`Agreed::form`].
    pub(crate) fn form(&self, procedure: u16) -> Option<u16> {
        self.agreed.as_ref().map_or(Some(procedure), |agreed| agreed.form(procedure))
    }
}

/// Whether the first procedures of `theirs` are those of `ours`, so that their numbers are the same.
fn begins_as(ours: &Interface, theirs: &Interface) -> bool {
    let is_same = |(ours, theirs): (&Procedure, &Procedure)| {
        fingerprint(&ours.signature()) == fingerprint(&theirs.signature())
    };
    ours.procedures.len() <= theirs.procedures.len()
        && ours.procedures.iter().zip(theirs.procedures).all(is_same)
}

/// Two traits of one name in one process: says where they differ.
fn mismatch(ours: &'static Interface, theirs: &Interface, server: String) -> BindError {
    let signature = Procedure::signature;
    let of_theirs =
        |name| theirs.procedures.iter().find(|p| p.name == name).map(signature).unwrap_or_default();
    let differs = |p: &&Procedure| fingerprint(&signature(p)) != fingerprint(&of_theirs(p.name));
    match ours.procedures.iter().find(differs) {
        Some(differs) => BindError::Mismatch {
            interface: ours.name,
            procedure: differs.name,
            ours: signature(differs),
            theirs: of_theirs(differs.name),
        },
        None => BindError::Refused {
            server,
            why: "it was built from another trait of the same name; use one trait at both ends",
        },
    }
}

impl Binding for LocalBinding {
    type Lane<'a> = Box<LocalLane<'a>>;

    // Inlined into the dispatch of all transports, it would slow them down.
    #[cold]
    #[inline(never)]
    fn hold(&self, timeout_ns: u64) -> Result<Box<LocalLane<'_>>, CallError> {
        LocalLane::hold(self, timeout_ns)
    }

    fn callee(&self, procedure: u16) -> Callee {
        self.source.callee(procedure)
    }

    fn describe(&self) -> String {
        match self.is_marshaled {
            false => "calls through the trait, because the server is in this process".into(),
            true => "calls in the caller's thread with marshaled arguments, because the server is in this process and an end has interceptors, knows the interface at run time only, or knows another revision of it".into(),
        }
    }

    fn describe_buffers(&self) -> String {
        let buffers = if self.is_marshaled { "copies of the buffers" } else { "the buffers themselves" };
        format!("; the procedure gets {buffers}")
    }

    fn describe_checksums(&self) -> &'static str {
        "; no checksums, because nothing lies between the two ends"
    }

    /// Counting would cost more than the call.
    fn counters(&self) -> CallCounters {
        CallCounters::default()
    }

    fn metadata_max(&self) -> usize {
        BLOCK_MAX
    }

    fn form(&self, procedure: u16) -> Option<u16> {
        locked(&self.present).form(procedure)
    }
}

/// The begun calls of a binding: a table for each server that had the name.
pub(crate) struct LocalBegun {
    source: Arc<Source>,
    /// The server of the binding's marshaled calls: it tells the form in which calls are begun.
    server: Arc<Mutex<Present>>,
    present: Mutex<Arc<LocalCalls>>,
}

impl LocalBegun {
    pub(crate) fn new(binding: &LocalBinding) -> Self {
        let (source, server) = (Arc::clone(&binding.source), Arc::clone(&binding.present));
        Self { source, server, present: Mutex::new(binding.calls()) }
    }
}

impl BegunCalls for LocalBegun {
    type Table = LocalCalls;

    fn present(&self) -> Result<Arc<LocalCalls>, SendError> {
        let mut present = locked(&self.present);
        if !present.is_open() {
            let next = self.source.find_next()?;
            *present = next.calls();
            *locked(&self.server) = locked(&next.present).clone();
        }
        Ok(Arc::clone(&present))
    }

    fn latest(&self) -> Arc<LocalCalls> {
        Arc::clone(&locked(&self.present))
    }

    fn counters(&self) -> CallCounters {
        CallCounters::default()
    }
}
