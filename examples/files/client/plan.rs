//! What a transfer has to copy.

use crate::failure::{Failure, printable};
use crate::progress::Progress;
use crate::transfer::{self, Direction, Item};
use stoop_examples::files::{Entry, Kind};

/// The files of a transfer.
#[derive(Default)]
pub(crate) struct Plan {
    items: Vec<Item>,
    /// Bytes of files that are at the other end already.
    unchanged: u64,
    /// Entries that cannot be copied.
    skipped: usize,
}

impl Plan {
    /// Adds a file, unless the other end has one with the same size and time.
    pub(crate) fn add(&mut self, item: Item, source: &Entry, target: Option<&Entry>) {
        let is_there = target.is_some_and(|target| {
            target.kind == Kind::File
                && target.version.size == source.version.size
                && target.attributes.modified_ns == source.attributes.modified_ns
        });
        if is_there {
            self.unchanged += source.version.size;
        } else {
            self.items.push(item);
        }
    }

    /// Reports an entry that is neither a file nor a directory. An incomplete file is none of the tree.
    pub(crate) fn skip(&mut self, path: &str, kind: Kind) {
        if kind != Kind::Part {
            eprintln!("{}: skipped, because it is neither a file nor a directory", printable(path));
            self.skipped += 1;
        }
    }

    /// Copies the files; returns how many entries could not be copied.
    pub(crate) fn carry_out(self, direction: &impl Direction) -> Result<usize, Failure> {
        let size: u64 = self.items.iter().map(|item| item.size).sum();
        let progress = Progress::new(size + self.unchanged);
        progress.add_reused(self.unchanged);
        let failed = transfer::run(direction, self.items, &progress)?;
        progress.summarize();
        Ok(failed + self.skipped)
    }
}
