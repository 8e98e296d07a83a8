//! The caller's half of the protocol as a table: what each packet means in each state.

use stoop_wire::Kind;

/// The state of the caller's outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Sent; nothing has been heard.
    Sent,
    /// The server has it and is working.
    Acknowledged,
    /// Parts of the result have arrived.
    Receiving,
    /// The caller no longer waits, and tells the server so.
    Cancelled,
}

/// The step after the arrival of a packet for the outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The call has ended.
    Finish,
    /// The call goes on in this state.
    Become(CallState),
    /// The server wants proof of the caller's address.
    Prove,
    /// Parts of the call have arrived at the server.
    TakeReceipt,
    /// A server does not send this to a caller's lane.
    Ignore,
}

impl CallState {
    /// Decides; the rest of the module carries the decision out. A receipt for a pipe counts as data.
    #[inline]
    pub(super) fn on_packet(self, kind: Kind) -> Step {
        match (self, kind) {
            (_, Kind::Result | Kind::Refusal | Kind::Failure | Kind::Versions) => Step::Finish,
            (Self::Sent | Self::Acknowledged, Kind::Acknowledgement | Kind::Data) => {
                Step::Become(Self::Acknowledged)
            }
            // Further parts of the result will arrive.
            (Self::Receiving, Kind::Acknowledgement | Kind::Data) => Step::Become(Self::Receiving),
            // The procedure still runs; the lane cannot be used before it has ended.
            (Self::Cancelled, Kind::Acknowledgement) => Step::Become(Self::Cancelled),
            (_, Kind::Challenge) => Step::Prove,
            (Self::Sent, Kind::Receipt) => Step::TakeReceipt,
            (Self::Acknowledged | Self::Receiving | Self::Cancelled, Kind::Receipt) => Step::Ignore,
            (Self::Cancelled, Kind::Data) => Step::Ignore,
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
                | Kind::Handshake
                | Kind::Probes
                // About many lanes: [`Waits`](super::Waits) takes it.
                | Kind::Acknowledgements,
            ) => Step::Ignore,
        }
    }

    /// The kind of packet to send after a timeout.
    #[inline]
    pub(super) fn on_timeout(self) -> Kind {
        match self {
            Self::Sent => Kind::Call,
            // The call has arrived; sending it again would only be acknowledged again.
            Self::Acknowledged => Kind::Probe,
            // The receipt says which parts are missing.
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

    /// The snapshot shows every change of the protocol in a diff.
    #[test]
    fn the_table_equals_its_snapshot() {
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
