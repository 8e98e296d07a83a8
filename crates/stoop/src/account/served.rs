//! The account of a server: how long its procedures run, and for which callers.
//!
//! A server that keeps an account exports each interface through a [`Recorded`], which times the procedures. The others export them
//! as they are, so that nothing is added to their calls.

use crate::account::histogram::Histogram;
use crate::account::options::AccountOptions;
use crate::account::peers::{CallingPeer, Peer, PeerTimes};
use crate::account::piped::{PipeCounts, PipedItems};
use crate::account::sampled::Samples;
use crate::account::spans::ServedSpans;
use crate::account::steps::ProcedureSteps;
use crate::account::times::{Served, Times};
use crate::buffers::Memory;
use crate::forms::base;
use crate::interface::{Exported, Interface};
use crate::later::deferred::Later;
use crate::later::unserved::Unserved;
use crate::pipes::contract::Ends;
use std::any::Any;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoop_exchange::FORMS;
use stoop_marshal::{Reader, Writer};
use stoop_net::clock;

/// The account of one server.
pub(crate) struct Ledger {
    options: AccountOptions,
    /// Those that are recorded.
    interfaces: Vec<&'static Interface>,
    /// For each interface.
    times: Vec<Times<Served>>,
    /// Likewise.
    pipes: Vec<PipeCounts>,
    peers: PeerTimes,
    /// For each interface, if calls are sampled.
    samples: Vec<Option<Samples>>,
    spans: Option<ServedSpans>,
    /// For each interface, the calls that came in each older form of a procedure.
    older: Vec<Box<[AtomicU64]>>,
}

impl Ledger {
    /// The account of a server that exports these.
    pub(crate) fn new(exports: &[Arc<dyn Exported>], options: AccountOptions) -> Self {
        let interfaces: Vec<_> = exports.iter().map(|export| export.interface()).collect();
        let times = interfaces.iter().map(|interface| Times::new(interface.procedures.len(), &options));
        Self {
            times: times.collect(),
            pipes: interfaces.iter().map(|interface| PipeCounts::new(interface.procedures.len())).collect(),
            peers: PeerTimes::default(),
            samples: interfaces.iter().map(|interface| Samples::of_server(interface, &options)).collect(),
            spans: ServedSpans::new(&options),
            older: interfaces
                .iter()
                .map(|each| each.older_forms().map(|_| AtomicU64::new(0)).collect())
                .collect(),
            interfaces,
            options,
        }
    }

    /// The exports, each of which records its calls.
    pub(crate) fn record(self: &Arc<Self>, exports: Vec<Arc<dyn Exported>>) -> Vec<Arc<dyn Exported>> {
        let record = |(interface, inner)| -> Arc<dyn Exported> {
            Arc::new(Recorded { inner, ledger: Arc::clone(self), interface })
        };
        exports.into_iter().enumerate().map(record).collect()
    }

    /// Runs a procedure, and records for how long if it is the turn of this call.
    #[inline]
    fn run(
        self: &Arc<Self>,
        interface: usize,
        procedure: u16,
        run: impl FnOnce() -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        let times = &self.times[interface];
        if usize::from(procedure) >= times.procedures() {
            return run();
        }
        if let Some(samples) = &self.samples[interface]
            && samples.go_on()
        {
            samples.claim(procedure, None);
        }
        let (own, is_own) = times.of(usize::from(procedure));
        // Ends also if the procedure panics.
        let ending = Ending { own, is_own };
        let run = || self.run_as_span(interface, procedure, run);
        if !own.begin(is_own) {
            return match run() {
                Err(Unserved::Later(later)) => {
                    mem::forget(ending);
                    Err(self.follow(later, (interface, procedure), None))
                }
                returned => returned,
            };
        }
        let begun_ns = clock::now_ns();
        let returned = match run() {
            Err(Unserved::Later(later)) => {
                mem::forget(ending);
                return Err(self.follow(later, (interface, procedure), Some(begun_ns)));
            }
            returned => returned,
        };
        let took_ns = clock::now_ns() - begun_ns;
        let calls = u64::from(own.note(took_ns, self.options.short_share, is_own));
        self.peers.add(Peer::serving(), calls, took_ns * calls);
        drop(ending);
        returned
    }

