//! What the options of a binding say of callbacks.

use crate::interface::Exported;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What the options of a binding say of callbacks.
#[derive(Clone, Default)]
pub(crate) struct CallbackOptions {
    /// The object that is offered.
    pub(crate) offered: Option<Arc<dyn Exported>>,
    /// How many of its procedures run at the same time; one unless set.
    pub(crate) threads: Option<usize>,
    pub(crate) after_bind: Option<AfterBind>,
}

/// Runs when a client is bound, with the client. Returns why that has failed.
pub(crate) type AfterBind = Arc<dyn Fn(&dyn Any) -> Result<(), String> + Send + Sync>;

impl fmt::Debug for CallbackOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = self.offered.as_ref().map(|offered| offered.interface().name);
        f.debug_struct("CallbackOptions")
            .field("offered", &offered)
            .field("threads", &self.threads)
            .field("after_bind", &self.after_bind.is_some())
            .finish()
    }
}
