//! Files that were changed at random: the compiler gives code or an error, and does not panic.

use stoop_x::{Options, compile};

const FILES: [&str; 2] = [include_str!("../golden/everything.x"), include_str!("../oracle/own.x")];
const PIECES: [&str; 16] = [
    "{",
    "}",
    "<",
    ">",
    ";",
    "*",
    "struct",
    "union",
    "switch",
    "case 1:",
    "#if 0\n",
    "#define a b\n",
    "/*",
    "\"",
    "-",
    "0x",
];

fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A piece of the file, with something added, left out or moved.
fn changed(file: &str, state: &mut u64) -> String {
    let mut text: Vec<u8> = file.bytes().collect();
    let begin = next(state) % text.len();
    text.drain(..begin * (next(state) % 2));
    for _ in 0..1 + next(state) % 3 {
        let at = next(state) % (text.len() + 1);
        let to = (at + next(state) % 12).min(text.len());
        match next(state) % 3 {
            0 => drop(text.drain(at..to)),
            1 => drop(text.splice(at..at, PIECES[next(state) % PIECES.len()].bytes())),
            _ => text[at..to].reverse(),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn changed_files_give_code_or_an_error() {
    let rounds = std::env::var("STOOP_TEST_ROUNDS").map_or(500, |rounds| rounds.parse().expect("a number"));
    let mut accepted = 0;
    for seed in 0..rounds {
        let mut state = seed;
        let text = changed(FILES[seed as usize % 2], &mut state);
        match compile("in.x", &text, &Options::new(), &mut stoop_x::no_includes()) {
            Ok(_) => accepted += 1,
            // It can be printed.
            Err(error) => assert!(error.to_string().contains("in.x:"), "{error}"),
        }
    }
    assert!(accepted > rounds / 100, "some changes do no harm, but only {accepted} were accepted");
}
