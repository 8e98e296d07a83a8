//! The account of a binding's calls.

use crate::account::histogram::Histogram;
use crate::account::options::AccountOptions;
use crate::account::piped::{PipeCounts, PipedItems};
use crate::account::sampled::Samples;
use crate::account::slow::{Facts, Last, SlowCall};
use crate::account::spans::{BegunSpans, Spans};
use crate::account::steps::ProcedureSteps;
use crate::account::times::{ProcedureTimes, Times};
use crate::error::CallError;
use crate::interface::Interface;
use crate::metadata::trace::CurrentSpan;
use crate::metadata::without_metadata;
use crate::pipes::contract::Ends;
use std::sync::Arc;

/// The calls of a binding that keeps an account.
pub(crate) struct Recorder {
    interface: &'static Interface,
    times: Times<ProcedureTimes>,
    pipes: PipeCounts,
    slow: Last<SlowCall>,
    samples: Option<Samples>,
    spans: Option<Arc<Spans>>,
}

impl Recorder {
    /// `uri`: address of the server.
    pub(crate) fn new(interface: &'static Interface, uri: &str, options: &AccountOptions) -> Self {
        Self {
            interface,
            times: Times::new(interface.procedures.len(), options),
            pipes: PipeCounts::new(interface.procedures.len()),
            slow: Last::new(options.slow_kept),
            samples: Samples::of_caller(interface, options),
            spans: Spans::new(interface, uri, options).map(Arc::new),
        }
    }

    /// Whether the call that this thread makes, or the one before it, may be [taken apart](Self::is_taken_apart).
    #[inline(always)]
    pub(crate) fn concerns_sample() -> bool {
        Samples::concern_caller()
    }

    /// Whether the call that this thread makes is taken apart into its steps; the steps of the last such call are recorded.
    #[inline]
    pub(crate) fn is_taken_apart(&self) -> bool {
        self.samples.as_ref().is_some_and(Samples::go_on)
    }

    /// The call that [is taken apart](Self::is_taken_apart) has ended with a result.
    #[cold]
    pub(crate) fn note_taken_apart(&self, procedure: u16, server_ns: Option<u64>) {
        let procedure = self.interface.base(procedure);
        self.samples.iter().for_each(|samples| samples.claim(procedure, server_ns));
    }

    /// Records a call that has ended with a result, and stands for so many. If it was slow, `wake_up_ns` says how long the result was at this machine before the
    /// calling thread had it. Returns it as a slow call, if it was one.
    #[inline]
    pub(crate) fn record(
        &self,
        procedure: u16,
        stands_for: u32,
        facts: Facts,
        wake_up_ns: impl FnOnce() -> Option<u64>,
    ) -> Option<SlowCall> {
        let procedure = self.interface.base(procedure);
        let (times, is_own) = self.times.of(usize::from(procedure));
        let in_bucket = times.add(stands_for, facts.whole_ns, facts.server_ns, is_own);
        if !times.is_slow(stands_for, facts.whole_ns, in_bucket, self.times.slow_after) {
            return None;
        }
        let name = self.interface.procedures[usize::from(procedure)].name;
        let slow = Facts { wake_up_ns: wake_up_ns(), ..facts }.slow_call(name, times);
        self.slow.push(slow.clone());
        Some(slow)
    }

    /// Records a begun call that has ended with a result.
    #[cold]
    pub(crate) fn record_begun(&self, procedure: u16, whole_ns: u64, server_ns: Option<u64>, repeated: u64) {
        self.record(procedure, 1, Facts { whole_ns, server_ns, repeated, ..Facts::default() }, || None);
    }

    /// Records a call that has ended without a result, and stands for so many.
    #[cold]
    pub(crate) fn record_failure(&self, procedure: u16, stands_for: u32) {
        let procedure = self.interface.base(procedure);
        let (times, is_own) = self.times.of(usize::from(procedure));
        times.note_failure(stands_for, is_own);
    }

    /// Makes a span of a call that this thread has made and recorded, if the options ask for it. A program's exporter may run in it: the
    /// thread holds nothing that other calls wait for.
    #[inline]
    pub(crate) fn trace(&self, procedure: u16, facts: &Facts, slow: Option<&SlowCall>) {
        let procedure = self.interface.base(procedure);
        self.spans.iter().for_each(|spans| spans.add(procedure, facts, slow));
    }

