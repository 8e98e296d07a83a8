//! An interface of Rust that is a program of Sun RPC, too.

use crate::interface::Exported;
use crate::program::{IncomingCall, NoResult, Program, VersionId};
use std::sync::Arc;

/// The server half of an interface with `#[interface(program = …, version = …)]`, under these numbers or others.
pub(crate) struct ExportedProgram {
    exported: Arc<dyn Exported>,
    version: VersionId,
}

impl ExportedProgram {
    /// `None`: it is no program.
    pub(crate) fn new(exported: &Arc<dyn Exported>) -> Option<Self> {
        let version = exported.program()?.version();
        Some(Self { exported: Arc::clone(exported), version })
    }

    /// The same under other numbers.
    pub(crate) fn renumbered(self, version: VersionId) -> Self {
        Self { version, ..self }
    }

    fn program(&self) -> &dyn Program {
        self.exported.program().expect("it was one when it was exported")
    }
}

impl Program for ExportedProgram {
    fn version(&self) -> VersionId {
        self.version
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        self.program().dispatch(call)
    }

    fn is_idempotent(&self, procedure: u32) -> bool {
        self.program().is_idempotent(procedure)
    }
}