    /// The ends of the pipes of a call, which count.
    fn count_pipes(&self, (interface, procedure): (usize, u16), ends: Ends) -> Ends {
        self.pipes[interface].count(procedure.into(), ends)
    }

    /// Has a call counted, and timed from `begun_ns` on, when its answer has come.
    #[cold]
    fn follow(self: &Arc<Self>, later: Later, call: (usize, u16), begun_ns: Option<u64>) -> Unserved {
        let (ledger, caller, is_piped) = (Arc::clone(self), Peer::serving(), later.pipes().count() > 0);
        let counting = Arc::clone(self);
        let later = later.with_ends(move |ends| counting.count_pipes(call, ends));
        Unserved::Later(later.holding(Box::new(Followed { ledger, call, begun_ns, caller, is_piped })))
    }

    /// Runs a procedure, as a span if it is the turn of this call or if it takes too long.
    #[inline]
    fn run_as_span(
        &self,
        interface: usize,
        procedure: u16,
        run: impl FnOnce() -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        let Some(spans) = &self.spans else { return run() };
        spans.run(self.interfaces[interface], procedure, run)
    }

    /// The steps of the sampled calls.
    pub(crate) fn steps(&self) -> Vec<ProcedureSteps> {
        self.samples.iter().flatten().flat_map(Samples::steps).collect()
    }

    /// The figures recorded so far.
    pub(crate) fn account(&self) -> ServerAccount {
        let interfaces = self.interfaces.iter().zip(&self.times).zip(self.older.iter().zip(&self.pipes));
        let procedures = interfaces.flat_map(|((interface, times), (older, pipes))| {
            let of = |(number, procedure): (usize, &crate::interface::Procedure)| {
                let (calls, running, ran) = times.served(number);
                let older = older_calls(interface, older, number);
                let (interface, name) = (interface.name.to_owned(), procedure.name.to_owned());
                let pipes = pipes.of(number);
                ServedProcedure { interface, name, calls, running, ran, older, pipes }
            };
            interface.procedures.iter().enumerate().map(of).collect::<Vec<_>>()
        });
        let procedures = procedures.filter(|procedure| procedure.calls > 0).collect();
        ServerAccount {
            is_kept: true,
            short_share: self.options.short_share,
            procedures,
            peers: self.peers.copy(),
        }
    }
}

/// The calls that came in older forms of a procedure: the last revision at which a form held, and how many came in it.
fn older_calls(interface: &Interface, counted: &[AtomicU64], procedure: usize) -> Vec<(u32, u64)> {
    let forms = interface.older_forms().zip(counted).filter(|((of, _), _)| usize::from(*of) == procedure);
    let calls = forms.map(|((_, last), calls)| (last, calls.load(Ordering::Relaxed)));
    calls.filter(|(_, calls)| *calls > 0).collect()
}

/// Counts the end of a call.
struct Ending<'a> {
    own: &'a Served,
    is_own: bool,
}

impl Drop for Ending<'_> {
    #[inline]
    fn drop(&mut self) {
        self.own.end(self.is_own);
    }
}

/// A call whose procedure has returned and whose answer comes later. Its end is recorded when this is dropped.
struct Followed {
    ledger: Arc<Ledger>,
    /// The numbers of interface and procedure.
    call: (usize, u16),
    /// When it began, if it is timed.
    begun_ns: Option<u64>,
    caller: Peer,
    /// It mostly waits for items: how long it was open says nothing of what it has cost.
    is_piped: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        let Self { ledger, call: (interface, procedure), begun_ns, caller, is_piped } = self;
        let (own, is_own) = ledger.times[*interface].of(usize::from(*procedure));
        if let Some(begun_ns) = begun_ns {
            let took_ns = clock::now_ns() - *begun_ns;
            let calls = u64::from(own.note(took_ns, ledger.options.short_share, is_own));
            ledger.peers.add(caller.clone(), calls, if *is_piped { 0 } else { took_ns * calls });
        }
        own.end(is_own);
    }
}

