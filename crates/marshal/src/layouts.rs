//! The layouts that a type has at all revisions, known to the compiler.

use crate::{Fields, Layout};

/// The layouts that a type has at all revisions.
#[derive(Clone, Copy, Debug)]
pub enum Layouts {
    /// The same at each of them.
    One(Layout),
    /// Those of fields, each with the revision with which it came (0: it was there from the beginning).
    Record(&'static [(u32, Layouts)]),
    /// So many values, one after the other.
    Array(&'static Layouts, usize),
    /// Those of an enum without fields, whose variants came with these revisions.
    Number(&'static [u32]),
}

impl Layouts {
    /// The layout at a revision.
    pub const fn at(&self, revision: u32) -> Layout {
        match self {
            Self::One(layout) => *layout,
            Self::Number(_) => NUMBER,
            Self::Array(of, count) => of.at(revision).array(*count),
            Self::Record(fields) => {
                let (mut all, mut index) = (Fields::NONE, 0);
                while index < fields.len() {
                    let (since, layouts) = &fields[index];
                    if *since <= revision {
                        all = all.and(layouts.at(revision));
                    }
                    index += 1;
                }
                all.layout()
            }
        }
    }

    /// The first revision after that one with which a part came; [`NEVER`] if none came later.
    const fn next(&self, revision: u32) -> u32 {
        match self {
            Self::One(_) => NEVER,
            Self::Array(of, _) => of.next(revision),
            Self::Number(variants) => {
                let (mut next, mut index) = (NEVER, 0);
                while index < variants.len() {
                    next = earlier(next, variants[index], revision);
                    index += 1;
                }
                next
            }
            Self::Record(fields) => {
                let (mut next, mut index) = (NEVER, 0);
                while index < fields.len() {
                    let (since, layouts) = &fields[index];
                    next = earlier(earlier(next, *since, revision), layouts.next(revision), revision);
                    index += 1;
                }
                next
            }
        }
    }

    /// The revision with which the type changed for the `index`-th time; [`NEVER`] if it did not change so often.
    pub(crate) const fn change(&self, index: usize) -> u32 {
        let (mut change, mut passed) = (self.next(0), 0);
        while passed < index && change < NEVER {
            change = self.next(change);
            passed += 1;
        }
        change
    }
}

/// The layout of an enum without fields: its variant's number.
const NUMBER: Layout = Layout::fixed(4, 4);

/// No revision has this number: it stands for the present one.
pub(crate) const NEVER: u32 = u32::MAX;

/// `next`, or `other` if that is between `revision` and `next`.
const fn earlier(next: u32, other: u32, revision: u32) -> u32 {
    if revision < other && other < next { other } else { next }
}

/// A revision that the compiler knows.
pub trait Revision {
    /// The revision.
    const NUMBER: u32;
}

/// The present revision.
pub(crate) struct Newest;

impl Revision for Newest {
    const NUMBER: u32 = NEVER;
}

/// The name of an item, and the revision with which it came.
pub type LaterItem = (&'static str, u32);

/// Items that the peer does not know, while a fixed value is stored for it.
// A pointer, so that no branch is taken for a field that has its default.
#[derive(Debug)]
pub struct LeftOut {
    pub(crate) is_strict: bool,
    /// The first that cannot be left out.
    pub(crate) item: Option<&'static LaterItem>,
}

impl LeftOut {
    /// Leaves out a field. Arguments cannot be sent then, unless it `is_default`.
    #[inline(always)]
    pub fn leave_out(&mut self, item: &'static LaterItem, is_default: impl FnOnce() -> bool) {
        if self.is_strict && !is_default() {
            self.item = self.item.or(Some(item));
        }
    }

    /// Stores another variant in place of this one, if it is one that the peer does not know: in results `otherwise`, if there is one.
    #[inline(always)]
    pub fn replace_variant(&mut self, item: Option<&'static LaterItem>, has_otherwise: bool) {
        if self.is_strict || !has_otherwise {
            self.item = self.item.or(item);
        }
    }
}
