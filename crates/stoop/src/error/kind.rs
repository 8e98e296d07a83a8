//! Kinds of errors, as words.

use crate::error::call::CallError;

impl CallError {
    /// One word for each kind of error, for logs and labels of metrics: `not_sent`, `refused`, `failed`, `unknown`, `peer` (what arrived is no
    /// result of the procedure) and `sun` (an error of Sun RPC).
    ///
    /// ```
    /// use stoop::{CallError, Ran};
    /// use std::collections::HashMap;
    ///
    /// /// Counts failed calls by the kind of their error and by whether they ran.
    /// fn count(failed: &mut HashMap<(&'static str, Ran), u64>, error: &CallError) {
    ///     *failed.entry((error.kind(), error.ran())).or_default() += 1;
    /// }
    /// # let _ = count;
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotSent(..) => "not_sent",
            Self::Refused(..) => "refused",
            Self::Failed(..) => "failed",
            Self::Unknown { .. } => "unknown",
            Self::Peer(..) => "peer",
            Self::Sun(..) => "sun",
        }
    }
}
