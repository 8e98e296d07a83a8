//! The interface of the objects that callers offer, at older revisions.
//!
//! The signature of the procedure that carries callbacks stands for the whole interface. So it has an older form for each older revision,
//! and a bind agrees on one. Both ends then speak the interface as it was at that revision, and number its procedures by their places in it.

use crate::agreed::Agreed;
use crate::interface::{Interface, Procedure};
use stoop_exchange::binder::Found;
use stoop_exchange::{FORMS, fingerprint};
use stoop_marshal::Description;

impl Interface {
    /// Its procedures, without the one that carries callbacks: an object that is offered is offered none.
    fn offered(&self) -> &'static [Procedure] {
        &self.procedures[..self.procedures.len() - usize::from(self.callback.is_some())]
    }

    /// Why objects of the interface `offered` cannot be offered to servers of this one; `None`: they can.
    pub(crate) fn no_callbacks(&self, offered: &Interface) -> Option<String> {
        let ((newest, oldest), (_, theirs)) = (self.revision_range(), offered.revision_range());
        let name = offered.name;
        offered.forms().problem.as_ref().map(|why| format!("the interface {name}, which callers offer: {why}")).or_else(|| {
            (theirs > oldest).then(|| {
                format!(
                    "the interface {name}, which callers offer, is understood from revision {theirs} on; write \
                     `#[stoop::interface(revision = {}, oldest = {theirs})]`",
                    newest.max(theirs)
                )
            })
        })
    }

    /// What the ends of callbacks have of this interface at a revision.
    pub(crate) fn agreed_at(&self, revision: u32) -> Agreed {
        let mut forms: Vec<u16> = (0..).take(self.offered().len()).collect();
        for (number, (procedure, last)) in (FORMS..).zip(self.older_forms()) {
            // Those of a procedure go from the newest to the oldest.
            if last >= revision
                && let Some(form) = forms.get_mut(usize::from(procedure))
            {
                *form = number;
            }
        }
        let mut places = 0..;
        let found = forms.into_iter().zip(self.offered()).map(|(form, procedure)| {
            let place = if procedure.since <= revision { places.next() } else { None };
            place.map_or(Found::NOTHING, |number| Found { form, number })
        });
        Agreed::from(found.collect::<Vec<_>>())
    }

    /// What the other end has of the interface of the objects that callers offer, if a call of that number carries their callbacks; `None`:
    /// it is of the same revision.
    pub(crate) fn agreed_on(&self, number: u16) -> Option<Agreed> {
        let offered = self.callback.filter(|_| number >= FORMS)?;
        Some(offered().agreed_at(self.form_of_arguments(number).revision()))
    }
}

/// For stubs: the signature of the procedure that carries callbacks. A bind compares with it the whole interface that callers offer.
pub fn describe_callbacks(offered: &'static Interface, description: &mut Description) {
    let mut signatures = Vec::new();
    for procedure in offered.offered() {
        if procedure.since == 0 || description.has(procedure.since) {
            let mut its_own = Description::at(description.revision());
            procedure.describe(&mut its_own);
            its_own.since().for_each(|since| _ = description.has(since));
            signatures.push(its_own.finish());
        }
    }
    let (name, print) = (offered.name, fingerprint(&signatures.join(";")));
    description.text(&format!(
        "callback(offered: {name}_{print:016x}{{client: u64}}, answers: pipe in slice<u8>, calls: pipe out slice<u8>)"
    ));
}
