//! Programs, and their numbers.

use super::{Resolver, distinct, fitting, notes};
use crate::ast;
use crate::error::Mistake;
use crate::expression::Expression;
use crate::model::{Procedure, Program, Version};
use std::collections::HashSet;

impl<'a> Resolver<'a> {
    pub(super) fn program(&mut self, program: &'a ast::Program) -> Result<Program, Mistake> {
        let number = self.assigned(&program.number, &mut HashSet::new())?;
        let mut numbers = HashSet::new();
        let versions = program.versions.iter().map(|version| self.version(version, &mut numbers));
        Ok(Program { number, versions: versions.collect::<Result<_, _>>()? })
    }

    fn version(&mut self, version: &'a ast::Version, numbers: &mut HashSet<u32>) -> Result<Version, Mistake> {
        let number = self.assigned(&version.number, numbers)?;
        distinct("procedure", version.procedures.iter().map(|procedure| &procedure.name))?;
        let mut numbers = HashSet::new();
        let procedures = version.procedures.iter().map(|procedure| self.procedure(procedure, &mut numbers));
        let procedures = procedures.collect::<Result<_, _>>()?;
        Ok(Version { name: version.name.text.clone(), notes: notes(&version.notes), number, procedures })
    }

    fn procedure(
        &mut self,
        procedure: &'a ast::Procedure,
        numbers: &mut HashSet<u32>,
    ) -> Result<Procedure, Mistake> {
        distinct("argument", procedure.arguments.iter().map(|argument| &argument.name))?;
        Ok(Procedure {
            name: procedure.name.text.clone(),
            notes: notes(&procedure.notes),
            number: self.assigned(&procedure.number, numbers)?,
            arguments: self.fields(&procedure.arguments)?,
            result: procedure.result.as_ref().map(|result| self.ty(result)).transpose()?,
        })
    }

    /// The number of a program, a version or a procedure, which no other of the same kind has.
    fn assigned(&mut self, number: &Expression, taken: &mut HashSet<u32>) -> Result<u32, Mistake> {
        let value = self.constants.evaluate(number)?;
        let value = fitting(value, number.span(), "this", (0, u32::MAX))?;
        if !taken.insert(value) {
            return Err(Mistake::new(number.span(), format!("the number {value} is given twice")));
        }
        Ok(value)
    }
}
