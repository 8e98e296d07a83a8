//! The forms that the procedures of an interface had at its older revisions.
//!
//! A form is the signature of a procedure as at a revision. The older forms of an interface are numbered behind its procedures, from
//! [`FORMS`] on, so that a bind compares them as it compares procedures.

use crate::interface::{Exported, Interface, Procedure};
use crate::metadata::without_metadata;
use std::sync::OnceLock;
use stoop_exchange::{FORMS, FORMS_MAX, OlderForm};
use stoop_marshal::{Description, Form};

/// The revisions of an interface that callers and servers of it understand.
#[derive(Debug)]
pub struct Revisions {
    newest: u32,
    oldest: u32,
    forms: OnceLock<Forms>,
}

impl Revisions {
    /// Of an interface that has none.
    pub const fn none() -> Self {
        Self::new(0, 0)
    }

    /// From the oldest that is understood to the present one.
    pub const fn new(newest: u32, oldest: u32) -> Self {
        Self { newest, oldest, forms: OnceLock::new() }
    }
}

/// As [`Interface::base`]. The interface is asked for only if it is needed.
#[inline]
pub(crate) fn base(export: &dyn Exported, number: u16) -> u16 {
    if number < FORMS { number } else { export.interface().base(number) }
}

/// A form of a procedure: the first and the last revision at which it holds, and its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownForm {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) signature: String,
}

/// What a bind compares of an interface.
#[derive(Debug)]
pub(crate) struct Forms {
    pub(crate) compared: stoop_exchange::Interface,
    /// The revisions of the older forms, in their order.
    revisions: Vec<u32>,
    /// Why the interface cannot be served or bound to.
    pub(crate) problem: Option<String>,
}

impl Interface {
    /// What a bind compares, made when it is asked for first.
    pub(crate) fn forms(&self) -> &Forms {
        self.revisions.forms.get_or_init(|| Forms::of(self))
    }

    /// Whether it can be served and bound to.
    ///
    /// # Errors
    /// Its types and its revisions do not fit together, for this reason.
    pub(crate) fn check_forms(&self) -> Result<(), String> {
        let offered = || self.callback.and_then(|offered| self.no_callbacks(offered()));
        self.forms().problem.clone().or_else(offered).map_or(Ok(()), Err)
    }

    /// The present revision and the oldest that is understood.
    pub(crate) fn revision_range(&self) -> (u32, u32) {
        (self.revisions.newest, self.revisions.oldest)
    }

    /// All forms of its procedures, with the revisions at which they hold, and its name.
    pub(crate) fn known_forms(&self) -> (String, Vec<KnownForm>) {
        let (Forms { compared, revisions, .. }, newest) = (self.forms(), self.revisions.newest);
        let mut known = Vec::new();
        for ((number, procedure), declared) in (0..).zip(&compared.procedures).zip(self.procedures) {
            let older = compared.older.iter().zip(revisions).filter(|(form, _)| form.procedure == number);
            let mut last = newest;
            let mut signature = &procedure.signature;
            for (form, revision) in older {
                known.push(KnownForm { first: revision + 1, last, signature: signature.clone() });
                (last, signature) = (*revision, &form.signature);
            }
            let first = declared.since.max(self.revisions.oldest);
            known.push(KnownForm { first, last, signature: signature.clone() });
        }
        (self.name.into(), known)
    }

    /// Its older forms, in the order of their numbers: the procedure of each, and the last revision at which it held.
    pub(crate) fn older_forms(&self) -> impl Iterator<Item = (u16, u32)> {
        let Forms { compared, revisions, .. } = self.forms();
        compared.older.iter().map(|form| form.procedure).zip(revisions.iter().copied())
    }

    /// The procedure of a number, which may be that of an older form, and may have the bit of metadata.
    #[inline]
    pub(crate) fn base(&self, number: u16) -> u16 {
        if number < FORMS { number } else { self.base_of_form(number) }
    }

    #[cold]
    fn base_of_form(&self, number: u16) -> u16 {
        let number = without_metadata(number);
        let form =
            number.checked_sub(FORMS).and_then(|form| self.forms().compared.older.get(usize::from(form)));
        form.map_or(number, |form| form.procedure)
    }

