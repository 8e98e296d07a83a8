//! The emitted code against rpcgen and libtirpc: for every type of many interface files, the same bytes for the same values,
//! and the same verdict on changed bytes.

mod corpus;
mod from_trait;
mod probes;
mod programs;
#[allow(dead_code, reason = "values are only encoded and decoded")]
mod shared;
mod values;
mod verdict;

use corpus::Entry;
use programs::{Answer, Folder};
use std::path::Path;
use stoop_x::model::Kind;
use stoop_x::{Compiled, Options};
use values::Values;

/// How many values of each type, and how often each of them is changed.
const VALUES: usize = 20;
const CHANGES: usize = 6;

/// Routines that are different in C: they take the routine of a part, or compare one part with another.
const SPECIAL: [&str; 3] = ["rpcb_rmtcallargs", "rpcb_rmtcallres", "netbuf"];

/// The types of a file that both have. A node of a list has its link in C, and not here; it is compared as a part of lists.
fn types(compiled: &Compiled) -> Vec<String> {
    let definitions = compiled.model.definitions.iter();
    let definitions = definitions.filter(|definition| !SPECIAL.contains(&definition.name.as_str()));
    let definitions = definitions.filter(|definition| match &definition.kind {
        Kind::Typedef(_) | Kind::Enumeration(_) | Kind::Union(_) => true,
        Kind::Structure(structure) => !structure.is_node,
        _ => false,
    });
    definitions.map(|definition| definition.name.clone()).collect()
}

/// The fault in our answer, if there is one.
fn difference(input: &[u8], is_changed: bool, ours: &Answer, theirs: &Answer) -> Option<String> {
    let why = match (ours.verdict, theirs.verdict) {
        (1, 1) if ours == theirs && (is_changed || ours.encoding == input) => return None,
        (0, 0) | (2, 0) if is_changed => return None,
        // libtirpc's known leniency.
        (2, 1) if is_changed => return None,
        (1, 1) if is_changed && has_cut_string(&ours.encoding, &theirs.encoding) => return None,
        (1, 1) => "another encoding",
        (1, _) => "accepted by us alone",
        (_, 1) => "accepted by libtirpc alone",
        _ => "refused",
    };
    Some(format!("{why}:\n input  {input:x?}\n ours   {ours:x?}\n theirs {theirs:x?}"))
}

/// Whether libtirpc ended a string at a zero byte, as C does, and not where the peer said.
fn has_cut_string(ours: &[u8], theirs: &[u8]) -> bool {
    let words = ours.chunks_exact(4).zip(theirs.chunks_exact(4)).enumerate();
    let Some((at, (_, shorter))) = words.into_iter().find(|(_, (ours, theirs))| ours != theirs) else {
        return false;
    };
    let length = u32::from_be_bytes(shorter.try_into().expect("a word has 4 bytes")) as usize;
    ours.get(4 * at + 4 + length) == Some(&0)
}

#[test]
fn emitted_code_and_rpcgen_agree_on_all_types() {
    let folder = Folder::new("oracle");
    let entries = corpus::entries();
    let compiled: Vec<(Entry, Compiled)> = entries
        .into_iter()
        .map(|entry| {
            let compiled = entry.compiled(Options::new());
            (entry, compiled)
        })
        .collect();
    let files: Vec<_> =
        compiled.iter().map(|(entry, compiled)| (entry.name(), compiled.rust.clone())).collect();
    let mut names = Vec::new();
    for (entry, compiled) in &compiled {
        names.extend(
            types(compiled).iter().map(|ty| format!("{}::{}", entry.name(), compiled.type_names[ty])),
        );
    }
    let ours = programs::with_ours(&folder.0, &files, &names);
    if let Some(why) = programs::missing() {
        return println!("SKIPPED: emitted_code_and_rpcgen_agree_on_all_types: {why}");
    }
    let mut first = 0;
    for (entry, compiled) in &compiled {
        let types = types(compiled);
        if let Some(theirs) = programs::with_rpcgen(&folder.0, entry, &types) {
            let inputs = inputs(compiled, &types);
            let our_answers = programs::answers(&ours, &numbered(&inputs, first));
            compare(&entry.name(), &types, &inputs, &our_answers, &theirs);
        }
        first += types.len();
    }
}

/// The input of both.
struct Input {
    /// The position of its type.
    ty: usize,
    bytes: Vec<u8>,
    is_changed: bool,
}

/// Values of all types, and changed ones.
fn inputs(compiled: &Compiled, types: &[String]) -> Vec<Input> {
    let mut values = Values::new(&compiled.model, 1);
    let mut inputs = Vec::new();
    for (ty, name) in types.iter().enumerate() {
        for _ in 0..VALUES {
            let bytes = values.encoding(name);
            for _ in 0..CHANGES {
                inputs.push(Input { ty, bytes: values.changed(&bytes), is_changed: true });
            }
            inputs.push(Input { ty, bytes, is_changed: false });
        }
    }
    inputs
}

/// The inputs for a program that has the types from this number on.
fn numbered(inputs: &[Input], start: usize) -> Vec<(usize, Vec<u8>)> {
    inputs.iter().map(|input| (start + input.ty, input.bytes.clone())).collect()
}

/// Fails if our answers are not those of rpcgen's program.
fn compare(name: &str, types: &[String], inputs: &[Input], ours: &[Answer], theirs: &Path) {
    let theirs = programs::answers(theirs, &numbered(inputs, 0));
    for ((input, ours), theirs) in inputs.iter().zip(ours).zip(&theirs) {
        if let Some(difference) = difference(&input.bytes, input.is_changed, ours, theirs) {
            panic!("{name} {}: {difference}", types[input.ty]);
        }
    }
    println!("{name}: {} types, {} values", types.len(), inputs.len());
}
