//! An interface file as it was parsed: names are not looked up, constants not computed.

use crate::expression::Expression;
use crate::model::Scalar;
use crate::source::Span;

/// A name, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// The documentation of an item: its comments in the file, line by line, and its declaration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub(crate) comment: Vec<String>,
    pub(crate) declaration: String,
}

/// A definition at the outermost level.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: Name,
    pub(crate) notes: Notes,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Number(Expression),
    Text(String),
    Typedef(Type),
    Enumeration(Vec<Enumerator>),
    Structure(Vec<Field>),
    Union(Union),
    Program(Program),
}

#[derive(Debug)]
pub(crate) struct Enumerator {
    pub(crate) name: Name,
    pub(crate) notes: Notes,
    /// One more than the one before if absent.
    pub(crate) value: Option<Expression>,
}

/// A field, an arm's declaration, or an argument.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) notes: Notes,
    pub(crate) ty: Type,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub(crate) discriminant: Field,
    pub(crate) arms: Vec<Arm>,
}

#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) labels: Vec<Label>,
    /// `None` for void.
    pub(crate) field: Option<Field>,
    pub(crate) notes: Notes,
}

#[derive(Debug)]
pub(crate) enum Label {
    Case(Expression),
    Default(Span),
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) number: Expression,
    pub(crate) versions: Vec<Version>,
}

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: Name,
    pub(crate) notes: Notes,
    pub(crate) number: Expression,
    pub(crate) procedures: Vec<Procedure>,
}

#[derive(Debug)]
pub(crate) struct Procedure {
    pub(crate) name: Name,
    pub(crate) notes: Notes,
    pub(crate) number: Expression,
    pub(crate) arguments: Vec<Field>,
    /// `None` for void.
    pub(crate) result: Option<Type>,
}

/// A type, with the length that its declaration gives it.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    /// A type of the language.
    Scalar(Scalar),
    /// A type that is defined, or that C's headers would declare.
    Named(Name),
    FixedOpaque(Expression),
    /// Without a bound if `None`; so are the following.
    Opaque(Option<Expression>),
    String(Option<Expression>),
    Array(Box<Type>, Expression),
    Sequence(Box<Type>, Option<Expression>),
    Optional(Box<Type>),
}
