//! An interface file with every name looked up and every constant computed. What is here needs no more checks.

use crate::expression::Value;

/// A type of the language that has no parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `bool`, RFC 4506 §4.4.
    Bool,
    /// `char`, which rpcgen writes as 4 bytes; so are the types of 16 bits.
    I8,
    /// `unsigned char`.
    U8,
    /// `short`.
    I16,
    /// `unsigned short`.
    U16,
    /// `int` and `long`, §4.1.
    I32,
    /// `unsigned int` and `unsigned long`, §4.2.
    U32,
    /// `hyper`, §4.5.
    I64,
    /// `unsigned hyper`, §4.5.
    U64,
    /// `float`, §4.6.
    F32,
    /// `double`, §4.7.
    F64,
    /// `quadruple`, §4.8.
    Quadruple,
}

/// The documentation of an item, from the file.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// The lines of its comments, without their marks.
    pub comment: Vec<String>,
    /// Its declaration, without what is between braces.
    pub declaration: String,
}

/// Everything that a file defines, with the files that it includes.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// In the order of the text.
    pub definitions: Vec<Definition>,
}

/// Something with a name.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name as the file spells it.
    pub name: String,
    /// Its documentation.
    pub notes: Notes,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a definition.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A constant that is a number.
    Number(Value),
    /// A constant that is a text, with C's escapes.
    Text(String),
    /// Another name, or a name for a declaration.
    Typedef(Type),
    /// RFC 4506 §4.3.
    Enumeration(Vec<Enumerator>),
    /// RFC 4506 §4.14.
    Structure(Structure),
    /// RFC 4506 §4.15.
    Union(Box<Union>),
    /// RFC 5531 §12.
    Program(Program),
}

/// A value of an enumeration.
#[derive(Clone, Debug)]
pub struct Enumerator {
    /// The name as the file spells it.
    pub name: String,
    /// Its documentation.
    pub notes: Notes,
    /// The number on the wire.
    pub value: i32,
}

/// A struct.
#[derive(Clone, Debug)]
pub struct Structure {
    /// In the order of the wire. Of a node of a list, all but the link to the next.
    pub fields: Vec<Field>,
    /// Whether its last field was optional data of its own type, which makes it a node of a linked list.
    pub is_node: bool,
}

/// A field, the declaration of an arm, or an argument.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name as the file spells it.
    pub name: String,
    /// Its documentation.
    pub notes: Notes,
    /// Its type.
    pub ty: Type,
}

/// A discriminated union.
#[derive(Clone, Debug)]
pub struct Union {
    /// The name of the discriminant.
    pub discriminant: String,
    /// Its type.
    pub selector: Selector,
    /// In the order of the text; each label is in one of them.
    pub arms: Vec<Arm>,
    /// For all discriminants that have no arm; `None` if they are errors.
    pub default: Option<Arm>,
}

/// The type of a discriminant.
#[derive(Clone, Debug)]
pub enum Selector {
    /// A number or a boolean.
    Scalar(Scalar),
    /// The enumeration of this name.
    Enumeration(String),
}

/// An arm of a union.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The discriminants that select it; none for the default.
    pub labels: Vec<Label>,
    /// The arm behind the discriminant; `None` for void.
    pub field: Option<Field>,
    /// Its documentation.
    pub notes: Notes,
}

/// A discriminant that selects an arm.
#[derive(Clone, Debug)]
pub struct Label {
    /// The discriminant.
    pub value: Value,
    /// The name by which the file says it, if it does.
    pub name: Option<String>,
}

/// A program (RFC 5531 §12).
#[derive(Clone, Debug)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// In the order of the text.
    pub versions: Vec<Version>,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name as the file spells it.
    pub name: String,
    /// Its documentation.
    pub notes: Notes,
    /// Its number.
    pub number: u32,
    /// In the order of the text.
    pub procedures: Vec<Procedure>,
}

/// A procedure of a version.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// The name as the file spells it.
    pub name: String,
    /// Its documentation.
    pub notes: Notes,
    /// Its number.
    pub number: u32,
    /// None for `void`. Several follow each other like the fields of a struct (rpcgen's option `-N`).
    pub arguments: Vec<Field>,
    /// `None` for `void`.
    pub result: Option<Type>,
}

/// A type, with the length that its declaration gives it.
#[derive(Clone, Debug)]
pub enum Type {
    /// A type of the language.
    Scalar(Scalar),
    /// A type that the model defines.
    Named(String),
    /// A Rust type that the options name for one that the file does not define.
    External(String),
    /// Opaque data of fixed length, RFC 4506 §4.9.
    FixedOpaque(Length),
    /// Opaque data of variable length, §4.10; without a bound if `None`, as are the following.
    Opaque(Option<Length>),
    /// A string, §4.11.
    String(Option<Length>),
    /// An array of fixed length, §4.12.
    Array(Box<Type>, Length),
    /// An array of variable length, §4.13.
    Sequence(Box<Type>, Option<Length>),
    /// Optional data, §4.19.
    Optional(Box<Type>),
    /// Optional data of a type that can contain itself.
    Boxed(Box<Type>),
    /// A linked list of nodes of this name.
    Chain(String),
}

/// A length or a bound.
#[derive(Clone, Debug)]
pub struct Length {
    /// In bytes or elements.
    pub value: u32,
    /// The constant that the file names for it, if it does and the model defines it.
    pub name: Option<String>,
}
