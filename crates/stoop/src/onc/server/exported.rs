//! An interface of Rust that is a program of Sun RPC, too.

use crate::interface::Exported;
use crate::onc::address::VersionId;
use crate::onc::stub::{IncomingCall, NoResult, Program};
use crate::program::{NotServed, ProgramDescription, ProgramResult};
use stoop_onc::message::{self, Reply};

/// The server half of an interface with `#[interface(program = …, version = …)]`.
pub(crate) struct ExportedProgram<E> {
    exported: E,
    description: &'static ProgramDescription,
}

/// Bytes of the longest result.
const RESULT_MAX: usize = 64 << 20;

impl<E: Exported> ExportedProgram<E> {
    /// `None`: it is no program.
    pub(crate) fn new(exported: E) -> Option<Self> {
        let description = exported.program()?.description();
        Some(Self { exported, description })
    }
}

impl<E: Exported> Program for ExportedProgram<E> {
    fn version(&self) -> VersionId {
        VersionId { program: self.description.program, version: self.description.version }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        let program = self.exported.program().expect("it is a program");
        let number = call.procedure();
        let header = Reply::success(call.call.xid);
        let start = message::write(&header, &(), call.reply, call.start).map_err(|_| NoResult::Failed)?;
        let mut result = ProgramResult::new(call.reply, start, RESULT_MAX);
        program.dispatch(number, &mut call.arguments, &mut result).map_err(|why| match why {
            NotServed::UnknownProcedure => NoResult::ProcedureUnavailable,
            NotServed::BadArguments(why) => NoResult::BadArguments(why),
        })?;
        call.end = Some(result.finish().map_err(|_| NoResult::Failed)?);
        Ok(())
    }

    fn is_idempotent(&self, procedure: u32) -> bool {
        let known = self.description.procedures.iter().find(|known| known.number == procedure);
        known.map_or(procedure == 0, |known| known.idempotent)
    }
}
