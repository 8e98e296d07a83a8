//! The search for a server that does not answer: its interface may have another hardware address now.

use crate::transport::ether::address::EtherAddress;
use stoop_ether::Interface;
use stoop_ether::address::Address;
use stoop_ether::names::Inquiry;

/// A search that goes on with each packet that a caller has to send again. It never waits.
#[derive(Default)]
pub(super) struct Whereabouts {
    /// Packets that were sent again since the last answer.
    in_vain: u32,
    inquiry: Option<Inquiry>,
}

/// Packets that are sent again before the caller asks: most are only lost, or the server is slow.
const PATIENCE: u32 = 3;

impl Whereabouts {
    /// Looks for the server that was found at `server`, when a packet to it is sent again. Returns where it is if it has said so by now.
    pub(super) fn look(&mut self, of: &EtherAddress, server: Address) -> Option<Address> {
        self.in_vain += 1;
        if self.in_vain < PATIENCE {
            return None;
        }
        if self.inquiry.is_none() {
            let interface = Interface::by_name(&of.interface).ok()?;
            self.inquiry = Inquiry::new(&interface, of.ether_type, server).ok();
        }
        let found = self.answer();
        if let Some(inquiry) = &self.inquiry {
            inquiry.ask();
        }
        found
    }

    /// Whether it waits for an answer.
    #[inline]
    pub(super) fn has_asked(&self) -> bool {
        self.inquiry.is_some()
    }

    /// Where the server is, if it has said so by now. That ends the search.
    pub(super) fn answer(&mut self) -> Option<Address> {
        let found = self.inquiry.as_ref()?.answer()?;
        *self = Self::default();
        Some(found)
    }
}
