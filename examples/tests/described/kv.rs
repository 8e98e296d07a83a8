/// Remembers values under their keys.
#[stoop::interface]
pub trait Store {
    /// The value under `key`, if there is one.
    #[idempotent]
    fn get(&self, key: &str) -> Option<Entry>;

    /// Puts `value` under `key` and returns its version. With an `expected`
    /// version, only if the key is still at it.
    fn set(
        &self,
        key: &str,
        value: &[u8],
        expected: Option<u64>,
    ) -> Result<u64, KvError>;

    /// Copies the beginning of a value into `buf`, as much as there is and as
    /// fits, and returns the length of all of it.
    #[idempotent]
    fn read(&self, key: &str, #[out] buf: &mut [u8]) -> Result<usize, KvError>;

    /// Waits until the key has a version above `version`, and returns what is
    /// there then. `None` when the caller's time runs short before.
    #[idempotent]
    fn await_change(&self, key: &str, version: u64) -> Option<Entry>;
}

/// A value and its version, which is higher than that of any value before it.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Entry {
    /// Versions begin at 1.
    pub version: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// Why the store did not do what it was asked.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub enum KvError {
    /// Nothing is under the key.
    Missing,
    /// The key is not at the expected version.
    Changed {
        /// The version that it is at.
        version: u64,
    },
    /// The value is longer than [`MAX_VALUE`].
    TooLong {
        /// Its length.
        len: usize,
    },
}
