//! The server half of an interface that is known at run time only.

use crate::dynamic::Interface;
use crate::error::{Failure, Refusal};
use crate::interface;
use crate::later::unserved::Unserved;
use std::any::Any;
use std::fmt;
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
}

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

impl<F> Exported<F>
where
    F: Fn(u16, &[u8], &mut Writer<'_>) -> Result<(), NoResult> + Send + Sync + 'static,
{
    /// Exports `interface`: `serve` gets the number of the procedure and the bytes of the arguments, and writes the bytes of the result.
    /// Within it [`current_call`](crate::current_call) is the call. It has to check the arguments. It has no ends of pipes: those of a
    /// call end with its result.
    pub fn new(interface: Interface, serve: F) -> Self {
        Self { interface, serve }
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
        if usize::from(procedure) >= self.interface.0.procedures.len() {
            return Err(Unserved::UnknownProcedure);
        }
        (self.serve)(procedure, call.into_payload(), result).map_err(|why| match why {
            NoResult::BadArguments(why) => Unserved::BadArguments(why),
            NoResult::Refused(why) => Unserved::Refused(why),
            NoResult::Failed(why) => Unserved::Failed(why),
        })
    }

    /// Of no trait: calls of the same process have their arguments marshaled.
    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}
