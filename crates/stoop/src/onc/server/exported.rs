//! An interface of Rust that is a program of Sun RPC, too.

use crate::interface::Exported;
use crate::program::{IncomingCall, NoResult, Program, VersionId};
use std::sync::Arc;

/// The server half of an interface with `#[interface(program = …, version = …)]`.
pub(crate) struct ExportedProgram(Arc<dyn Exported>);

impl ExportedProgram {
    /// `None`: it is no program.
    pub(crate) fn new(exported: &Arc<dyn Exported>) -> Option<Self> {
        exported.program().is_some().then(|| Self(Arc::clone(exported)))
    }

    fn program(&self) -> &dyn Program {
        self.0.program().expect("it was one when it was exported")
    }
}

impl Program for ExportedProgram {
    fn version(&self) -> VersionId {
        self.program().version()
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        self.program().dispatch(call)
    }

    fn is_idempotent(&self, procedure: u32) -> bool {
        self.program().is_idempotent(procedure)
    }
}
