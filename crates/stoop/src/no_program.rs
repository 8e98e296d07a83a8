//! Programs of Sun RPC where the cargo feature `onc` is off: there are none.

use std::any::Any;
use stoop_wire::RefusalCode;

/// A version of a program. No interface [gives](crate::interface::Exported::program) one.
pub trait Program {}

impl<T: ?Sized> Program for T {}

/// The refusal of a caller: every panic is one.
pub(crate) fn refusal(_: &(dyn Any + Send)) -> Option<(RefusalCode, String)> {
    None
}

pub(crate) mod programs {
    /// The programs of a server: none.
    #[derive(Default)]
    pub(crate) struct Programs {}
}
