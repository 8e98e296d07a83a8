//! The server half of an interface that is known at run time only.

use crate::dynamic::Interface;
use crate::error::{Failure, Refusal};
use crate::interface;
use crate::later::piped::run_with_pipes;
use crate::later::room::{OpenRoom, keep_arguments};
use crate::later::tasks::Tasks;
use crate::later::unserved::Unserved;
use crate::pipes::contract::Pipes;
use crate::pipes::ends::ServedEnds;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use stoop_marshal::{DecodeError, Reader, Writer};

/// An interface that is known at run time only, and the function that serves its calls.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::dynamic::{Client, Exported, Interface, NoResult, Procedure, Reader};
/// use stoop::error::Refusal;
/// use stoop::{BindOptions, Server};
///
/// // A proxy that looks at the calls of one procedure, and refuses the others.
/// let interface = Interface::new("Store", [Procedure::new("get(key: u32) -> u32"), Procedure::new("put(key: u32, value: u32)")])?;
/// let store = Exported::new(interface, |procedure, arguments, result| match procedure {
///     0 => {
///         let mut arguments = Reader::new(arguments);
///         let key: u32 = arguments.value()?;
///         arguments.finish()?;
///         result.value(&(key + 1));
///         Ok(())
///     }
///     _ => Err(NoResult::Refused(Refusal::denied("this copy is only read"))),
/// });
/// let server = Server::new().export(store).listen("tcp://127.0.0.1:0")?.start()?;
///
/// let client = Client::bind(&server.uris()[0], interface, &BindOptions::new())?;
/// let value: u32 = client.call(0, |arguments| arguments.value(&6_u32), |result| result.value())?;
/// assert_eq!(value, 7);
/// # Ok(())
/// # }
/// ```
pub struct Exported<F> {
    interface: Interface,
    serve: F,
    /// Those of each procedure.
    pipes: Box<[Pipes]>,
    serve_with_pipes: Option<Arc<ServeWithPipes>>,
    room: OnceLock<Arc<OpenRoom>>,
    tasks: OnceLock<Arc<Tasks>>,
}

/// Serves a call of a procedure with pipes.
type ServeWithPipes = dyn Fn(u16, &[u8], ServedEnds) -> Result<Vec<u8>, NoResult> + Send + Sync;

/// Why a call of a procedure with pipes is refused by an export that has no function for these.
const NO_PIPES: &str =
    "the procedure has pipes, and the server serves none: its export needs dynamic::Exported::with_pipes";

/// Why a call has no result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NoResult {
    /// The arguments are none of the procedure, which did not run.
    BadArguments(DecodeError),
    /// The procedure did not run.
    Refused(Refusal),
    /// The procedure ran.
    Failed(Failure),
}

impl From<DecodeError> for NoResult {
    fn from(why: DecodeError) -> Self {
        Self::BadArguments(why)
    }
}

impl From<NoResult> for Unserved {
    fn from(why: NoResult) -> Self {
        match why {
            NoResult::BadArguments(why) => Self::BadArguments(why),
            NoResult::Refused(why) => Self::Refused(why),
            NoResult::Failed(why) => Self::Failed(why),
        }
    }
}

