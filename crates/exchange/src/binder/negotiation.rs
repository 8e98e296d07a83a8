//! The questions by which a binder learns in which form a server knows each procedure.
//!
//! A page is up to 128 procedures. The binder asks for their newest forms. Only if the server marks some of them as unknown, it asks for
//! all older forms of those, and then once more for the forms that both know, which makes the binding. So a server of the same revision is
//! asked once, and one of an older revision three times for a page.

use crate::Interface;
use alloc::vec::Vec;
use core::ops::Range;
use stoop_wire::bind::{FINGERPRINTS_PER_PAGE, NO_PROCEDURE};

use crate::interfaces::{FORMS, Found};

/// Times that a server may say that it does not know a form which it knew before: it has been replaced meanwhile.
const REPLACED_MAX: u32 = 4;

/// The procedures about which the caller asks the server in one question, and the answers so far.
#[derive(Debug)]
pub(super) struct Page {
    procedures: Range<u16>,
    /// The forms in the present question.
    asked: Vec<u16>,
    question: Question,
    /// What the server has told of the page's procedures; of form [`NO_PROCEDURE`] if it has told nothing.
    found: Vec<Found>,
    replaced: u32,
}

/// Which forms a question asks for.
#[derive(Debug)]
enum Question {
    /// The newest of all procedures.
    Newest,
    /// Older ones of those whose newest is unknown; these are still to be asked for.
    Older(Vec<u16>),
    /// The forms that both know.
    Chosen,
}

/// What follows the answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another question about the page.
    Ask,
    /// The server knows this procedure in no form: its signature is asked for.
    Describe(usize),
    /// The page is bound.
    Done,
}

impl Page {
    /// The procedures from `first` on, in their newest forms.
    pub(super) fn newest(interface: &Interface, first: usize) -> Self {
        let last = interface.procedures.len().min(first + FINGERPRINTS_PER_PAGE);
        let procedures = first as u16..last as u16;
        let asked = procedures.clone().collect();
        Self { procedures, asked, question: Question::Newest, found: Vec::new(), replaced: 0 }
    }

    /// The signatures in the present question.
    pub(super) fn asked<'a>(&'a self, interface: &'a Interface) -> impl Iterator<Item = &'a str> {
        self.asked.iter().map(|form| match form.checked_sub(FORMS) {
            Some(older) => interface.older[usize::from(older)].signature.as_str(),
            None => interface.procedures[usize::from(*form)].signature.as_str(),
        })
    }

    /// Number of forms in the present question.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Takes the server's numbers of the forms in the present question.
    pub(super) fn answered(&mut self, interface: &Interface, numbers: &[u16]) -> Next {
        let is_whole = !numbers.contains(&NO_PROCEDURE);
        match &mut self.question {
            Question::Newest => {
                let told = self.asked.iter().zip(numbers);
                self.found = told.map(|(form, number)| Found::new(*form, *number)).collect();
                if is_whole {
                    return Next::Done;
                }
                let Range { start, end } = self.procedures;
                let is_unknown = |procedure: u16| {
                    (start..end).contains(&procedure)
                        && self.found[usize::from(procedure - start)].form == NO_PROCEDURE
                };
                let forms = (FORMS..).zip(&interface.older);
                let older = forms.filter(|(_, form)| is_unknown(form.procedure)).map(|(number, _)| number);
                self.question = Question::Older(older.collect());
                self.ask_older(interface)
            }
            Question::Older(_) => {
                for (form, number) in self.asked.iter().zip(numbers) {
                    let procedure = interface.older[usize::from(form - FORMS)].procedure;
                    let found = &mut self.found[usize::from(procedure - self.procedures.start)];
                    // The newest form is asked for first.
                    if found.form == NO_PROCEDURE {
                        *found = Found::new(*form, *number);
                    }
                }
                self.ask_older(interface)
            }
            Question::Chosen if is_whole => {
                let mut told = self.asked.iter().zip(numbers);
                for found in self.found.iter_mut().filter(|found| found.form != NO_PROCEDURE) {
                    if let Some((form, number)) = told.next() {
                        *found = Found::new(*form, *number);
                    }
                }
                Next::Done
            }
            Question::Chosen if self.replaced == REPLACED_MAX => {
                let unknown = numbers.iter().position(|number| *number == NO_PROCEDURE).unwrap_or(0);
                Next::Describe(usize::from(procedure_of(interface, self.asked[unknown])))
            }
            Question::Chosen => {
                let replaced = self.replaced + 1;
                *self = Self { replaced, ..Self::newest(interface, self.procedures.start.into()) };
                Next::Ask
            }
        }
    }

    /// Goes on with older forms, or with the forms that both know.
    fn ask_older(&mut self, interface: &Interface) -> Next {
        if let Question::Older(rest) = &mut self.question
            && !rest.is_empty()
        {
            let later = rest.split_off(rest.len().min(FINGERPRINTS_PER_PAGE));
            self.asked = core::mem::replace(rest, later);
            return Next::Ask;
        }
        let found = self.procedures.clone().zip(&self.found);
        let mut unknown =
            found.filter(|(_, found)| found.form == NO_PROCEDURE).map(|(procedure, _)| procedure);
        if let Some(procedure) = unknown.find(|procedure| interface.later.binary_search(procedure).is_err()) {
            return Next::Describe(procedure.into());
        }
        self.asked = self.found.iter().map(|found| found.form).filter(|form| *form != NO_PROCEDURE).collect();
        self.question = Question::Chosen;
        Next::Ask
    }

    /// Adds what the server has of the page's procedures.
    pub(super) fn found(&self, all: &mut Vec<Found>) {
        all.extend_from_slice(&self.found);
    }
}

impl Found {
    /// What a server has told of a form.
    fn new(form: u16, number: u16) -> Self {
        Self { form: if number == NO_PROCEDURE { NO_PROCEDURE } else { form }, number }
    }
}

/// The procedure of a form.
fn procedure_of(interface: &Interface, form: u16) -> u16 {
    form.checked_sub(FORMS).map_or(form, |older| interface.older[usize::from(older)].procedure)
}
