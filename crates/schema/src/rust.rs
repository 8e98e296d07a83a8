//! Interfaces as Rust that compiles, and that binds to the server whose signatures they are from.
//!
//! The types are those of the signatures: `Vec` for every sequence, `BTreeMap` for every map. Two types of one name are told apart by modules.
//! Keys of maps get an order from their fields, which a type with floats does not have.

mod defaults;
mod print;
mod types;

use crate::json::nearest;
use crate::tree::{Mode, Parameter, Shape, Signature, Type};
use print::{documented, ident};
use std::fmt::Write;
use types::Types;

/// An interface, as it is printed.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its documentation.
    pub docs: String,
    /// Its procedures, in the order of their declaration.
    pub procedures: Vec<Procedure>,
    /// Documentation of types (`Point`), their fields (`Point.x`), variants (`Shape::Circle`) and fields of these (`Shape::Circle.radius`).
    pub types: Vec<(String, String)>,
}

/// A procedure, as it is printed.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its signature.
    pub signature: Signature,
    /// Whether it may run more than once for a call.
    pub idempotent: bool,
    /// Its documentation.
    pub docs: String,
}

/// Characters of the longest line, unless it cannot be divided.
const COLUMNS: usize = 80;

impl Interface {
    /// The procedure of that name, and its number.
    ///
    /// # Errors
    /// There is none: a sentence that names those there are, or the nearest.
    pub fn procedure(&self, name: &str) -> Result<(u16, &Procedure), String> {
        let names: Vec<_> = self.procedures.iter().map(|each| each.signature.name.as_str()).collect();
        let number = names.iter().position(|each| *each == name);
        let number = number.ok_or_else(|| no_procedure(&self.name, name, &names))?;
        Ok((number as u16, &self.procedures[number]))
    }

    /// The interface as Rust: the trait under `#[stoop::interface]`, and the types that it uses.
    pub fn rust(&self) -> String {
        if let Some(offered) = self.offered() {
            let but_one = self.procedures.split_last().map(|(_, others)| others.to_vec());
            let seen = Self { procedures: but_one.unwrap_or_default(), ..self.clone() };
            let offered = ident(offered);
            return format!(
                "// The server does not tell `{offered}`, the interface by which it calls back.\n"
            ) + &seen.written(&format!("(callback = {offered})"), Some(&offered));
        }
        self.written("", None)
    }

    /// The name of the interface of the objects that callers offer. The last procedure is not one of the trait then: callbacks travel in its
    /// pipes.
    fn offered(&self) -> Option<&str> {
        let Signature { name, parameters, types, .. } = &self.procedures.last()?.signature;
        let (offered, print) = types.first()?.name.rsplit_once('_')?;
        let is_it =
            name == "callback" && print.len() == 16 && parameters.len() == 3 && parameters[2].is_pipe();
        is_it.then_some(offered)
    }

    fn written(&self, words: &str, offered: Option<&str>) -> String {
        let types = Types::of(self, offered.is_some());
        let mut text = documented(&self.docs, 0);
        let _ = writeln!(text, "#[stoop::interface{words}]\npub trait {} {{", ident(&self.name));
        for (place, procedure) in self.procedures.iter().enumerate() {
            if place > 0 && !procedure.docs.is_empty() {
                text.push('\n');
            }
            text.push_str(&documented(&procedure.docs, 4));
            if procedure.idempotent {
                text.push_str("    #[idempotent]\n");
            }
            if procedure.signature.one_way {
                text.push_str("    #[one_way]\n");
            }
            text.push_str(&method(&types, place, &procedure.signature, offered));
        }
        text.push_str("}\n");
        text.push_str(&types.definitions(self));
        text
    }
}

/// That `whole` has no such procedure, and which it has.
pub(crate) fn no_procedure(whole: &str, name: &str, known: &[&str]) -> String {
    let advice = nearest(name, known).map_or_else(|| known.join(", "), str::to_owned);
    format!("{whole} has no procedure {name}; it has {advice}")
}

fn method(types: &Types<'_>, place: usize, signature: &Signature, offered: Option<&str>) -> String {
    let names = types.names(place, None);
    let parameters = signature.parameters.iter().map(|parameter| {
        if let (Some(offered), Type::Named(place)) = (offered, &parameter.ty)
            && types::is_callback(signature, *place)
        {
            return format!("#[callback] {}: {offered}Client", ident(&parameter.name));
        }
        let out = if parameter.mode == Mode::Out { "#[out] " } else { "" };
        format!("{out}{}: {}", ident(&parameter.name), argument(&names, signature, parameter))
    });
    let parameters: Vec<_> = ["&self".to_owned()].into_iter().chain(parameters).collect();
    let returns = signature.returns.as_ref().map(|ty| format!(" -> {}", names.owned(ty))).unwrap_or_default();
    let name = ident(&signature.name);
    let line = format!("    fn {name}({}){returns};\n", parameters.join(", "));
    if line.chars().count() <= COLUMNS {
        return line;
    }
    format!("    fn {name}(\n        {},\n    ){returns};\n", parameters.join(",\n        "))
}

/// The type of a parameter in the trait.
fn argument(names: &types::Names<'_>, signature: &Signature, parameter: &Parameter) -> String {
    let Parameter { mode, shape, ty, .. } = parameter;
    let reference = if *mode == Mode::In { "&" } else { "&mut " };
    match (shape, ty) {
        _ if parameter.is_pipe() => {
            let end = if *mode == Mode::PipeIn { "Receiver" } else { "Sender" };
            let items = if *shape == Shape::Bare { names.borrowed(ty, false) } else { names.owned(ty) };
            format!("stoop::{end}<{items}>")
        }
        (Shape::Buffer, Type::Sequence(element)) => {
            format!("{reference}stoop::InPlace<{}>", names.owned(element))
        }
        (Shape::Late, Type::Sequence(element)) => format!("&mut [{}]", types::alias(element)),
        (Shape::Late, Type::Array(element, count)) => format!("&mut [{}; {count}]", types::alias(element)),
        (Shape::Whole, ty) => format!("&mut {}", names.owned(ty)),
        (_, ty) if *mode != Mode::In => format!("&mut {}", names.borrowed(ty, true)),
        (_, Type::Option(inner)) if !is_passed_whole(signature, inner) => {
            format!("{}<&{}>", names.prelude("Option"), names.borrowed(inner, false))
        }
        (_, ty) if is_passed_whole(signature, ty) => names.owned(ty),
        (_, ty) => format!("&{}", names.borrowed(ty, false)),
    }
}

/// Whether a procedure takes an argument of this type as it is, and not by a reference.
fn is_passed_whole(signature: &Signature, ty: &Type) -> bool {
    match ty {
        Type::Named(place) => types::is_plain(&signature.types[*place].body),
        Type::Text | Type::Sequence(_) | Type::Array(..) | Type::Tuple(_) | Type::Map(..) | Type::Set(_) => {
            false
        }
        Type::Boxed(_) | Type::Result(..) => false,
        _ => true,
    }
}
