//! Default values of types that procedures fill: a program may have given them any, and only that there is one matters.

use crate::rust::print::ident;
use crate::rust::types::Names;
use crate::tree::{Body, Fields, Signature, Style, Type};

pub(super) struct Defaults<'t> {
    pub(super) names: &'t Names<'t>,
    pub(super) signature: &'t Signature,
}

impl Defaults<'_> {
    /// The default of a type of the user.
    pub(super) fn of_body(&self, body: &Body) -> String {
        match body {
            Body::Struct(fields) => format!("Self{}", self.fields(fields)),
            Body::Enum(variants) => {
                let simple = variants.iter().find(|variant| variant.fields.all.is_empty());
                match simple.or(variants.first()) {
                    Some(variant) => {
                        format!("Self::{}{}", ident(&variant.name), self.fields(&variant.fields))
                    }
                    None => "unreachable!()".into(),
                }
            }
        }
    }

    fn fields(&self, fields: &Fields) -> String {
        let values = fields.all.iter().map(|field| match &field.ty {
            Type::Boxed(pointee) if field.shared => format!("std::sync::Arc::new({})", self.value(pointee)),
            ty => self.value(ty),
        });
        match fields.style {
            Style::Unit => String::new(),
            Style::Tuple => format!("({})", values.collect::<Vec<_>>().join(", ")),
            Style::Named => {
                let named = fields.all.iter().zip(values);
                let all: Vec<_> =
                    named.map(|(field, value)| format!("{}: {value}", ident(&field.name))).collect();
                format!(" {{ {} }}", all.join(", "))
            }
        }
    }

    fn value(&self, ty: &Type) -> String {
        match ty {
            Type::NonZero(_) => format!("<{}>::MIN", self.names.owned(ty)),
            Type::SystemTime => "std::time::SystemTime::UNIX_EPOCH".into(),
            Type::Ipv4Addr => "std::net::Ipv4Addr::UNSPECIFIED".into(),
            Type::Ipv6Addr => "std::net::Ipv6Addr::UNSPECIFIED".into(),
            Type::IpAddr => "std::net::Ipv4Addr::UNSPECIFIED.into()".into(),
            Type::SocketAddrV4 => "std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0)".into(),
            Type::SocketAddrV6 => {
                "std::net::SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, 0, 0, 0)".into()
            }
            Type::SocketAddr => "(std::net::Ipv4Addr::UNSPECIFIED, 0).into()".into(),
            Type::Array(element, _) => format!("std::array::from_fn(|_| {})", self.value(element)),
            Type::Tuple(parts) => {
                let parts: String = parts.iter().map(|part| format!("{}, ", self.value(part))).collect();
                format!("({parts})")
            }
            Type::Result(value, _) => format!("Ok({})", self.value(value)),
            Type::Boxed(pointee) => format!("{}::new({})", self.names.prelude("Box"), self.value(pointee)),
            Type::Named(place) => {
                debug_assert!(*place < self.signature.types.len(), "the type is of this signature");
                format!("{}::default()", self.names.user_type(*place))
            }
            _ => "Default::default()".into(),
        }
    }
}
