//! A call that a user has asked for, by any protocol.

use std::fs;
use std::io::{self, Read};
use stoop::CallError;
use stoop_schema::json::Json;

/// A call that can be made.
pub(crate) struct Prepared {
    /// Makes it: the result, and whether that is the procedure's own error.
    pub(crate) make: Box<dyn Fn() -> Result<(Json, bool), CallError>>,
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
