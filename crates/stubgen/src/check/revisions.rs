//! Checks of what came with later revisions.

use crate::mistakes::Mistakes;
use crate::model::{Argument, Interface, Mode, Shape};
use crate::since::Since;

/// Checks the revisions of an interface, its procedures and their arguments.
pub(super) fn check(interface: &Interface, mistakes: &mut Mistakes) {
    if interface.program.is_some() && interface.revisions.is_some() {
        let advice = "a program of Sun RPC has versions in place of revisions; remove `revision = N`";
        mistakes.add(&interface.name, advice);
    }
    let newest = interface.revisions.map_or(0, |revisions| revisions.newest);
    let later = |since: u32| {
        (since > newest).then(|| {
            format!("it came with a later revision than the interface has; write `#[stoop::interface(revision = {since})]`")
        })
    };
    for procedure in &interface.procedures {
        if let Some(advice) = later(procedure.since) {
            mistakes.add(&procedure.name, advice);
        }
        for argument in &procedure.arguments {
            let Some(since) = &argument.since else { continue };
            if let Some(advice) = later(since.number) {
                mistakes.add(&argument.name, advice);
            }
            if let Some(advice) = no_later_argument(argument, since) {
                mistakes.add(&argument.name, advice);
            }
        }
    }
}

/// Why an argument cannot come with a later revision.
fn no_later_argument(argument: &Argument, since: &Since) -> Option<&'static str> {
    match (argument.mode, &argument.shape) {
        (_, Shape::Pipe(..)) => Some("a pipe is there from the beginning; add another procedure"),
        (_, Shape::Callback(_)) => {
            Some("a client of the caller's object is there from the beginning; add another procedure")
        }
        (_, Shape::Buffer(_)) => Some("a buffer is there from the beginning; add another procedure"),
        (Mode::InOut | Mode::Out, _) => Some(
            "an argument that comes back is there from the beginning; return a type with a field under `#[stoop(since = N)]`, or add \
             another procedure",
        ),
        (Mode::OptionalIn, _) if since.default.is_some() => Some("the default of an `Option<&T>` is `None`"),
        (Mode::OptionalIn | Mode::Value, _) => None,
        (Mode::In, Shape::Slice(_)) if since.default.is_some() => {
            Some("the default of a slice is an empty one; take a `&Vec<T>` for another default")
        }
        (Mode::In, Shape::Array(..)) => Some("write `&Vec<T>`, or take the array by value"),
        (Mode::In, _) => None,
    }
}
