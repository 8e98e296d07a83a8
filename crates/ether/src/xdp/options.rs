//! Options of an AF_XDP socket.

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Behind the driver. Works on every interface; on veth the faster mode. The kernel copies each frame
    /// that the interface receives, of other protocols, too, if a program could not write to its memory.
    Generic,
    /// In the driver, if it can do that. To attach it may interrupt the interface for a moment.
    Native,
}

impl Mode {
    pub(super) fn attaching(self) -> &'static str {
        match self {
            Self::Generic => "generic XDP at this interface",
            Self::Native => "native XDP at this interface",
        }
    }
}

/// Options of an AF_XDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Where the program runs.
    pub mode: Mode,
    /// The receive queue of the socket; `None`: the first. The packet socket for the other queues is slower, so this is of
    /// use where the interface puts our frames into another queue (`ethtool -N`).
    pub queue: Option<u32>,
    /// Receiving runs the driver's poll function. Of use in native mode, where the hardware would interrupt.
    pub busy_poll: bool,
}

impl XdpOptions {
    /// For an interface with one receive queue.
    pub fn new(mode: Mode) -> Self {
        Self { mode, queue: None, busy_poll: false }
    }
}
