//! Options of an account.

use std::time::Duration;

/// Options of the account of a binding ([`BindOptions::account`](crate::BindOptions::account)) or of a server
/// ([`Server::account`](crate::Server::account)).
///
/// ```
/// use std::time::Duration;
/// use stoop::account::AccountOptions;
///
/// let options = AccountOptions::new()
///     .slow_after(Duration::from_millis(20))
///     .slow_kept(16)
///     .note_arrivals()
///     .shm_share(16)
///     .short_share(16);
/// let client = stoop::BindOptions::new().account(options.clone());
/// let server = stoop::Server::new().account(options);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AccountOptions {
    pub(crate) slow_after: Option<Duration>,
    pub(crate) slow_kept: usize,
    pub(crate) shm_share: u32,
    pub(crate) short_share: u32,
    pub(crate) notes_arrivals: bool,
    #[cfg(feature = "account")]
    pub(crate) steps_share: Option<u32>,
    #[cfg(feature = "opentelemetry")]
    pub(crate) spans_share: Option<u32>,
}

impl Default for AccountOptions {
    fn default() -> Self {
        Self {
            slow_after: None,
            slow_kept: 64,
            shm_share: 64,
            short_share: 64,
            notes_arrivals: false,
            #[cfg(feature = "account")]
            steps_share: None,
            #[cfg(feature = "opentelemetry")]
            spans_share: None,
        }
    }
}

impl AccountOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call that takes longer is kept as a slow one. Unless set, it is a call that takes longer than 999 of a thousand calls of the
    /// same procedure; and before a thousand have been made, longer than a millisecond.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stoop::account::AccountOptions;
    ///
    /// // A display that is drawn every 16 ms: what takes half of that is to be explained.
    /// let options = AccountOptions::new().slow_after(Duration::from_millis(8));
    /// ```
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.slow_after = Some(time);
        self
    }

    /// How many slow calls are kept: the last ones. 64 unless set.
    pub fn slow_kept(mut self, calls: usize) -> Self {
        self.slow_kept = calls;
        self
    }

    /// Has the kernel note when packets arrive, so that a slow call over UDP tells the network from the wake-up of its own thread
    /// ([`SlowCall::wake_up`](crate::account::SlowCall::wake_up)). Not unless set: while any program asks for it, the kernel reads the
    /// clock for each packet that the machine receives, some tens of nanoseconds.
    ///
    /// ```
    /// use stoop::account::{AccountOptions, SlowCall};
    ///
    /// /// Whether the client's own machine was busy: the result was there, and its thread did not run.
    /// fn is_own_fault(call: &SlowCall) -> bool {
    ///     call.wake_up.is_some_and(|wake_up| wake_up > call.whole / 2)
    /// }
    /// let options = stoop::BindOptions::new().account(AccountOptions::new().note_arrivals());
    /// ```
    pub fn note_arrivals(mut self) -> Self {
        self.notes_arrivals = true;
        self
    }

    /// Over shared memory a binding records one call in so many of each thread: 64 unless set, at least one.
    pub fn shm_share(mut self, one_in: u32) -> Self {
        self.shm_share = one_in.max(1);
        self
    }

    /// A server times one call in so many of procedures that take less than 5 µs, and each call of the others: 64 unless set, at least
    /// one. It counts all calls.
    pub fn short_share(mut self, one_in: u32) -> Self {
        self.short_share = one_in.max(1);
        self
    }

    /// Takes one call in so many of each thread, at least one, apart into its [steps](crate::account::ProcedureSteps). None unless set.
    ///
    /// Cargo feature `account`, which compiles the stamps into all calls: `docs/account.md` says what they cost.
    #[cfg(feature = "account")]
    pub fn steps_share(mut self, one_in: u32) -> Self {
        self.steps_share = Some(one_in.max(1));
        self
    }

    /// Makes spans of OpenTelemetry: of each slow call, of each that fails, and of one in so many, at least one, of the others that are
    /// recorded. `docs/observing.md` has their attributes.
    ///
    /// A caller's span is a child of the span that is current in the thread when it makes or begins the call. That of a begun call ends when
    /// the program takes its outcome. A server's span is current while the procedure runs. Calls carry the identity of the caller's span, so
    /// that the server's is its child, but over Sun RPC.
    ///
    /// Set the process's tracer provider (`opentelemetry::global::set_tracer_provider`) before the binding is made or the server started.
    /// The spans are made by the calling thread, or by the one that runs the procedure: choose a processor that exports them on another.
    ///
    /// Cargo feature `opentelemetry`.
    #[cfg(feature = "opentelemetry")]
    pub fn spans(mut self, one_in: u32) -> Self {
        self.spans_share = Some(one_in.max(1));
        self
    }
}
