//! Programs: versions and procedures (RFC 5531 §12).

use super::Parser;
use crate::ast::{Body, Procedure, Program, Version};
use crate::error::Mistake;

impl Parser<'_> {
    pub(super) fn program(&mut self, first: usize) -> Result<(), Mistake> {
        self.at += 1;
        let name = self.name("the program")?;
        let declared = self.at;
        self.expect("{", "after the name of the program")?;
        let mut versions = Vec::new();
        while !self.take("}") {
            versions.push(self.version()?);
        }
        let number = self.given_number("the program")?;
        self.define(first, declared, name, Body::Program(Program { number, versions }));
        Ok(())
    }

    fn version(&mut self) -> Result<Version, Mistake> {
        let first = self.at;
        self.expect("version", "or `}` in the program")?;
        let name = self.name("the version")?;
        let declared = self.at;
        self.expect("{", "after the name of the version")?;
        let mut procedures = Vec::new();
        while !self.take("}") {
            procedures.push(self.procedure()?);
        }
        let number = self.given_number("the version")?;
        self.expect(";", "after the version")?;
        let notes = self.notes(first, declared, declared);
        Ok(Version { name, notes, number, procedures })
    }

    fn procedure(&mut self) -> Result<Procedure, Mistake> {
        let first = self.at;
        let result = self.result()?;
        let name = self.name("the procedure")?;
        self.expect("(", "after the name of the procedure")?;
        let mut arguments = Vec::new();
        if !self.peek_is(")") {
            let start = self.peek().span;
            let mut position = 1;
            loop {
                match self.argument(position)? {
                    Some(argument) => arguments.push(argument),
                    None if position == 1 && self.peek_is(")") => {}
                    None => return Err(Mistake::new(start, "`void` is the only argument or none")),
                }
                if !self.take(",") {
                    break;
                }
                position += 1;
            }
        }
        self.expect(")", "or `,` after an argument")?;
        let number = self.given_number("the procedure")?;
        let declared = self.at;
        self.expect(";", "after the procedure")?;
        let notes = self.notes(first, declared, self.at);
        Ok(Procedure { name, notes, number, arguments, result })
    }

    fn given_number(&mut self, what: &str) -> Result<crate::expression::Expression, Mistake> {
        self.expect("=", &format!("and the number of {what}"))?;
        self.number()
    }
}
