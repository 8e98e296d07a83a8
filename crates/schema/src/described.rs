//! An interface as JSON, for tools.

use crate::json::Json;
use crate::rust::{Interface, Procedure};
use crate::tree::{Mode, Parameter, Signature};

impl Interface {
    /// The interface as JSON: its procedures with their arguments and types, as the signatures have them, and all documentation.
    pub fn json(&self) -> Json {
        let documented = |(item, docs): &(String, String)| (item.clone(), Json::text(docs));
        Json::object([
            ("name", Json::text(&self.name)),
            ("docs", Json::text(&self.docs)),
            ("procedures", Json::Array(self.procedures.iter().map(Procedure::json).collect())),
            ("types", Json::Object(self.types.iter().map(documented).collect())),
        ])
    }

    /// The procedures in a line each, for people: `greet(name: String) -> String`.
    pub fn overview(&self) -> String {
        self.procedures
            .iter()
            .map(|procedure| format!("{}.{}\n", self.name, procedure.signature.overview()))
            .collect()
    }
}

impl Procedure {
    fn json(&self) -> Json {
        let Signature { name, one_way, parameters, returns, .. } = &self.signature;
        let argument = |parameter: &Parameter| {
            Json::object([
                ("name", Json::text(&parameter.name)),
                ("mode", Json::text(parameter.mode.name())),
                ("type", Json::Text(parameter.bare().unwrap_or_else(|| self.signature.spell(&parameter.ty)))),
            ])
        };
        Json::object([
            ("name", Json::text(name)),
            ("signature", Json::Text(self.signature.to_string())),
            ("idempotent", Json::Bool(self.idempotent)),
            ("one_way", Json::Bool(*one_way)),
            ("docs", Json::text(&self.docs)),
            ("arguments", Json::Array(parameters.iter().map(argument).collect())),
            ("returns", returns.as_ref().map_or(Json::Null, |ty| Json::Text(self.signature.spell(ty)))),
        ])
    }
}

impl Mode {
    /// `in`, `inout`, `out`, `pipe in` or `pipe out`.
    fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::InOut => "inout",
            Self::Out => "out",
            Self::PipeIn => "pipe in",
            Self::PipeOut => "pipe out",
        }
    }
}

impl Signature {
    /// The signature with the names of the user's types only.
    pub fn overview(&self) -> String {
        let parameter = |parameter: &Parameter| {
            let mode = if parameter.mode == Mode::In {
                String::new()
            } else {
                format!("{} ", parameter.mode.name())
            };
            let ty = parameter.bare().unwrap_or_else(|| self.name_of(&parameter.ty));
            format!("{}: {mode}{ty}", parameter.name)
        };
        let parameters: Vec<_> = self.parameters.iter().map(parameter).collect();
        let returns = self.returns.as_ref().map(|ty| format!(" -> {}", self.name_of(ty))).unwrap_or_default();
        format!("{}({}){returns}", self.name, parameters.join(", "))
    }
}
