//! The items that emitted stubs name. Hidden from users: it changes with the emitter.

mod called;
pub(crate) mod returned;

pub use crate::buffers::{Buffer, Memory, SharedBuffers, put_capacity, put_contents};
pub use crate::callbacks::Callback;
pub use crate::client::offering::OfClient;
pub use crate::client::{Begin, Beginning, Call, Client, Local, Remote, Route};
pub use crate::interface::{Exported, Interface, Procedure, Revisions, Signature};
pub use crate::later::deferred::Later;
pub use crate::later::piped::{run_deferred_with_pipes, run_task_with_pipes, run_with_pipes};
pub use crate::later::room::{KeptArguments, OpenRoom, check_room, keep_arguments};
pub use crate::later::tasks::{Tasks, run_task};
pub use crate::later::unserved::Unserved;
pub use crate::offered_interface::describe_callbacks;
#[cfg(feature = "onc")]
pub use crate::onc::program_client::{ProgramBegin, ProgramClient, ended};
pub use crate::pipes::contract::Pipes;
pub use crate::pipes::ends::{CallerEnds, ServedEnds};
pub use crate::pipes::item::Item;
pub use crate::stub::called::Callbacks;
pub use crate::stub::returned::{AnyReturned, Hides, HidesNothing, Returned, check_returned};
pub use stoop_exchange::FORMS;
pub use stoop_marshal::*;
pub use stoop_probe::{Point, stamp};
pub use stoop_shm::Number;
