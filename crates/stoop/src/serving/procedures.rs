//! Options of single procedures at a server: how many of their calls run at once, and which calls go first.

use crate::interface::Exported;
use crate::serving::terms::Priority;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Options of a procedure at a server, for [`Server::procedure`](crate::Server::procedure).
///
/// ```
/// use stoop::{Priority, ProcedureOptions, Server};
/// # #[stoop::interface] trait Archive { fn find(&self, name: &str) -> u64; fn rebuild(&self); }
/// # struct Shelf;
/// # impl Archive for Shelf { fn find(&self, name: &str) -> u64 { name.len() as u64 } fn rebuild(&self) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new()
///     .export(ArchiveServer::new(Shelf))
///     .procedure("Archive", "find", ProcedureOptions::new().priority(Priority::High))
///     .procedure("Archive", "rebuild", ProcedureOptions::new().at_once(1).priority(Priority::Low))
///     .listen("tcp://127.0.0.1:0")?
///     .start()?;
/// # ArchiveClient::bind(&server.uris()[0])?.rebuild()?;
/// # server.shut_down();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "options do nothing until a server has them"]
pub struct ProcedureOptions {
    at_once: Option<NonZeroU32>,
    priority: Priority,
}

impl ProcedureOptions {
    /// No limit but the server's workers, and the usual priority.
    pub fn new() -> Self {
        Self::default()
    }

    /// Most calls of the procedure that run at once at each address of the server; others wait, and calls of other procedures pass them.
    /// Each call of such a procedure is counted, which costs some microseconds; without this only calls that take long are.
    ///
    /// # Panics
    /// When it is zero.
    ///
    /// ```
    /// use stoop::{ProcedureOptions, Server};
    ///
    /// // The database takes four connections: a fifth call waits, and calls of other procedures pass it.
    /// let server = Server::new().procedure("Store", "query", ProcedureOptions::new().at_once(4));
    /// ```
    pub fn at_once(mut self, calls: u32) -> Self {
        self.at_once =
            Some(NonZeroU32::new(calls).expect("a procedure of which no call may run is not exported"));
        self
    }

    /// Which calls run first while calls wait for a worker, and which are refused first when the queue is full. A call that finds a
    /// worker free does not wait, whatever its priority is. [`Priority::Normal`] unless set.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) fn limit(&self) -> Option<u32> {
        self.at_once.map(NonZeroU32::get)
    }

    pub(crate) fn its_priority(&self) -> Priority {
        self.priority
    }
}

/// The options of all procedures of the exports: those in `named`, by interface and procedure.
///
/// # Errors
/// The interface or procedure in `named` that is not exported.
pub(crate) fn options_of(
    exports: &[Arc<dyn Exported>],
    named: &[(String, String, ProcedureOptions)],
) -> Result<Vec<Vec<ProcedureOptions>>, String> {
    let mut all: Vec<Vec<_>> = exports
        .iter()
        .map(|export| vec![ProcedureOptions::default(); export.interface().procedures.len()])
        .collect();
    for (interface, procedure, options) in named {
        let place = exports.iter().enumerate().find_map(|(at, export)| {
            let export = export.interface();
            let number = export.procedures.iter().position(|each| each.name == procedure);
            Some((at, number?)).filter(|_| export.name == interface)
        });
        let (at, number) = place.ok_or_else(|| format!("{interface}.{procedure}"))?;
        all[at][number] = *options;
    }
    Ok(all)
}
