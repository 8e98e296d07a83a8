//! The tree of a signature: a procedure, its parameters and their types.

/// The signature of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name of the procedure.
    pub name: String,
    /// Whether its callers do not wait for it.
    pub one_way: bool,
    /// Its parameters, in the order of their declaration.
    pub parameters: Vec<Parameter>,
    /// What it returns, if that is written.
    pub returns: Option<Type>,
    /// The user's types, in the order in which they occur first.
    pub types: Vec<Named>,
    /// For each of these.
    pub(crate) layouts: Vec<Layout>,
}

/// As `stoop_marshal::Layout`, of types from a text that may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Of every value, if all have the same.
    pub(crate) size: Option<u64>,
    pub(crate) align: usize,
    /// Of the smallest value.
    pub(crate) min: u64,
}

/// A parameter of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The direction in which it travels.
    pub mode: Mode,
    /// How it travels.
    pub shape: Shape,
    /// Its type; the elements' sequence for slices and buffers, that of the items for pipes.
    pub ty: Type,
}

/// The direction in which an argument travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the call.
    In,
    /// With the call, and back with the result.
    InOut,
    /// With the result.
    Out,
    /// Through a pipe, while the call runs: its items, to the procedure.
    PipeIn,
    /// Through a pipe, while the call runs: its items, from the procedure.
    PipeOut,
}

/// How an argument travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As its type says. A sequence that comes back is a slice, which comes back without a count.
    Plain,
    /// A sequence that comes back with its count: `&mut Vec<T>`.
    Whole,
    /// An array or slice of numbers that comes back after those which the procedure writes in the result: their type has another name in the
    /// trait.
    Late,
    /// An `InPlace` buffer.
    Buffer,
    /// Items of a pipe that lie there without a count: texts, and slices of numbers.
    Bare,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the type of its name")]
pub enum Type {
    Number(Number),
    NonZero(Number),
    Bool,
    Char,
    Text,
    /// `()`.
    Unit,
    Duration,
    SystemTime,
    Ipv4Addr,
    Ipv6Addr,
    IpAddr,
    SocketAddrV4,
    SocketAddrV6,
    SocketAddr,
    /// `[T]`: all sequences.
    Sequence(Box<Type>),
    Array(Box<Type>, u64),
    Tuple(Vec<Type>),
    Option(Box<Type>),
    Result(Box<Type>, Box<Type>),
    Map(Box<Type>, Box<Type>),
    Set(Box<Type>),
    /// `Box<T>`: all pointers.
    Boxed(Box<Type>),
    /// The user's type at this place of [`Signature::types`].
    Named(usize),
}

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the type of its name")]
pub enum Number {
    U8,
    U16,
    U32,
    U64,
    U128,
    Usize,
    I8,
    I16,
    I32,
    I64,
    I128,
    Isize,
    F32,
    F64,
}

/// A type of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Which of the types of that name it is, from 1 on.
    pub number: u32,
    /// Its structure.
    pub body: Body,
}

/// The structure of a user's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A struct. An `enum` without variants, of which there are no values, looks like a struct without fields.
    Struct(Fields),
    /// An enum.
    Enum(Vec<Variant>),
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Fields,
}

/// The fields of a struct or of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// How they are written.
    pub style: Style,
    /// In the order of their declaration.
    pub all: Vec<Field>,
}

/// How fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Unit,
    /// `(u8, u8)`.
    Tuple,
    /// `{x: u8, y: u8}`.
    Named,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; empty in a tuple.
    pub name: String,
    /// Whether what it points to stays shared.
    pub shared: bool,
    /// Its type.
    pub ty: Type,
}

impl Number {
    /// All, by their names in Rust.
    pub(crate) const ALL: [(&'static str, Number); 14] = [
        ("u8", Number::U8),
        ("u16", Number::U16),
        ("u32", Number::U32),
        ("u64", Number::U64),
        ("u128", Number::U128),
        ("usize", Number::Usize),
        ("i8", Number::I8),
        ("i16", Number::I16),
        ("i32", Number::I32),
        ("i64", Number::I64),
        ("i128", Number::I128),
        ("isize", Number::Isize),
        ("f32", Number::F32),
        ("f64", Number::F64),
    ];

    /// The name in Rust.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, number)| *number == self).map_or("", |(name, _)| name)
    }

    /// Bytes that it takes.
    pub fn size(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::Usize | Self::Isize | Self::F64 => 8,
            Self::U128 | Self::I128 => 16,
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Whether it may be below zero.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::I128 | Self::Isize)
    }

    /// Whether slices and arrays of it are used where they lie in a packet.
    pub(crate) fn is_scalar(self) -> bool {
        !matches!(self, Self::Usize | Self::Isize)
    }
}

impl Type {
    /// Whether it is a sequence or array of bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        match self {
            Self::Sequence(element) | Self::Array(element, _) => **element == Self::Number(Number::U8),
            _ => false,
        }
    }

    /// The types that are written in it.
    pub(crate) fn parts(&self) -> Vec<&Type> {
        match self {
            Self::Sequence(of) | Self::Array(of, _) | Self::Option(of) | Self::Set(of) | Self::Boxed(of) => {
                vec![of]
            }
            Self::Result(first, second) | Self::Map(first, second) => vec![first, second],
            Self::Tuple(all) => all.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The type of the elements of a sequence or array.
    pub(crate) fn element(&self) -> Option<&Type> {
        match self {
            Self::Sequence(element) | Self::Array(element, _) => Some(element),
            _ => None,
        }
    }
}

impl Body {
    /// All fields, of all variants.
    pub(crate) fn fields(&self) -> Vec<&Field> {
        match self {
            Self::Struct(fields) => fields.all.iter().collect(),
            Self::Enum(variants) => variants.iter().flat_map(|variant| &variant.fields.all).collect(),
        }
    }
}

impl Parameter {
    /// Whether it is a slice or buffer, whose length the caller chooses and knows.
    pub fn has_length(&self) -> bool {
        self.shape != Shape::Whole && matches!(self.ty, Type::Sequence(_)) && self.comes_back()
    }

    /// Whether it is a pipe.
    pub fn is_pipe(&self) -> bool {
        matches!(self.mode, Mode::PipeIn | Mode::PipeOut)
    }

    /// Whether it comes back with the result.
    pub fn comes_back(&self) -> bool {
        matches!(self.mode, Mode::InOut | Mode::Out)
    }

    /// Whether the procedure writes it where it lies in the result, which it then begins.
    pub(crate) fn is_in_place(&self) -> bool {
        let element = self.ty.element();
        self.comes_back()
            && self.shape == Shape::Plain
            && matches!(element, Some(Type::Number(number)) if number.is_scalar())
    }
}

impl Signature {
    /// The pipe that goes this way, and the number of its parameter.
    pub fn pipe(&self, mode: Mode) -> Option<(usize, &Parameter)> {
        self.parameters.iter().enumerate().find(|(_, each)| each.is_pipe() && each.mode == mode)
    }

    /// The parameters that come back, by their numbers, in the order in which they do.
    pub(crate) fn coming_back(&self) -> impl Iterator<Item = usize> + '_ {
        let place = |in_place| {
            let all = self.parameters.iter().enumerate();
            all.filter(move |(_, each)| each.comes_back() && each.is_in_place() == in_place)
                .map(|(number, _)| number)
        };
        place(true).chain(place(false))
    }

    /// The user's type of that number.
    ///
    /// # Panics
    /// The number is not from this signature.
    pub fn named(&self, number: usize) -> &Named {
        &self.types[number]
    }
}
