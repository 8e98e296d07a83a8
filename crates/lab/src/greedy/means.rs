//! What attacks have in common: the length of their calls, how often they look at these, and the word that they have begun.

use crate::child;
use std::time::Duration;

/// Bytes of a long call.
pub(super) const LONG: usize = 8 << 20;
/// Time between two looks at outstanding calls.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// Tells the parent that the attacker has made its bindings.
pub(super) fn tell() -> Result<(), String> {
    child::answer("attacking").map_err(|error| error.to_string())
}
