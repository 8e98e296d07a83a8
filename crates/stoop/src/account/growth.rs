//! How much a server's account has grown between two looks at it.

use crate::account::peers::CallingPeer;
use crate::account::piped::PipedItems;
use crate::account::served::{ServedProcedure, ServerAccount};
use std::time::Duration;

impl ServerAccount {
    /// The calls since `earlier`, an earlier account of the same server: how many, how long they ran, and for which callers. The number of
    /// calls that [run](ServedProcedure::running) is the present one. If the server was [started anew](crate::health::About::incarnation)
    /// in between, its account has counted from zero: use that alone.
    ///
    /// ```
    /// use stoop::account::ServerAccount;
    ///
    /// /// The procedure that has taken most time since the last look.
    /// fn busiest(now: &ServerAccount, before: &ServerAccount) -> Option<String> {
    ///     let since = now.since(before);
    ///     since.procedures.into_iter().max_by_key(|procedure| procedure.ran.sum()).map(|procedure| procedure.name)
    /// }
    /// # assert_eq!(busiest(&ServerAccount::default(), &ServerAccount::default()), None);
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let procedures = self.procedures.iter().map(|now| {
            let is_same =
                |then: &&ServedProcedure| (&then.interface, &then.name) == (&now.interface, &now.name);
            earlier.procedures.iter().find(is_same).map_or_else(|| now.clone(), |then| now.since(then))
        });
        let peers = self.peers.iter().map(|now| {
            let then = earlier.peers.iter().find(|then| then.peer == now.peer);
            let (calls, ran) = then.map_or((0, Duration::ZERO), |then| (then.calls, then.ran));
            CallingPeer {
                peer: now.peer.clone(),
                calls: now.calls.saturating_sub(calls),
                ran: now.ran.saturating_sub(ran),
            }
        });
        let (procedures, peers) = (procedures.collect(), peers.collect());
        Self { procedures, peers, ..*self }
    }
}

impl ServedProcedure {
    fn since(&self, earlier: &Self) -> Self {
        let before = |of| earlier.older.iter().find(|(revision, _)| *revision == of).map_or(0, |then| then.1);
        let older = self.older.iter().map(|&(of, calls)| (of, calls.saturating_sub(before(of))));
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            ran: self.ran.since(&earlier.ran),
            older: older.filter(|(_, calls)| *calls > 0).collect(),
            pipes: self.pipes.since(&earlier.pipes),
            ..self.clone()
        }
    }
}

impl PipedItems {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            waits_for_room: self.waits_for_room.saturating_sub(earlier.waits_for_room),
            waited_for_room: self.waited_for_room.saturating_sub(earlier.waited_for_room),
            received: self.received.saturating_sub(earlier.received),
            waits_for_items: self.waits_for_items.saturating_sub(earlier.waits_for_items),
            waited_for_items: self.waited_for_items.saturating_sub(earlier.waited_for_items),
        }
    }
}
