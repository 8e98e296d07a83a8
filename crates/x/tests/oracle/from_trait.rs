//! The interface file that a trait prints, against the trait's own code: rpcgen's routines have the same form of the types.

use crate::corpus::Entry;
use crate::programs::{Answer, Folder, missing, with_rpcgen};
use crate::shared::{Entry as SharedEntry, List, Pair, Scalars, Shape};
use crate::{compare, inputs, verdict};
use std::fs;
use stoop_x::Options;

/// A type's name in the interface file, and its derived code.
type Row = (&'static str, fn(&[u8]) -> (u32, usize, Vec<u8>));

const TYPES: [Row; 5] = [
    ("Scalars", verdict::run::<Scalars>),
    ("Pair", verdict::run::<Pair>),
    ("Entry", verdict::run::<SharedEntry>),
    ("Shape", verdict::run::<Shape>),
    ("List", verdict::run::<List>),
];

fn answer(ty: usize, bytes: &[u8]) -> Answer {
    let (verdict, read, encoding) = TYPES[ty].1(bytes);
    Answer { verdict, read: read as u32, encoding }
}

#[test]
fn a_traits_types_and_rpcgens_routines_of_its_printed_file_agree() {
    if let Some(why) = missing() {
        return println!("SKIPPED: a_traits_types_and_rpcgens_routines_of_its_printed_file_agree: {why}");
    }
    let folder = Folder::new("from-trait");
    let text = stoop_stubgen::interface_file::of_text(include_str!("shared.rs")).expect("it can be printed");
    let path = folder.0.join("printed.x");
    fs::write(&path, text).expect("a file can be written");
    let entry = Entry::new(path);
    let types = TYPES.map(|(name, _)| name.to_owned());
    let theirs = with_rpcgen(&folder.0, &entry, &types).expect("rpcgen's code compiles");
    let inputs = inputs(&entry.compiled(Options::new()), &types);
    let ours: Vec<_> = inputs.iter().map(|input| answer(input.ty, &input.bytes)).collect();
    compare("the printed file", &types, &inputs, &ours, &theirs);
}