/// An interface whose calls are recorded.
struct Recorded {
    inner: Arc<dyn Exported>,
    ledger: Arc<Ledger>,
    /// Its number in the ledger.
    interface: usize,
}

impl Recorded {
    /// The procedure of a call, which may be of an older form and is then counted as such.
    #[inline]
    fn procedure(&self, number: u16) -> u16 {
        if number >= FORMS
            && let Some(calls) = self.ledger.older[self.interface].get(usize::from(number - FORMS))
        {
            calls.fetch_add(1, Ordering::Relaxed);
        }
        base(&*self.inner, number)
    }
}

impl Exported for Recorded {
    fn inner(&self) -> Option<&dyn Exported> {
        Some(&*self.inner)
    }

    fn interface(&self) -> &'static Interface {
        self.inner.interface()
    }

    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved> {
        // The payload alone is handed on: the processor would stall for tens of nanoseconds on a copy of the whole reader, whose
        // fields were stored just before.
        let arguments = call.into_payload();
        let run = || self.inner.dispatch(procedure, Reader::new(arguments), result);
        self.ledger.run(self.interface, self.procedure(procedure), run)
    }

    fn dispatch_with_memory(
        &self,
        procedure: u16,
        call: Reader<'_>,
        memory: Memory<'_>,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        let run = || self.inner.dispatch_with_memory(procedure, call, memory, result);
        self.ledger.run(self.interface, self.procedure(procedure), run)
    }

    fn dispatch_in_place(
        &self,
        procedure: u16,
        leading: &[u8],
        len: usize,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        let run = || self.inner.dispatch_in_place(procedure, leading, len, result);
        self.ledger.run(self.interface, self.procedure(procedure), run)
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        self.inner.local()
    }
}

/// The account of a server, as [`RunningServer::account`](crate::RunningServer::account) and
/// [`StoopAccount::account`](crate::account::StoopAccount::account) give it. Calls through `local:` and by Sun RPC are not in it.
///
/// ```
/// use stoop::account::ServerAccount;
///
/// /// The procedure that takes most of the server's time, and the caller that does.
/// fn busiest(account: &ServerAccount) -> Option<(&str, &str)> {
///     let procedure = account.procedures.iter().max_by_key(|procedure| procedure.ran.sum())?;
///     Some((&procedure.name, &account.peers.first()?.peer))
/// }
/// # assert_eq!(busiest(&ServerAccount::default()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct ServerAccount {
    /// Whether the server keeps an account. If not, the rest is empty.
    pub is_kept: bool,
    /// Of the calls of procedures that take less than 5 µs, one in so many is timed.
    pub short_share: u32,
    /// The procedures that were called, in the order in which they are exported.
    pub procedures: Vec<ServedProcedure>,
    /// The callers, those for which procedures have run longest first.
    pub peers: Vec<CallingPeer>,
}

/// A server's figures of one procedure.
///
/// ```
/// use std::time::Duration;
/// use stoop::account::ServedProcedure;
///
/// /// How long the slowest of a hundred calls of a procedure ran.
/// fn slowest(of: &ServedProcedure) -> Option<Duration> {
///     of.ran.quantile(0.99)
/// }
/// # assert_eq!(slowest(&ServedProcedure::default()), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct ServedProcedure {
    /// Its interface.
    pub interface: String,
    /// Its name.
    pub name: String,
    /// Calls that have begun.
    pub calls: u64,
    /// Of these, calls that run now, or whose answers come later and have not come.
    pub running: u64,
    /// How long the calls ran: from the decoding of their arguments to the encoding of their results, or until an answer that came later
    /// had left. Of short calls one in so many is timed,
    /// and stands for those before it that were not: the last calls of each thread, fewer than [`short_share`](ServerAccount::short_share),
    /// are not in it yet.
    pub ran: Histogram,
    /// Of the calls, those of callers that know the interface as at an older revision only: the last revision at which their form of the
    /// procedure held, and how many. When there are none any more, `oldest` can be raised.
    #[stoop(since = 1)]
    pub older: Vec<(u32, u64)>,
    /// What their pipes have carried at the server.
    #[stoop(since = 1)]
    pub pipes: PipedItems,
}