impl<F> Exported<F>
where
    F: Fn(u16, &[u8], &mut Writer<'_>) -> Result<(), NoResult> + Send + Sync + 'static,
{
    /// Exports `interface`: `serve` gets the number of the procedure and the bytes of the arguments, and writes the bytes of the result.
    /// Within it [`current_call`](crate::current_call) is the call. It has to check the arguments. Calls of
    /// procedures with pipes are refused, unless [`with_pipes`](Self::with_pipes) says how they are served.
    pub fn new(interface: Interface, serve: F) -> Self {
        let pipes = (0..).zip(interface.procedures()).map(|(number, _)| interface.pipes(number)).collect();
        Self {
            interface,
            serve,
            pipes,
            serve_with_pipes: None,
            room: OnceLock::new(),
            tasks: OnceLock::new(),
        }
    }

    /// Serves the procedures with [pipes](crate::Sender): `serve` gets the number of the procedure, the bytes of the arguments, and the
    /// ends of the call's pipes, whose items are bytes as `docs/native-form.md` has values, and returns the bytes of the result. The
    /// arguments have a `u64` in the place of a pipe *from* the procedure: the window that [`ServedEnds::sender`] asks for. Each call runs in a
    /// thread of its own, of which a server has so many as [`Limits::pipe_threads`](crate::Limits::pipe_threads) says.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use stoop::dynamic::{Exported, Interface, NoResult, Procedure, Reader};
    /// use stoop::error::Refusal;
    /// use stoop::{Receiver, Sender, Server};
    ///
    /// let interface = Interface::new("Tee", [Procedure::new("copy(lines: pipe in str, again: pipe out str)")])?;
    /// let tee = Exported::new(interface, |_, _, _| Err(NoResult::Refused(Refusal::denied("none but copy")))).with_pipes(
    ///     |_, arguments, mut ends| {
    ///         let mut arguments = Reader::new(arguments);
    ///         let window = arguments.value()?;
    ///         arguments.finish()?;
    ///         let (lines, again) = (ends.receiver::<[u8]>(), ends.sender::<[u8]>(window));
    ///         for line in lines.flatten() {
    ///             let _ = again.send(&line);
    ///         }
    ///         Ok(Vec::new())
    ///     },
    /// );
    /// let server = Server::new().export(tee).listen("tcp://127.0.0.1:0")?.start()?;
    ///
    /// #[stoop::interface]
    /// trait Tee { fn copy(&self, lines: Receiver<str>, again: Sender<str>); }
    /// let (call, lines, mut again) = TeeClient::bind(&server.uris()[0])?.copy();
    /// lines.send("to be said twice")?;
    /// lines.finish();
    /// assert_eq!(again.recv()?.as_deref(), Some("to be said twice"));
    /// call.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_pipes(
        self,
        serve: impl Fn(u16, &[u8], ServedEnds) -> Result<Vec<u8>, NoResult> + Send + Sync + 'static,
    ) -> Self {
        Self { serve_with_pipes: Some(Arc::new(serve)), ..self }
    }

    /// Has a call of a procedure with pipes run once it has them.
    fn dispatch_with_pipes(&self, procedure: u16, pipes: Pipes, arguments: &[u8]) -> Result<(), Unserved> {
        let Some(serve) = self.serve_with_pipes.clone() else {
            return Err(Unserved::Refused(Refusal::denied(NO_PIPES)));
        };
        let arguments = keep_arguments(&self.room, arguments)?;
        let run = move |ends| Ok(serve(procedure, &arguments, ends)?);
        run_with_pipes(&self.tasks, pipes, run, |bytes: Vec<u8>, result| result.scalars(&bytes))
    }
}

impl<F> fmt::Debug for Exported<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exported").field("interface", &self.interface).finish_non_exhaustive()
    }
}

impl<F> interface::Exported for Exported<F>
where
    F: Fn(u16, &[u8], &mut Writer<'_>) -> Result<(), NoResult> + Send + Sync + 'static,
{
    fn interface(&self) -> &'static interface::Interface {
        self.interface.0
    }

    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved> {
        let Some(&pipes) = self.pipes.get(usize::from(procedure)) else {
            return Err(Unserved::UnknownProcedure);
        };
        match pipes.count() {
            0 => Ok((self.serve)(procedure, call.into_payload(), result)?),
            _ => self.dispatch_with_pipes(procedure, pipes, call.into_payload()),
        }
    }

    fn lend_room(&self, room: &Arc<OpenRoom>) {
        let _ = self.room.set(Arc::clone(room));
    }

    fn lend_tasks(&self, tasks: &Arc<Tasks>) {
        let _ = self.tasks.set(Arc::clone(tasks));
    }

    /// Of no trait: calls of the same process have their arguments marshaled.
    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}