    /// In words, what a `callee` (server or client) of an older revision lacks, which knows each procedure in that form; empty if it lacks
    /// nothing.
    pub(crate) fn describe_forms(&self, callee: &str, form: impl Fn(u16) -> Option<u16>) -> String {
        let lacking =
            (0..).zip(self.procedures).filter_map(|(number, Procedure { name, .. })| match form(number) {
                Some(newest) if newest == number => None,
                Some(older) => {
                    Some(format!("`{name}` as at revision {}", self.form_of_arguments(older).revision()))
                }
                None => Some(format!("no `{name}`")),
            });
        let lacking = lacking.collect::<Vec<_>>().join(", ");
        if lacking.is_empty() { lacking } else { format!("; the {callee} is older: it has {lacking}") }
    }

    /// For server stubs: the procedure of a call with that number, which is none of a procedure's newest form, and the form of its messages.
    pub fn form_of_call(&self, number: u16) -> Option<(u16, Form)> {
        let form = usize::from(number.checked_sub(FORMS)?);
        let forms = self.forms();
        let procedure = forms.compared.older.get(form)?.procedure;
        Some((procedure, Form::of_results(*forms.revisions.get(form)?)))
    }

    /// The form of the arguments of a call with that number.
    pub(crate) fn form_of_arguments(&self, number: u16) -> Form {
        let form = number.checked_sub(FORMS).and_then(|form| self.forms().revisions.get(usize::from(form)));
        Form::of_arguments(form.copied().unwrap_or(u32::MAX))
    }
}

impl Forms {
    fn of(interface: &Interface) -> Self {
        let Revisions { newest, oldest, .. } = interface.revisions;
        let mut forms = Self {
            compared: stoop_exchange::Interface { name: interface.name.into(), ..Default::default() },
            revisions: Vec::new(),
            problem: None,
        };
        for (number, procedure) in (0..).zip(interface.procedures) {
            let mut description = Description::new();
            procedure.describe(&mut description);
            let name = procedure.name;
            if description.has_grown_key() {
                forms.problem(|| {
                    format!(
                        "`{name}` has a map or set whose keys have items under `#[stoop(since = N)]`: two of them could become one for a \
                         peer of an older revision; use another key"
                    )
                });
            }
            let since: Vec<u32> = description.since().collect();
            if let Some(latest) = since.last().filter(|latest| **latest > newest) {
                forms.problem(|| {
                    format!(
                        "the types of `{name}` have items that came with revision {latest}; write `#[stoop::interface(revision = {latest})]`"
                    )
                });
            }
            if procedure.since > oldest {
                forms.compared.later.push(number);
            }
            let signature = description.finish();
            forms.add_older(interface, (number, procedure), &signature, &since);
            forms.compared.procedures.push(stoop_exchange::Procedure { name: name.into(), signature });
        }
        if forms.revisions.len() > FORMS_MAX {
            let count = forms.revisions.len();
            forms.problem(|| {
                format!(
                    "its procedures have {count} older forms together, and may have {FORMS_MAX}; raise the oldest revision: \
                     `#[stoop::interface(revision = {newest}, oldest = N)]`"
                )
            });
        }
        if forms.problem.is_some() {
            forms.compared.older.clear();
            forms.revisions.clear();
        }
        forms
    }

    fn problem(&mut self, why: impl FnOnce() -> String) {
        self.problem.get_or_insert_with(why);
    }

    /// Adds the forms that a procedure had between these revisions, the newest first.
    fn add_older(
        &mut self,
        interface: &Interface,
        (number, procedure): (u16, &Procedure),
        newest: &str,
        since: &[u32],
    ) {
        let first = interface.revisions.oldest.max(procedure.since);
        let mut newer = newest.to_owned();
        for revision in since.iter().rev().map(|since| since - 1).take_while(|revision| *revision >= first) {
            let mut description = Description::at(revision);
            procedure.describe(&mut description);
            let signature = description.finish();
            if signature == newer {
                continue;
            }
            newer.clone_from(&signature);
            self.compared.older.push(OlderForm { procedure: number, signature });
            self.revisions.push(revision);
        }
    }
}

#[cfg(test)]
mod tests;
