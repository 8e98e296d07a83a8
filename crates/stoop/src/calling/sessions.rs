//! The sessions of a binding, one after the other. When several threads find a session lost, one of them replaces it for all.

use crate::calling::patience::Attempts;
use crate::error::BindError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;

/// A session: a connection to a server, with what the server granted for it.
pub(crate) trait Generation {
    /// The number of sessions before it.
    fn generation(&self) -> u64;

    /// Whether its server lacks procedures, or knows some in an older form only.
    fn has_forms(&self) -> bool {
        false
    }
}

/// The present session of a binding; when it is lost, until it is replaced.
pub(crate) struct Sessions<S> {
    present: Mutex<Arc<S>>,
    /// The generation of the present session, for a look before each call.
    generation: AtomicU64,
    /// Of the present session.
    has_forms: AtomicBool,
    /// To replace the present session.
    pub(crate) attempts: Attempts,
    /// Runs when the present session has been replaced.
    then: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl<S: Generation> Sessions<S> {
    pub(crate) fn new(first: Arc<S>) -> Self {
        let (generation, has_forms) =
            (AtomicU64::new(first.generation()), AtomicBool::new(first.has_forms()));
        let (attempts, then) = (Attempts::default(), OnceLock::new());
        Self { present: Mutex::new(first), generation, has_forms, attempts, then }
    }

    /// From now on this runs when the present session has been replaced, in the thread that has done so. Of no effect after the first time.
    pub(crate) fn when_replaced(&self, then: impl Fn() + Send + Sync + 'static) {
        let _ = self.then.set(Box::new(then));
    }

    pub(crate) fn present(&self) -> Arc<S> {
        Arc::clone(&self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The generation of the present session.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether the present session [has forms](Generation::has_forms).
    #[inline]
    pub(crate) fn has_forms(&self) -> bool {
        self.has_forms.load(Ordering::Relaxed)
    }

    /// Replaces the session of generation `lost` by the session that `bind` makes, unless another thread has done so already. `bind` gets a deadline. Waits until
    /// `deadline` for other threads that try, and tries for `bind_timeout` at most.
    pub(crate) fn replace(
        &self,
        lost: u64,
        uri: &str,
        deadline: Instant,
        bind_timeout: Duration,
        bind: impl FnOnce(Instant) -> Result<Arc<S>, BindError>,
    ) -> Result<Arc<S>, BindError> {
        let now = || Instant::from_nanos(clock::now_ns());
        let guard = self.attempts.take(uri, deadline)?;
        let present = self.present();
        if present.generation() != lost {
            return Ok(present);
        }
        let session = bind(deadline.min(now() + bind_timeout))?;
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present = Arc::clone(&session);
        // Before any thread sees the session: what follows that reads no earlier generation.
        self.generation.store(session.generation(), Ordering::Relaxed);
        self.has_forms.store(session.has_forms(), Ordering::Relaxed);
        drop((present, guard));
        if let Some(then) = self.then.get() {
            then();
        }
        Ok(session)
    }
}
