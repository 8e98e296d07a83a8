//! The arguments of a blocking call, for each of its attempts.

use crate::buffers::WriteArguments;
use stoop_marshal::GatherList;

/// The arguments of a call.
pub(super) enum Arguments<'r, 'p, 'a> {
    /// So many bytes in the lane, and some that are borrowed.
    Written(usize, &'r mut GatherList<'p, 'a>),
    /// Written for each attempt: buffers do not lie in the memory of another session.
    ToWrite(&'r mut WriteArguments<'a>),
}

impl<'p, 'a> Arguments<'_, 'p, 'a> {
    pub(super) fn reborrow(&mut self) -> Arguments<'_, 'p, 'a> {
        match self {
            Self::Written(len, gather) => Arguments::Written(*len, gather),
            Self::ToWrite(write) => Arguments::ToWrite(&mut **write),
        }
    }

    /// Whether they are no longer as they were, after an attempt. `are_buffers_changed`: a procedure may have changed buffers that it named.
    pub(super) fn are_overwritten(&self, are_buffers_changed: bool) -> bool {
        match self {
            Self::Written(_, gather) => gather.are_overwritten(),
            Self::ToWrite(_) => are_buffers_changed,
        }
    }
}
