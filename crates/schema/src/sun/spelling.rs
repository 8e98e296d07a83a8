//! Types as the interface file spells them.

use crate::json::of_text;
use crate::json::{Fault, Json, ReadFile, Words};
use crate::sun::Procedure;
use stoop_x::model::{Field, Kind, Length, Model, Scalar, Type};

/// A type: `string<255>`, `int[3]`, `node *`.
pub(super) fn of(ty: &Type) -> String {
    let bound = |length: &Option<Length>| length.as_ref().map(length_of).unwrap_or_default();
    match ty {
        Type::Scalar(scalar) => scalar_of(*scalar).to_owned(),
        Type::Named(name) => name.clone(),
        Type::External(rust) => rust.clone(),
        Type::FixedOpaque(length) => format!("opaque[{}]", length_of(length)),
        Type::Opaque(length) => format!("opaque<{}>", bound(length)),
        Type::String(length) => format!("string<{}>", bound(length)),
        Type::Array(element, length) => format!("{}[{}]", of(element), length_of(length)),
        Type::Sequence(element, length) => format!("{}<{}>", of(element), bound(length)),
        Type::Optional(inner) | Type::Boxed(inner) => format!("{} *", of(inner)),
        Type::Chain(node) => format!("{node} *"),
    }
}

fn length_of(length: &Length) -> String {
    length.name.clone().unwrap_or_else(|| length.value.to_string())
}

/// A type without parts.
pub(super) fn scalar_of(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "char",
        Scalar::U8 => "unsigned char",
        Scalar::I16 => "short",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned int",
        Scalar::I64 => "hyper",
        Scalar::U64 => "unsigned hyper",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
        Scalar::Quadruple => "quadruple",
    }
}

/// Names with their types.
pub(super) fn fields(fields: &[Field]) -> String {
    let all: Vec<_> = fields.iter().map(|field| format!("{}: {}", field.name, of(&field.ty))).collect();
    all.join(", ")
}

/// A type of Rust in a model.
pub(super) fn external(model: &Model) -> Option<&str> {
    fn in_type(ty: &Type) -> Option<&str> {
        match ty {
            Type::External(rust) => Some(rust),
            Type::Array(inner, _) | Type::Sequence(inner, _) | Type::Optional(inner) | Type::Boxed(inner) => {
                in_type(inner)
            }
            _ => None,
        }
    }
    model.definitions.iter().find_map(|definition| {
        let types: Vec<&Type> = match &definition.kind {
            Kind::Typedef(ty) => vec![ty],
            Kind::Structure(structure) => structure.fields.iter().map(|field| &field.ty).collect(),
            Kind::Union(union) => {
                let arms = union.arms.iter().chain(&union.default);
                arms.filter_map(|arm| arm.field.as_ref()).map(|field| &field.ty).collect()
            }
            Kind::Program(program) => {
                let procedures = program.versions.iter().flat_map(|version| &version.procedures);
                let fields = procedures.clone().flat_map(|procedure| &procedure.arguments);
                fields.map(|field| &field.ty).chain(procedures.filter_map(|of| of.result.as_ref())).collect()
            }
            _ => Vec::new(),
        };
        types.into_iter().find_map(in_type)
    })
}

impl Words for Procedure<'_> {
    fn given(&self) -> Vec<&str> {
        self.arguments().collect()
    }

    fn usage(&self) -> String {
        let all = fields(&self.of.arguments);
        if all.is_empty() { "none".into() } else { all }
    }

    fn of_text(&self, name: &str, word: &str, read: &mut ReadFile<'_>) -> Result<Json, Fault> {
        let argument = self.of.arguments.iter().find(|argument| argument.name == name);
        let mut ty = self.file.core(&argument.expect("the argument is one of the procedure").ty);
        while let Type::Optional(inner) | Type::Boxed(inner) = ty
            && !self.file.may_be_null(inner)
        {
            ty = self.file.core(inner);
        }
        let is_bytes = matches!(ty, Type::FixedOpaque(_) | Type::Opaque(_) | Type::String(_));
        of_text(name, word, read, is_bytes, |word| match ty {
            Type::Scalar(Scalar::Bool) => false,
            Type::Scalar(Scalar::Quadruple) => true,
            Type::Scalar(_) => Json::parse(word).is_err(),
            Type::Named(name) => match self.file.kind(name).0 {
                Kind::Enumeration(_) | Kind::Union(_) => !word.starts_with(['{', '"']),
                _ => false,
            },
            _ => is_bytes,
        })
    }
}
