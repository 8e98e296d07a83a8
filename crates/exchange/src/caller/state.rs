//! The caller's half of the protocol as a table: every state and what arrives in it.

use stoop_wire::Kind;

/// What the caller knows about its outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Sent, nothing heard.
    Sent,
    /// The server has it and is working.
    Acknowledged,
    /// Parts of the result have arrived.
    Receiving,
    /// Nobody waits for it any more; the server is being told.
    Cancelled,
}

/// What a packet for the outstanding call leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The call has ended.
    Finish,
    /// It goes on in this state.
    Become(CallState),
    /// The server wants proof of the caller's address.
    Prove,
    /// Parts of the call have arrived.
    TakeReceipt,
    /// A server does not send this to a caller's lane.
    Ignore,
}

impl CallState {
    /// The rest of the module carries out what this decides.
    #[inline]
    pub(super) fn on_packet(self, kind: Kind) -> Step {
        match (self, kind) {
            (_, Kind::Result | Kind::Refusal | Kind::Failure | Kind::Versions) => Step::Finish,
            (Self::Sent | Self::Acknowledged, Kind::Acknowledgement) => Step::Become(Self::Acknowledged),
            // The rest is on its way.
            (Self::Receiving, Kind::Acknowledgement) => Step::Become(Self::Receiving),
            // It runs, and perhaps ends soon: until then the lane is of no use.
            (Self::Cancelled, Kind::Acknowledgement) => Step::Become(Self::Cancelled),
            (_, Kind::Challenge) => Step::Prove,
            (Self::Sent, Kind::Receipt) => Step::TakeReceipt,
            (Self::Acknowledged | Self::Receiving | Self::Cancelled, Kind::Receipt) => Step::Ignore,
            (
                _,
                Kind::Bind
                | Kind::BindReply
                | Kind::Call
                | Kind::Probe
                | Kind::Proof
                | Kind::Unbind
                | Kind::Describe
                | Kind::Description
                | Kind::Cancel
                | Kind::Attach
                | Kind::Handshake,
            ) => Step::Ignore,
        }
    }

    /// What is sent when nothing is heard.
    #[inline]
    pub(super) fn on_timeout(self) -> Kind {
        match self {
            Self::Sent => Kind::Call,
            // The call has arrived; sending it again would only be acknowledged again.
            Self::Acknowledged => Kind::Probe,
            // It says what is missing.
            Self::Receiving => Kind::Receipt,
            Self::Cancelled => Kind::Cancel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// A change of protocol is a line in the review.
    #[test]
    fn the_table_is_the_one_under_version_control() {
        let mut table = String::new();
        for state in [CallState::Sent, CallState::Acknowledged, CallState::Receiving, CallState::Cancelled] {
            for kind in Kind::ALL {
                table += &format!("{state:?} × {kind:?} → {:?}\n", state.on_packet(kind));
            }
            table += &format!("{state:?} × timeout → {:?}\n", state.on_timeout());
        }
        assert_eq!(table, include_str!("state.table"), "the table is now:\n{table}");
    }
}
