//! Programs: the numbers of versions and procedures.

use super::constants::number;
use super::{Emitter, docs};
use crate::model::{Definition, Program};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use std::collections::HashMap;

/// Constants for numbers by their names in the file. Versions often have procedures of the same name and number.
#[derive(Default)]
pub(super) struct Numbers {
    constants: HashMap<(String, u32), Ident>,
}

impl Emitter<'_> {
    pub(super) fn program(&mut self, definition: &Definition, program: &Program) -> TokenStream {
        let (program_name, constant) =
            self.assigned(&definition.name, docs::of(&definition.notes), program.number);
        let mut items = vec![constant];
        for version in &program.versions {
            let (version_name, constant) =
                self.assigned(&version.name, docs::of(&version.notes), version.number);
            items.push(constant);
            let mut numbers = Vec::new();
            for procedure in &version.procedures {
                let docs = docs::text(&format!("The number of `{}`.", procedure.name));
                let (name, constant) = self.assigned(&procedure.name, docs, procedure.number);
                items.push(constant);
                numbers.push(name);
            }
            if !version.procedures.is_empty() {
                let stubs = if self.interfaces { Self::interface } else { Self::version };
                items.push(stubs(self, version, &program_name, &version_name, &numbers));
            }
        }
        quote!(#(#items)*)
    }

    /// The constant for a number, and its declaration if there is none yet.
    fn assigned(&mut self, name: &str, docs: TokenStream, value: u32) -> (Ident, TokenStream) {
        let key = (name.to_owned(), value);
        if let Some(constant) = self.numbers.constants.get(&key) {
            return (constant.clone(), quote!());
        }
        let constant = self.names.new_constant(name);
        self.numbers.constants.insert(key, constant.clone());
        let value = number(value.into());
        (constant.clone(), quote!(#docs pub const #constant: u32 = #value;))
    }
}
