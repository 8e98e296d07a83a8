//! Panics of code of the user that were caught.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}

/// Drops the value of a panic, and returns its message.
#[cold]
pub(crate) fn end_of_panic(panic: Box<dyn Any + Send>) -> String {
    let message = panic_message(&*panic).to_owned();
    // The value may panic once more when it is dropped. That must not end the thread.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    message
}
