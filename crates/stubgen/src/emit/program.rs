//! The stubs of an interface that is a program of Sun RPC, too: the same values, in the form of XDR.
//!
//! The arguments follow each other like the fields of a struct. The result is the value returned, then the arguments that come
//! back, in the order of their declaration. A `Result` is a union: 0 and the value, or 1 and the error.

mod server;

use syn::Type;

use crate::model::{Argument, Interface, Number, Procedure};
use crate::xdr::{Form, Marks};
pub(super) use server::{exported, server};

/// The numbers of a checked interface's procedures, if it is a program.
pub(super) fn numbers(interface: &Interface) -> Option<Vec<Number>> {
    interface.program.as_ref()?;
    let numbers = interface.numbers().into_iter();
    Some(numbers.map(|number| number.expect("the numbers have been checked")).collect())
}

fn form(argument: &Argument) -> Form {
    Form::of_shape(&argument.shape, &argument.marks).expect("the type has been checked")
}

fn form_of(ty: &Type, marks: &Marks) -> Form {
    Form::of(ty, marks).expect("the type has been checked")
}

/// Arguments that come back, in the order of their declaration.
fn outs(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    procedure.arguments.iter().filter(|argument| argument.is_result())
}
