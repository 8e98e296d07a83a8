//! How many bytes the sender of a pipe may have sent that the program at the other end has not taken.

/// How many bytes the sender of a pipe may have sent that the program at the other end has not taken, for
/// `client.with_window(…)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// 16 KiB at first, and more while that keeps the reader waiting.
    #[default]
    Usual,
    /// One item at a time: the reader is at most one item behind the sender, which may [skip](crate::Sender::send_latest) others.
    Newest,
    /// About so many bytes. An item that is longer arrives nevertheless.
    Bytes(u32),
}

/// The window of a pipe at its receiving end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    bytes: u64,
    most: u64,
}

/// The most that a window grows to.
const MOST: u64 = 1 << 20;

impl Window {
    pub(crate) fn size(self) -> Size {
        match self {
            Self::Usual => Size { bytes: super::contract::FIRST_WINDOW, most: MOST },
            Self::Newest => Size { bytes: 1, most: 1 },
            Self::Bytes(bytes) => Size { bytes: u64::from(bytes).max(1), most: u64::from(bytes).max(1) },
        }
    }
}

impl Size {
    pub(crate) fn bytes(self) -> u64 {
        self.bytes
    }

    /// The reader has waited though the window was used up.
    pub(crate) fn grow(&mut self) {
        self.bytes = (2 * self.bytes).min(self.most);
    }
}