    /// As [`trace`](Self::trace), of a call that has ended without a result.
    #[cold]
    pub(crate) fn trace_failure(&self, procedure: u16, begun_ns: u64, error: &CallError) {
        let procedure = self.interface.base(procedure);
        if let Some(spans) = &self.spans {
            let took_ns = stoop_net::clock::now_ns().saturating_sub(begun_ns);
            spans.add_failed(procedure, took_ns, error);
        }
    }

    /// The ends of the pipes of a call, which count if there is an account.
    #[cold]
    pub(crate) fn counted(recorder: Option<&Self>, procedure: u16, ends: Ends) -> Ends {
        let Some(Self { interface, pipes, .. }) = recorder else { return ends };
        pipes.count(usize::from(interface.base(without_metadata(procedure))), ends)
    }

    /// The span in which this thread makes a call, if the calls of the binding become spans.
    #[inline]
    pub(crate) fn current_span(&self) -> Option<CurrentSpan> {
        self.spans.as_ref().and_then(|spans| spans.current())
    }

    /// What makes spans of the binding's begun calls.
    pub(crate) fn begun_spans(&self) -> BegunSpans {
        BegunSpans::new(self.spans.clone())
    }

    /// The figures recorded so far.
    pub(crate) fn account(&self) -> CallAccount {
        let procedures = self.interface.procedures.iter().enumerate().filter_map(|(number, procedure)| {
            let ([whole, server, rest], failed) = self.times.sum(number);
            let pipes = self.pipes.of(number);
            let is_called = failed > 0 || whole.count() > 0 || !pipes.is_none();
            is_called.then_some(CalledProcedure { name: procedure.name, whole, server, rest, failed, pipes })
        });
        CallAccount {
            interface: self.interface.name,
            procedures: procedures.collect(),
            slow: self.slow.copy(),
            steps: self.samples.as_ref().map_or_else(Vec::new, Samples::steps),
        }
    }
}

/// The account of a binding's calls, as [`Binding::account`](crate::Binding::account) gives it.
///
/// ```
/// use stoop::BindOptions;
/// use stoop::account::AccountOptions;
///
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("tcp://127.0.0.1:0")?.start()?;
/// let options = BindOptions::new().account(AccountOptions::new());
/// let client = AdderClient::bind_with(&server.uris()[0], &options)?;
/// client.add(1, 2)?;
///
/// let account = client.binding().account();
/// let add = account.procedure("add").expect("it was called");
/// println!("{:?} of {:?} at the server", add.server.quantile(0.5), add.whole.quantile(0.5));
/// println!("{} calls, mean {:?}, sum {:?}, {} failed", add.whole.count(), add.whole.mean(), add.whole.sum(), add.failed);
/// println!("{}", account.prometheus());
/// for call in &account.slow {
///     println!("{call:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallAccount {
    /// The interface. Empty if the binding keeps no account.
    pub interface: &'static str,
    /// The procedures that were called, in the order of their declaration.
    pub procedures: Vec<CalledProcedure>,
    /// The last slow calls, the oldest first.
    pub slow: Vec<SlowCall>,
    /// The steps of the sampled calls; none unless `AccountOptions::steps_share` asks for them (cargo feature `account`).
    pub steps: Vec<ProcedureSteps>,
}

/// The calls of one procedure. Where only a share of them is recorded, each of these stands for those before it that were not.
///
/// ```
/// use stoop::account::CalledProcedure;
///
/// /// Whether more of the usual call's time goes to the server or to the way there and back.
/// fn is_slow_at_server(procedure: &CalledProcedure) -> bool {
///     procedure.server.quantile(0.5) > procedure.rest.quantile(0.5)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CalledProcedure {
    /// Its name.
    pub name: &'static str,
    /// The whole calls: from the sending of the call, or its beginning if it was begun, to its result.
    pub whole: Histogram,
    /// Of these, the time at the server: from the arrival of the call there to its result. Not told by results of
    /// many packets.
    pub server: Histogram,
    /// The difference of the two: the network, both kernels, and the wake-ups of threads.
    pub rest: Histogram,
    /// Calls that ended without a result; they are in no histogram.
    pub failed: u64,
    /// What their pipes have carried at this end, also of calls that have not ended.
    pub pipes: PipedItems,
}

impl CallAccount {
    /// The procedure of that name, if it was called.
    pub fn procedure(&self, name: &str) -> Option<&CalledProcedure> {
        self.procedures.iter().find(|procedure| procedure.name == name)
    }
}
