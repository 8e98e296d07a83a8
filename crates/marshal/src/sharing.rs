//! The shared values of one message, at its writer and at its reader.

use core::any::{Any, TypeId};
use std::collections::HashMap;

use crate::DecodeError;

/// The shared values that a message has already: for each, its type, its address, and its number from 1 on.
#[derive(Default)]
pub(crate) struct Sent {
    numbers: HashMap<(TypeId, usize), u32>,
    /// Keeps the values alive, so that no other can get the address of one while the message is written.
    values: Vec<Box<dyn Any>>,
}

impl Sent {
    /// The number of the value with that type and address, if the message has it.
    pub(crate) fn number(&self, key: (TypeId, usize)) -> Option<u32> {
        self.numbers.get(&key).copied()
    }

    /// Gives the next number to a value that is now complete. `false`: there is no memory to remember it.
    pub(crate) fn add(&mut self, key: (TypeId, usize), value: impl Any) -> bool {
        if self.values.try_reserve(1).is_err() || self.numbers.try_reserve(1).is_err() {
            return false;
        }
        self.values.push(Box::new(value));
        self.numbers.insert(key, self.values.len() as u32);
        true
    }
}

/// The shared values that came with a message so far.
#[derive(Default)]
pub(crate) struct Received(Vec<Box<dyn Any>>);

impl Received {
    /// The value with that number, if there is one and it has that type.
    pub(crate) fn get<T: Any + Clone>(&self, number: u32) -> Option<T> {
        let index = (number as usize).checked_sub(1)?;
        self.0.get(index)?.downcast_ref::<T>().cloned()
    }

    /// Gives the next number to a value that is now complete.
    pub(crate) fn add(&mut self, value: impl Any) -> Result<(), DecodeError> {
        self.0.try_reserve(1).map_err(|_| DecodeError::NoMemory)?;
        self.0.push(Box::new(value));
        Ok(())
    }
}
