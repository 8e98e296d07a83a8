//! A process that does nothing, all the time: what callers meet on a processor that is not theirs alone.

use crate::args::BusyArgs;
use crate::{child, placement};
use std::hint::spin_loop;
use std::io;

/// Keeps a processor busy until the parent ends.
pub(crate) fn run(args: &BusyArgs) -> io::Result<()> {
    child::end_with_parent()?;
    placement::pin(args.cpu)?;
    child::answer("busy")?;
    loop {
        spin_loop();
    }
}
