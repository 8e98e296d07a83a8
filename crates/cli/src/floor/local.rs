//! The floor of `local:`: a call through a vtable in one address space.

use crate::args::{DATA_LEN, Procedure};
use crate::callers::{Calls, LOCAL_BATCH, Tally, Window, call_repeatedly};
use crate::ours::{Exerciser, Test};
use std::hint::black_box;

struct ThroughVtable {
    procedure: Procedure,
    server: Box<dyn Test + Send + Sync>,
    data: [u8; DATA_LEN],
}

/// Calls of `procedure` that only a trait object stands before.
pub(super) fn through_vtable(procedure: Procedure) -> Box<dyn Calls> {
    Box::new(ThroughVtable { procedure, server: Box::new(Exerciser), data: [0; DATA_LEN] })
}

impl Calls for ThroughVtable {
    fn run(&mut self, window: Window) -> Result<Tally, String> {
        // Opaque, or the compiler would see which implementation it is and call it directly, or not at all.
        let server = black_box(&*self.server);
        let data = &mut self.data;
        match self.procedure {
            Procedure::Null => call_repeatedly(window, LOCAL_BATCH, || {
                server.null();
                Ok(())
            }),
            Procedure::MaxArg => call_repeatedly(window, LOCAL_BATCH, || {
                server.max_arg(data);
                Ok(())
            }),
            Procedure::MaxResult => call_repeatedly(window, LOCAL_BATCH, || {
                server.max_result(data);
                Ok(())
            }),
        }
    }
}
