//! Whether the procedure of an open call has begun, or the call has ended before: whichever comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The beginning of a procedure that may be still to come when its call is open.
#[derive(Clone, Default)]
pub(crate) struct Beginning(Arc<AtomicU8>);

const WAITS: u8 = 0;
const BEGUN: u8 = 1;
const ENDED: u8 = 2;

impl Beginning {
    /// The procedure begins now. `false`: its call has ended, and its caller knows that it has not run.
    pub(crate) fn begin(&self) -> bool {
        self.settle(BEGUN)
    }

    /// The call ends now. Returns whether its procedure has not begun, and never will.
    pub(super) fn end(&self) -> bool {
        self.settle(ENDED)
    }

    fn settle(&self, how: u8) -> bool {
        match self.0.compare_exchange(WAITS, how, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(settled) => settled == how,
        }
    }
}
