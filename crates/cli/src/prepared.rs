//! A call that a user has asked for, by any protocol.

use std::fs;
use std::io::{self, Read};
use stoop::CallError;
use stoop_schema::json::Json;

/// The outcome of a call: its result, and whether that is the procedure's own error.
pub(crate) type Made = Result<(Json, bool), CallError>;

/// A call that can be made.
pub(crate) struct Prepared {
    /// Makes it.
    pub(crate) make: Box<dyn Fn() -> Result<Made, NoResult>>,
    /// Whether it prints items: then a result that says nothing is not printed.
    pub(crate) has_items: bool,
    /// The transport, in words.
    pub(crate) transport: String,
}

/// Why there is no result: a message, and the exit status.
pub(crate) struct NoResult(pub(crate) String, pub(crate) u8);

impl NoResult {
    pub(crate) fn usage(why: impl ToString) -> Self {
        Self(why.to_string(), 2)
    }

    pub(crate) fn not_run(why: impl ToString) -> Self {
        Self(why.to_string(), 3)
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(crate) fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    match path {
        "-" => {
            io::stdin().read_to_end(&mut bytes).map(|_| bytes).map_err(|why| format!("standard input: {why}"))
        }
        path => fs::read(path).map_err(|why| format!("{path}: {why}")),
    }
}
