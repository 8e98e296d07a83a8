//! The interface by which every server tells its account and its counters.

use crate::account::served::{Ledger, ServerAccount};
use crate::account::steps::ProcedureSteps;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

/// The interface that every server exports, on every transport, beside those of its program: `stoop top` calls it.
///
/// A server that keeps no account ([`Server::account`](crate::Server::account)) tells its counters only. Any caller may ask; one that
/// does learns the addresses of the other callers, if the server keeps an account.
#[stoop_macros::interface(revision = 1)]
pub trait StoopAccount {
    /// How long procedures ran, and for which callers: at most so many of these.
    #[idempotent]
    fn account(&self, peers_max: u32) -> ServerAccount;
    /// The counters of the server at this moment, by name; see [`ServerCounters`](crate::ServerCounters).
    #[idempotent]
    fn counters(&self) -> Vec<(String, u64)>;
    /// The steps of the calls that the server samples; none unless its program was built with the cargo feature `account`, and asks for
    /// them.
    #[idempotent]
    fn steps(&self) -> Vec<ProcedureSteps>;
}

/// Name of the interface; no other can be exported under it.
pub(crate) const NAME: &str = "StoopAccount";

/// Most callers in an answer, or a question of a few bytes would have an answer of any length.
const PEERS_MAX: usize = 256;

/// Counters, each with its name.
type NamedCounters = Vec<(&'static str, u64)>;

/// The account that a server reports.
#[derive(Clone, Default)]
pub(crate) struct Teller(Arc<Told>);

#[derive(Default)]
struct Told {
    ledger: OnceLock<Arc<Ledger>>,
    counters: OnceLock<Box<dyn Fn() -> NamedCounters + Send + Sync>>,
}

// A panic leaves nothing half done: the counters are only read, and the rest are atomics and tables behind locks.
impl UnwindSafe for Teller {}
impl RefUnwindSafe for Teller {}

impl Teller {
    /// The server keeps that account.
    pub(crate) fn keeps(&self, ledger: Arc<Ledger>) {
        let _ = self.0.ledger.set(ledger);
    }

    /// The server runs, and has these counters.
    pub(crate) fn runs(&self, counters: impl Fn() -> NamedCounters + Send + Sync + 'static) {
        let _ = self.0.counters.set(Box::new(counters));
    }

    /// The whole account. Not kept, and empty, if the server keeps none.
    pub(crate) fn whole(&self) -> ServerAccount {
        self.0.ledger.get().map_or_else(ServerAccount::default, |ledger| ledger.account())
    }
}

impl StoopAccount for Teller {
    fn steps(&self) -> Vec<ProcedureSteps> {
        self.0.ledger.get().map_or_else(Vec::new, |ledger| ledger.steps())
    }

    fn account(&self, peers_max: u32) -> ServerAccount {
        let mut account = self.whole();
        account.peers.truncate(PEERS_MAX.min(peers_max as usize));
        account
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.0.counters.get().map_or_else(Vec::new, |counters| counters());
        counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
