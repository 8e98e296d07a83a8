//! The parts of a server that only Sun RPC uses: programs that are no interfaces, and its entries at rpcbind.

use crate::error::ListenError;
use crate::interface::{Exported, Procedure};
use crate::onc::address::Transport;
use crate::onc::server::exported::ExportedProgram;
use crate::onc::server::listener::{Registered, SunListener};
use crate::onc::server::registration::Registration;
use crate::program::programs::Programs;
use crate::program::{Program, VersionId};
use crate::server::Server;
use crate::server::running::{Running, RunningServer};
use std::sync::Arc;

/// Programs that are no interfaces, and what rpcbind is to be told.
#[derive(Default)]
pub(super) struct SunRpc {
    programs: Vec<Arc<dyn Program>>,
    /// The addresses that rpcbind has a form for.
    places: Vec<Registered>,
    registers: bool,
}

impl Server {
    /// Adds one version of a program of Sun RPC that is written by hand, for the `onc+…:` addresses of the server. An interface with
    /// `#[interface(program = …, version = …)]` needs no more than [`export`](Self::export).
    ///
    /// ```
    /// use stoop::Server;
    /// use stoop::onc::stub::{IncomingCall, NoResult, Program};
    /// use stoop::onc::{Client, VersionId};
    ///
    /// struct Squares;
    ///
    /// impl Program for Squares {
    ///     fn version(&self) -> VersionId {
    ///         VersionId { program: 0x2000_0001, version: 1 }
    ///     }
    ///
    ///     fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
    ///         match call.procedure() {
    ///             1 => {
    ///                 let number: u32 = call.arguments().value()?;
    ///                 call.reply(&(u64::from(number) * u64::from(number)))
    ///             }
    ///             _ => Err(NoResult::ProcedureUnavailable),
    ///         }
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::new().program(Squares).listen("onc+udp://127.0.0.1")?.start()?;
    ///
    /// let client = Client::bind(&format!("{}/0x20000001:1", server.uris()[0]))?;
    /// assert_eq!(client.call::<_, u64>(1, &9_u32)?, 81);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Any process that reaches an address of Sun RPC may call: AUTH_SYS proves nothing. Listen at a loopback address unless all hosts
    /// that reach another one are trusted.
    ///
    /// # Panics
    /// When the server has that version of the program already.
    pub fn program(mut self, program: impl Program) -> Self {
        let id = program.version();
        let twice = self.sun.programs.iter().any(|other| other.version() == id);
        assert!(!twice, "the server has version {} of program {} already", id.version, id.program);
        self.sun.programs.push(Arc::new(program));
        self
    }

    /// Exports an implementation of an interface for callers of Sun RPC only, as this version of a program in place of its own: for
    /// [callbacks](VersionId::transient), or to serve one interface as several programs.
    ///
    /// # Panics
    /// When the interface is no program (`#[interface(program = …, version = …)]`), or the server has that version already.
    pub fn export_as(self, export: impl Exported, version: VersionId) -> Self {
        let name = export.interface().name;
        let program = ExportedProgram::new(&(Arc::new(export) as Arc<dyn Exported>));
        let program = program.unwrap_or_else(|| panic!("the interface {name} names no program and version"));
        self.program(program.renumbered(version))
    }

    /// Registers all programs at all `onc+…:` addresses with the rpcbind of this host, when the server starts; it unregisters them when
    /// it shuts down, unless another server has registered them since. What was registered before for the same programs and transports
    /// goes: for example what a server left that was killed. A [transient](VersionId::transient) program takes no other's place: if its
    /// number is taken, the server does not start.
    pub fn register(mut self) -> Self {
        self.sun.registers = true;
        self
    }

    pub(super) fn listen_by_sun_rpc(mut self, uri: &str) -> Result<Self, ListenError> {
        let listener = SunListener::bind(uri, &self.own)?;
        self.sun.places.extend(listener.registered());
        self.listeners.push(Box::new(listener));
        self.own.apply_to(uri);
        Ok(self)
    }

