//! The floor of `local:`: a call through a vtable in one address space.

use crate::args::Procedure;
use crate::callers::{Calls, LOCAL_BATCH, Measured, Window, call_repeatedly};
use crate::ours::{Exerciser, Test, data_for, one_packet};
use crate::plan::Cell;
use std::hint::black_box;
use stoop::InPlace;

struct ThroughVtable {
    procedure: Procedure,
    server: Box<dyn Test + Send + Sync>,
    data: Vec<u8>,
    buffer: InPlace<u8>,
}

/// Calls of the procedure of `cell` that only a trait object stands before.
pub(super) fn through_vtable(cell: &Cell) -> Box<dyn Calls> {
    let (data, server) = (data_for(cell), Box::new(Exerciser));
    let buffer = InPlace::private(data.len());
    Box::new(ThroughVtable { procedure: cell.procedure, server, data, buffer })
}

impl Calls for ThroughVtable {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        // Opaque, or the compiler would see which implementation it is and call it directly, or not at all.
        let server = black_box(&*self.server);
        let (data, buffer) = (&mut self.data, &mut self.buffer);
        match self.procedure {
            Procedure::Null => each(window, || server.null()),
            Procedure::MaxArg => each(window, || server.max_arg(one_packet(data))),
            Procedure::MaxResult => each(window, || server.max_result(one_packet(data))),
            Procedure::BulkIn => each(window, || server.bulk_in(data)),
            Procedure::BulkOut => each(window, || server.bulk_out(data)),
            Procedure::BulkInOut => each(window, || server.bulk_in_out(data)),
            Procedure::BulkInPlace => each(window, || {
                buffer.write(0, data);
                server.bulk_in_place(buffer);
            }),
            Procedure::BulkInPlaceRead => each(window, || {
                buffer.write(0, data);
                server.bulk_in_place_read(buffer);
            }),
        }
    }
}

#[inline(always)]
fn each(window: Window, mut call: impl FnMut()) -> Result<Measured, String> {
    call_repeatedly(window, LOCAL_BATCH, || {
        call();
        Ok(())
    })
}
