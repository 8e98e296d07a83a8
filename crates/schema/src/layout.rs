//! Size and alignment of types in the native form, as `marshal` computes them for types of Rust.

use crate::limits::FIXED_MAX;
use crate::tree::{Body, Fields, Layout, Type};

/// A type has no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLayout {
    /// It contains itself, with nothing between that ends it.
    Endless,
    /// Its values would be too large for any message.
    TooLarge,
}

impl Layout {
    /// Of an enum with fields.
    pub(crate) const TAGGED: Self = Self::variable(4);

    const fn fixed(size: u64, align: usize) -> Self {
        Self { size: Some(size), align, min: size }
    }

    const fn variable(min: u64) -> Self {
        Self { size: None, align: 1, min }
    }

    fn checked(self) -> Result<Self, NoLayout> {
        if self.min > FIXED_MAX { Err(NoLayout::TooLarge) } else { Ok(self) }
    }

    fn record(fields: impl Iterator<Item = Result<Self, NoLayout>>) -> Result<Self, NoLayout> {
        let (mut end, mut align, mut min, mut is_fixed) = (0_u64, 1, 0_u64, true);
        for field in fields {
            let field = field?;
            min += field.min;
            match field.size {
                Some(size) => {
                    end = end.next_multiple_of(field.align as u64) + size;
                    align = align.max(field.align);
                }
                None => is_fixed = false,
            }
            if end > FIXED_MAX || min > FIXED_MAX {
                return Err(NoLayout::TooLarge);
            }
        }
        let record = match is_fixed {
            true => Self::fixed(end.next_multiple_of(align as u64), align),
            false => Self::variable(min),
        };
        record.checked()
    }
}

/// The layouts of the user's types, as far as these are complete.
type Known<'a> = &'a dyn Fn(usize) -> Option<Layout>;

/// The layout of a type.
pub(crate) fn of_type(ty: &Type, known: Known<'_>) -> Result<Layout, NoLayout> {
    let layout = match ty {
        Type::Number(number) | Type::NonZero(number) => Layout::fixed(number.size(), number.size() as usize),
        Type::Bool => Layout::fixed(1, 1),
        Type::Char => Layout::fixed(4, 4),
        Type::Unit => Layout::fixed(0, 1),
        Type::Duration | Type::SystemTime => Layout::fixed(16, 8),
        Type::Ipv4Addr => Layout::fixed(4, 1),
        Type::Ipv6Addr => Layout::fixed(16, 1),
        Type::SocketAddrV4 => Layout::fixed(6, 2),
        Type::SocketAddrV6 => Layout::fixed(28, 4),
        Type::IpAddr => Layout::variable(5),
        Type::SocketAddr => Layout::variable(7),
        Type::Option(_) | Type::Result(..) => Layout::variable(1),
        Type::Text | Type::Sequence(_) | Type::Map(..) | Type::Set(_) => Layout::variable(4),
        Type::Boxed(pointee) => Layout::variable(of_type(pointee, known)?.min),
        Type::Array(element, count) => {
            let element = of_type(element, known)?;
            let times = |bytes: u64| bytes.checked_mul(*count).ok_or(NoLayout::TooLarge);
            let (min, size) = (times(element.min)?, element.size.map(times).transpose()?);
            Layout { size, align: if size.is_some() { element.align } else { 1 }, min }.checked()?
        }
        Type::Tuple(parts) => Layout::record(parts.iter().map(|part| of_type(part, known)))?,
        Type::Named(number) => known(*number).ok_or(NoLayout::Endless)?,
    };
    Ok(layout)
}

/// The layout of a type of a signature that has been parsed, where each has been found to have one.
pub(crate) fn of_complete(ty: &Type, layouts: &[Layout]) -> Layout {
    of_type(ty, &|number| Some(layouts[number])).unwrap_or(Layout::variable(0))
}

/// The layout of a user's type.
pub(crate) fn of_body(body: &Body, known: Known<'_>) -> Result<Layout, NoLayout> {
    match body {
        Body::Struct(fields) => of_fields(fields, known),
        Body::Enum(variants) => {
            // Each of them has to have a layout; that of the enum does not depend on it.
            variants.iter().try_for_each(|variant| of_fields(&variant.fields, known).map(drop))?;
            let is_plain = variants.iter().all(|variant| variant.fields.all.is_empty());
            Ok(if is_plain { Layout::fixed(4, 4) } else { Layout::TAGGED })
        }
    }
}

fn of_fields(fields: &Fields, known: Known<'_>) -> Result<Layout, NoLayout> {
    Layout::record(fields.all.iter().map(|field| match field.shared {
        // At least the flag of an `Option` that holds nothing.
        true => Ok(Layout::variable(1)),
        false => of_type(&field.ty, known),
    }))
}