    pub(super) fn has_programs(&self) -> bool {
        !self.sun.programs.is_empty()
    }

    /// All programs: those of exports, and the others.
    ///
    /// # Errors
    /// Two of them have the same numbers.
    pub(super) fn programs(&self) -> Result<Programs, ListenError> {
        let mut all = Programs::default();
        let exported = self.exports.iter().filter_map(ExportedProgram::new);
        let exported = exported.map(|program| Arc::new(program) as Arc<dyn Program>);
        match exported.chain(self.sun.programs.iter().cloned()).all(|program| all.add(program)) {
            true => Ok(all),
            false => Err(ListenError::Incomplete(
                "two interfaces of the server are the same version of a program; give each its own (`#[interface(program, version)]`)",
            )),
        }
    }

    /// Whether there is something to serve at each address, whichever protocol its callers speak.
    pub(super) fn check_sun_rpc(&self) -> Result<(), ListenError> {
        let (sun, native): (Vec<_>, Vec<_>) =
            self.listeners.iter().partition(|listener| Transport::of(listener.uri()).is_some());
        let has_programs =
            self.has_programs() || self.exports.iter().any(|export| export.program().is_some());
        let has_pipes =
            |export: &Arc<dyn Exported>| export.interface().procedures.iter().any(Procedure::has_pipes);
        let missing = match (sun.is_empty(), native.is_empty()) {
            (false, _) if !has_programs && self.exports.iter().any(has_pipes) => {
                "the server listens for Sun RPC, which has no pipes, and an interface that it exports has some; listen at addresses of \
                 other transports, and export another interface, without pipes and with numbers (`#[interface(program = …, \
                 version = …)]`), for Sun RPC"
            }
            (false, _) if !has_programs => {
                "the server listens for Sun RPC and has no program; declare the numbers of an interface (`#[interface(program = …, \
                 version = …)]`), or call Server::program"
            }
            (_, false) if self.exports.is_empty() && self.has_programs() => {
                "the server exports nothing at its addresses without onc+; Server::program serves callers of Sun RPC only"
            }
            (true, false) if self.sun.registers => {
                "the server is to register with rpcbind and listens at no address of Sun RPC; call Server::listen with onc+udp://… \
                 or onc+tcp://…"
            }
            _ => return Ok(()),
        };
        Err(ListenError::Incomplete(missing))
    }
}

impl SunRpc {
    /// Registers the programs, if that is wanted; the entries go when the server ends.
    pub(super) fn register(&self, programs: &Programs, running: &mut Running) -> Result<(), ListenError> {
        if self.registers {
            let versions: Vec<_> = programs.ids().collect();
            let registration = Registration::begin(&versions, &self.places);
            let registration = registration.map_err(ListenError::Rpcbind)?;
            // It is no address, and ends first.
            running.endpoints.insert(0, Box::new(registration));
        }
        Ok(())
    }
}

/// The middle layer: serves one version of a program over UDP and TCP at all addresses of this host, and registers it with rpcbind.
///
/// ```no_run
/// # use stoop::onc::stub::{IncomingCall, NoResult, Program};
/// # use stoop::onc::VersionId;
/// # struct Squares;
/// # impl Program for Squares {
/// #     fn version(&self) -> VersionId { VersionId { program: 0x2000_0001, version: 1 } }
/// #     fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> { call.reply(&()) }
/// # }
/// stoop::onc::register(Squares)?.wait();
/// # Ok::<(), stoop::ListenError>(())
/// ```
///
/// # Errors
/// As [`Server::listen`] and [`Server::start`].
pub fn register(program: impl Program) -> Result<RunningServer, ListenError> {
    let server = Server::new().program(program).listen("onc+udp://0.0.0.0")?.listen("onc+tcp://0.0.0.0")?;
    server.register().start()
}
