//! The kinds of packets.

/// The kind of a packet. `docs/protocol.md` says what each answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Caller asks for a binding to an interface.
    Bind = 1,
    /// Server grants it, or refuses it with a reason.
    BindReply = 2,
    /// Arguments of a procedure.
    Call = 3,
    /// Results of a procedure.
    Result = 4,
    /// The server has the call and works on it.
    Acknowledgement = 5,
    /// Caller asks whether the server still has its call.
    Probe = 6,
    /// The procedure was not run for this call and will not be.
    Refusal = 7,
    /// The procedure ran, but there is no result to give.
    Failure = 8,
    /// Server wants proof that the sender receives at its address.
    Challenge = 9,
    /// Caller returns the cookie of a challenge as a proof.
    Proof = 10,
    /// Caller releases its binding; over shared memory, either end ends it and gives a reason.
    Unbind = 11,
    /// Caller asks for the signature of a procedure.
    Describe = 12,
    /// Server answers with the signature.
    Description = 13,
    /// Either side reports which parts of a message of many packets, or of a pipe, have arrived, and how much more it accepts.
    Receipt = 14,
    /// Caller cancels its call.
    Cancel = 15,
    /// Caller of a shared-memory binding asks for the memory, and server hands it over.
    Attach = 16,
    /// Reserved for a handshake of keys before the bind. No peer of this version sends it, and a receiver drops it.
    Handshake = 17,
    /// Tells a peer of another version which versions are spoken here: [`Versions`](crate::Versions).
    Versions = 18,
    /// Caller asks which of many calls of one binding the server still has: [`CallList`](crate::CallList).
    Probes = 19,
    /// Server has the first calls of such a list and works on them.
    Acknowledgements = 20,
    /// Bytes of a pipe of a call: [`Data`](crate::Data).
    Data = 21,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 21] = [
        Self::Bind,
        Self::BindReply,
        Self::Call,
        Self::Result,
        Self::Acknowledgement,
        Self::Probe,
        Self::Refusal,
        Self::Failure,
        Self::Challenge,
        Self::Proof,
        Self::Unbind,
        Self::Describe,
        Self::Description,
        Self::Receipt,
        Self::Cancel,
        Self::Attach,
        Self::Handshake,
        Self::Versions,
        Self::Probes,
        Self::Acknowledgements,
        Self::Data,
    ];

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte.wrapping_sub(1))).copied()
    }
}
