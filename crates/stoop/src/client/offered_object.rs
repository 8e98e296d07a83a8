//! The object that a client offers to its server, as its binding keeps it.

use crate::callbacks::Callback;
use crate::callbacks::session::Session;
use crate::locked::locked;
use crate::options::callbacks::{AfterBind, CallbackOptions};
use crate::serving::dispatch::Exports;
use crate::serving::procedures::ProcedureOptions;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use stoop_net::fork;
use stoop_net::host::random_bytes;

/// The object that a client offers.
pub(super) struct Offering {
    pub(super) client: u64,
    pub(super) exports: Arc<Exports>,
    pub(super) threads: usize,
    pub(super) after_bind: Option<AfterBind>,
    pub(super) session: Mutex<Option<Arc<Session>>>,
    /// One-way callbacks of sessions that have ended which others have replaced.
    skipped_before: AtomicU64,
    pub(super) is_over: AtomicBool,
    pub(super) ended: Condvar,
}

/// The same at its client. It is offered no more when this is dropped.
pub(super) struct OwnOffering {
    pub(super) offering: Arc<Offering>,
    /// The process that offers it, see [`fork::generation`].
    generation: u32,
}

impl OwnOffering {
    /// That of a client with these options, if it offers an object.
    pub(super) fn of(options: &CallbackOptions) -> Option<Box<Self>> {
        let offered = options.offered.as_ref()?;
        let procedures = vec![vec![ProcedureOptions::default(); offered.interface().procedures.len()]];
        let exports = Exports::new(vec![Arc::clone(offered)], procedures, String::new());
        let offering = Offering {
            client: u64::from_le_bytes(random_bytes()).max(1),
            exports: Arc::new(exports),
            threads: options.threads.unwrap_or(1).max(1),
            after_bind: options.after_bind.clone(),
            session: Mutex::default(),
            skipped_before: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            ended: Condvar::new(),
        };
        Some(Box::new(Self { offering: Arc::new(offering), generation: fork::generation() }))
    }

    pub(super) fn callback(&self) -> Callback {
        Callback { client: self.offering.client }
    }

    /// How many one-way callbacks others have replaced before they left.
    pub(super) fn skipped(&self) -> u64 {
        let session = locked(&self.offering.session);
        self.offering.skipped_before.load(Ordering::SeqCst)
            + session.as_ref().map_or(0, |session| session.skipped())
    }
}

impl Drop for OwnOffering {
    fn drop(&mut self) {
        // Its parent offers it.
        if self.generation == fork::generation() {
            self.offering.end();
        }
    }
}

impl Offering {
    /// The object is offered no more.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let session = locked(&self.session).take();
        self.ended.notify_all();
        session.into_iter().for_each(|session| session.end());
    }

    /// A session has ended.
    pub(super) fn ends(&self, session: &Session) {
        session.end();
        let mut present = locked(&self.session);
        self.skipped_before.fetch_add(session.skipped(), Ordering::SeqCst);
        *present = None;
    }

    /// Callbacks travel in this session from now on.
    pub(super) fn begins(&self, session: &Arc<Session>) {
        *locked(&self.session) = Some(Arc::clone(session));
        if self.is_over.load(Ordering::SeqCst) {
            session.end();
        }
    }
}
