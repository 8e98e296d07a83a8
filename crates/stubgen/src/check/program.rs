//! Checks that an interface can be a program of Sun RPC.

use std::collections::HashMap;

use crate::mistakes::Mistakes;
use crate::model::{Argument, Interface, Mode, Procedure, Returns, Shape};
use crate::xdr::{Form, Marks};

/// Adds a mistake for each part that Sun RPC has no counterpart of; without a program, for each mark that is for Sun RPC.
pub(super) fn check(interface: &Interface, mistakes: &mut Mistakes) {
    match interface.program {
        Some(_) => {
            if let Some(callback) = &interface.callback {
                let advice = "over Sun RPC a client that is called back is a server itself: see the callbacks in docs/sun-rpc.md; remove `callback`";
                mistakes.add(callback, advice);
            }
            numbers(interface, mistakes);
            interface.procedures.iter().for_each(|each| procedure(each, mistakes));
        }
        None => interface.procedures.iter().for_each(|each| unmarked(each, mistakes)),
    }
}

/// Procedures have different numbers, as far as these are known here.
fn numbers(interface: &Interface, mistakes: &mut Mistakes) {
    let mut taken = HashMap::new();
    for (procedure, number) in interface.procedures.iter().zip(interface.numbers()) {
        match number {
            Ok(number) => {
                let Some(value) = number.value else { continue };
                if let Some(other) = taken.insert(value, &procedure.name) {
                    let advice = format!("`{other}` has the number {value}, too; write `#[procedure(N)]`");
                    mistakes.add(&procedure.name, advice);
                }
            }
            Err(error) => mistakes.extend(error),
        }
    }
}

fn procedure(procedure: &Procedure, mistakes: &mut Mistakes) {
    if procedure.one_way && !procedure.unordered {
        let advice = "Sun RPC does not tell when a one-way call has returned, so no call can wait for it; write `#[one_way(unordered)]`";
        mistakes.add(&procedure.name, advice);
    }
    for argument in &procedure.arguments {
        if let Err(error) = self::argument(argument) {
            mistakes.extend(error);
        }
    }
    let (none, marks) = (Marks::default(), &procedure.marks);
    let forms = match &procedure.returns {
        Returns::Nothing => {
            marks.refuse("this procedure returns nothing that it could apply to", mistakes);
            return;
        }
        Returns::Value(ty) => vec![Form::of(ty, marks)],
        Returns::Fallible(fallible) => {
            vec![Form::of(&fallible.value, marks), Form::of(&fallible.error, &none)]
        }
    };
    forms.into_iter().filter_map(Result::err).for_each(|error| mistakes.extend(error));
}

fn argument(argument: &Argument) -> Result<(), syn::Error> {
    if let (Mode::Out, Shape::Slice(_)) = (argument.mode, &argument.shape) {
        let advice = "a call of Sun RPC does not say how much the caller has room for; return a `Vec`, or fill an array";
        return Err(syn::Error::new_spanned(&argument.declared, advice));
    }
    Form::of_shape(&argument.shape, &argument.marks).map(drop)
}

fn unmarked(procedure: &Procedure, mistakes: &mut Mistakes) {
    const ADVICE: &str = "this is for programs of Sun RPC; write `#[stoop::interface(program = N, version = N)]`, or remove it";
    if let Some(number) = &procedure.number {
        mistakes.add(number, ADVICE);
    }
    procedure.marks.refuse(ADVICE, mistakes);
    procedure.arguments.iter().for_each(|argument| argument.marks.refuse(ADVICE, mistakes));
}
