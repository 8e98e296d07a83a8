//! The dispatch of a call: from the number of its procedure to its result, the same for every endpoint.

use crate::buffers::Memory;
use crate::context::cancelled::CallId;
use crate::context::{Caller, serving_call};
use crate::error::unserved::Unserved;
use crate::interface::{Exported, Interface};
use crate::serving::procedures::ProcedureOptions;
use crate::serving::terms::{CallTerms, LONG_NANOS};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use stoop_exchange::shares::Owner;
use stoop_marshal::{DecodeError, EncodeError, Reader, Writer};
use stoop_net::clock;
use stoop_probe::{Point, stamp};
use stoop_wire::{FailureCode, HEADER_LEN, RefusalCode};

/// The interfaces of a server and how long their procedures take.
pub(crate) struct Exports {
    pub(crate) all: Vec<Arc<dyn Exported>>,
    /// The other addresses of the server, see [`offers`](crate::offers).
    offers: String,
    /// For each procedure the time of its last calls in nanoseconds; see [`took`](Self::took).
    times: Vec<Vec<AtomicU32>>,
    options: Vec<Vec<ProcedureOptions>>,
    /// For each procedure the mean time of its long calls.
    long: Vec<Vec<LongTimes>>,
    /// Whether callers of other processes get the messages of panics; unless set, those of this machine do.
    panic_texts: Option<bool>,
}

/// The mean time of a procedure whose calls take long.
#[derive(Debug, Default)]
pub(crate) struct LongTimes {
    mean_ns: AtomicU64,
    /// When its last call ended, by the coarse clock.
    noted_ns: AtomicU64,
}

/// If no call of a procedure has ended for its mean time and this time, only half of the mean counts. Otherwise the calls of a procedure
/// that was slow once would be passed over for ever while other calls wait, and give no new times.
const UNPROVED_NS: u64 = 250_000_000;

/// A call counts as at most so many times the mean before it, and the first as at most [`FIRST_MOST_NS`]. The scheduler may have stopped
/// the procedure for seconds; if such a time counted whole, hundreds of calls that have time enough would be passed over.
const TIMES_MOST: u64 = 8;
const FIRST_MOST_NS: u64 = 10_000_000;

impl LongTimes {
    /// Notes how long a call took.
    #[cold]
    pub(crate) fn note(&self, nanos: u64, now_ns: u64) {
        let mean = match self.mean_ns.load(Ordering::Relaxed) {
            0 => nanos.min(FIRST_MOST_NS),
            mean => mean - mean / 8 + nanos.min(mean.saturating_mul(TIMES_MOST)) / 8,
        };
        self.mean_ns.store(mean, Ordering::Relaxed);
        self.noted_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The mean time of a call.
    pub(crate) fn mean_at(&self, now_ns: u64) -> u64 {
        let mean_ns = self.mean_ns.load(Ordering::Relaxed);
        let silent_ns = now_ns.saturating_sub(self.noted_ns.load(Ordering::Relaxed));
        let halvings = (silent_ns / mean_ns.saturating_add(UNPROVED_NS)).min(63);
        (mean_ns >> halvings).max(SHORTEST_NS)
    }
}

/// About the cost of a write to a socket: an answer may wait for another one that is ready after so short a time.
const SHORT_NANOS: u32 = 10_000;

/// Stands in place of a procedure's time if each of its calls must be counted.
const COUNTED: u32 = u32::MAX;

/// The least time that each call takes: to receive it, and to answer it.
const SHORTEST_NS: u64 = 1_000;

/// The end of a call.
pub(crate) enum Outcome {
    /// The result, of so many bytes, is in the packet.
    Result(usize),
    /// The procedure did not run, for this reason.
    Refused(Box<(RefusalCode, String)>),
    /// It ran, and there is no result, for this reason.
    Failed(Box<(FailureCode, String)>),
}

/// The procedure did not run: its OUT arguments need so many bytes of room in the result, which it may not have.
pub(crate) struct NoRoom(pub(crate) usize);

// It fits into registers on its way to the code that answers.
const _: () = assert!(size_of::<Result<Outcome, NoRoom>>() == 16);

/// The limits of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallLimits {
    pub(crate) deadline_ns: u64,
    pub(crate) caller: Caller,
    /// The name of the call for a cancel.
    pub(crate) call: CallId,
    /// Bytes of the longest result.
    pub(crate) result_max: usize,
    /// Bytes of the result that OUT arguments may take.
    pub(crate) out_limit: usize,
}

/// Bytes of a result that OUT arguments may take without being counted.
const OUT_UNCOUNTED: usize = 256 * 1024;

impl CallLimits {
    /// Those of a call whose result may have `result_max` bytes, before memory has been reserved for its OUT arguments.
    #[inline(always)]
    pub(crate) fn new(deadline_ns: u64, caller: Caller, call: CallId, result_max: usize) -> Self {
        Self { deadline_ns, caller, call, result_max, out_limit: result_max.min(OUT_UNCOUNTED) }
    }
}

impl Exports {
    pub(crate) fn new(
        all: Vec<Arc<dyn Exported>>,
        options: Vec<Vec<ProcedureOptions>>,
        offers: String,
    ) -> Self {
        // Where the number of calls is limited, each call has to be counted, like one that takes long.
        let first = |options: &ProcedureOptions| options.limit().map_or(0, |_| COUNTED);
        let times = |options: &Vec<ProcedureOptions>| {
            options.iter().map(|options| AtomicU32::new(first(options))).collect()
        };
        let long = |export: &Arc<dyn Exported>| {
            export.interface().procedures.iter().map(|_| LongTimes::default()).collect()
        };
        let long = all.iter().map(long).collect();
        Self { times: options.iter().map(times).collect(), options, long, all, offers, panic_texts: None }
    }

    /// The same, telling the messages of panics to callers of other processes, or to none.
    pub(crate) fn with_panic_texts(self, panic_texts: Option<bool>) -> Self {
        Self { panic_texts, ..self }
    }

    /// Where the server can be reached, see [`offers`](crate::offers).
    pub(crate) fn offers(&self) -> &str {
        &self.offers
    }

    /// As the exchange compares them.
    pub(crate) fn interfaces(&self) -> stoop_exchange::Interfaces {
        let interfaces = self.all.iter().map(|export| export.interface());
        let all = stoop_exchange::Interfaces::new(interfaces.clone().map(Interface::for_exchange))
            .with_offers(self.offers.clone());
        let numbered = interfaces.map(|interface| interface.procedures.iter().enumerate()).enumerate();
        let in_place = numbered.flat_map(|(interface, procedures)| {
            procedures.filter_map(move |(number, procedure)| Some((interface, number, procedure.in_place?)))
        });
        in_place.fold(all, |all, (interface, procedure, leading)| {
            all.returning_in_place(interface, procedure, leading)
        })
    }

    #[inline]
    pub(crate) fn takes_long(&self, interface: u16, procedure: u16) -> bool {
        u64::from(self.time(interface, procedure).load(Ordering::Relaxed)) > LONG_NANOS
    }

    /// Whether it is known to take so little time that another answer can wait for it.
    #[inline]
    pub(crate) fn is_short(&self, interface: u16, procedure: u16) -> bool {
        (1..SHORT_NANOS).contains(&self.time(interface, procedure).load(Ordering::Relaxed))
    }

    #[inline]
    fn time(&self, interface: u16, procedure: u16) -> &AtomicU32 {
        &self.times[usize::from(interface)][usize::from(procedure)]
    }

    /// Remembers how long a procedure took. The scheduler may have stopped one that took long once: it counts as long
    /// after two long times in a row, and as short after one short time.
    #[inline]
    pub(crate) fn took(&self, interface: u16, procedure: u16, nanos: u64) {
        let time = self.time(interface, procedure);
        let mean = time.load(Ordering::Relaxed);
        if nanos > LONG_NANOS || mean == COUNTED {
            return self.took_long((interface, procedure), mean, nanos);
        }
        // A lost update loses one of many samples.
        time.store(mean_with(mean, nanos), Ordering::Relaxed);
    }

    #[cold]
    fn took_long(&self, (interface, procedure): (u16, u16), mean: u32, nanos: u64) {
        self.long[usize::from(interface)][usize::from(procedure)].note(nanos, clock::coarse_now_ns());
        if mean != COUNTED {
            self.time(interface, procedure).store(mean_with(mean, nanos), Ordering::Relaxed);
        }
    }

    /// The terms of a call for the queue.
    #[cold]
    pub(crate) fn terms(
        &self,
        (interface, procedure): (u16, u16),
        (owner, part, call): (Owner, u64, CallId),
        deadline_ns: u64,
    ) -> CallTerms {
        let short = u64::from(self.time(interface, procedure).load(Ordering::Relaxed));
        let work_ns = match short > LONG_NANOS {
            true => {
                let long = &self.long[usize::from(interface)][usize::from(procedure)];
                long.mean_at(clock::coarse_now_ns())
            }
            false => short.max(SHORTEST_NS),
        };
        let options = &self.options[usize::from(interface)][usize::from(procedure)];
        let number = u32::from(interface) << 16 | u32::from(procedure);
        let (priority, procedure, limit) = (options.its_priority(), Some(number), options.limit());
        CallTerms { owner, part, call, deadline_ns, work_ns, priority, procedure, limit }
    }

    /// Runs a procedure on `arguments`; its result is left in `packet`, behind the header.
    // Out of line, the limits and the outcome go through memory, which takes 30 instructions of 700.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        interface: u16,
        procedure: u16,
        arguments: &[u8],
        packet: &mut Vec<u8>,
        limits: CallLimits,
    ) -> Result<Outcome, NoRoom> {
        stamp(Point::ServerStubBegun);
        let export = &*self.all[usize::from(interface)];
        let outcome = self
            .run_with(packet, limits, |result| export.dispatch(procedure, Reader::new(arguments), result));
        stamp(Point::ServerStubEnded);
        outcome
    }

    /// [`run`](Self::run), of a call of which buffers lie in `memory`.
    #[cold]
    pub(crate) fn run_with_memory(
        &self,
        (interface, procedure): (u16, u16),
        arguments: &[u8],
        memory: Memory<'_>,
        packet: &mut Vec<u8>,
        limits: CallLimits,
    ) -> Result<Outcome, NoRoom> {
        let export = &*self.all[usize::from(interface)];
        self.run_with(packet, limits, |result| {
            export.dispatch_with_memory(procedure, Reader::new(arguments), memory, result)
        })
    }

    /// [`run`](Self::run), of a procedure whose argument lies in `packet` already, where its result begins, and is `len` bytes
    /// long; `leading` is what comes before it in the call.
    #[cold]
    pub(crate) fn run_in_place(
        &self,
        (interface, procedure): (u16, u16),
        (leading, len): (&[u8], usize),
        packet: &mut Vec<u8>,
        limits: CallLimits,
    ) -> Result<Outcome, NoRoom> {
        let export = &*self.all[usize::from(interface)];
        self.run_with(packet, limits, |result| export.dispatch_in_place(procedure, leading, len, result))
    }

    #[inline(always)]
    fn run_with(
        &self,
        packet: &mut Vec<u8>,
        limits: CallLimits,
        dispatch: impl Fn(&mut Writer<'_>) -> Result<(), Unserved>,
    ) -> Result<Outcome, NoRoom> {
        let mut result = Writer::new(packet, HEADER_LEN, limits.result_max).with_out_limit(limits.out_limit);
        // A word goes into what catches panics, and a word comes out. More would be copied by loads that are wider than the stores just
        // before, and so wait for them: some ten nanoseconds a call.
        let mut serve = || dispatch(&mut result).err().map(Box::new);
        let tells_panics = self.tells_panics(&limits.caller);
        let ran = serving_call(limits.call, limits.deadline_ns, limits.caller, || {
            catch_unwind(AssertUnwindSafe(&mut serve))
        });
        match ran {
            Ok(None) => match result.finish() {
                Ok(len) => Ok(Outcome::Result(len)),
                Err(why) => Ok(too_large(why)),
            },
            Ok(Some(why)) => not_served(*why, result),
            Err(panic) => Ok(panicked(panic, tells_panics)),
        }
    }

    /// Whether this caller learns the message of a panic.
    #[inline]
    fn tells_panics(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Local => true,
            Caller::Process(_) => self.panic_texts.unwrap_or(true),
            Caller::Network(_) | Caller::Station(_) => self.panic_texts.unwrap_or(false),
        }
    }
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>, tells_message: bool) -> Outcome {
    #[cfg(feature = "onc")]
    if let Some((code, detail)) = crate::program::refusal(&*panic) {
        return Outcome::refused(code, detail);
    }
    let message = if tells_message { panic_message(&*panic).into() } else { String::new() };
    // The value that the procedure threw may panic once more when it is dropped. That must not end the worker.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
    Outcome::failed(FailureCode::Panicked, message)
}

/// The mean with another time in it. A single one, however long, does not make a short mean long.
#[inline]
fn mean_with(mean: u32, nanos: u64) -> u32 {
    let newest = nanos.min(3 * LONG_NANOS) as u32;
    if newest < mean { newest } else { mean + (newest - mean) / 4 }
}

impl Outcome {
    #[cold]
    pub(crate) fn refused(code: RefusalCode, detail: String) -> Self {
        Self::Refused(Box::new((code, detail)))
    }

    #[cold]
    pub(crate) fn failed(code: FailureCode, detail: String) -> Self {
        Self::Failed(Box::new((code, detail)))
    }
}

impl NoRoom {
    /// The refusal of a call that wants more room than the `most` bytes that it can ever have.
    #[cold]
    pub(crate) fn refused(self, most: usize) -> Outcome {
        let Self(needed) = self;
        let why = format!(
            "its OUT arguments take {needed} bytes of the {most} that a result may have; ask for less at a time"
        );
        Outcome::refused(RefusalCode::ResultTooLarge, why)
    }
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
}

#[cold]
fn not_served(why: Unserved, result: Writer<'_>) -> Result<Outcome, NoRoom> {
    Ok(match why {
        Unserved::UnknownProcedure => Outcome::refused(RefusalCode::UnknownProcedure, String::new()),
        Unserved::BadArguments(DecodeError::NoMemory) => {
            Outcome::refused(RefusalCode::Overloaded, format!("{NO_MEMORY} its arguments"))
        }
        Unserved::BadArguments(why) => Outcome::refused(RefusalCode::BadArguments, why.to_string()),
        Unserved::ResultTooLarge => match result.finish() {
            Err(EncodeError::TooLarge { needed_at_least, .. }) => return Err(NoRoom(needed_at_least)),
            Err(EncodeError::NoMemory { needed_at_least }) => {
                let why = format!("{NO_MEMORY} the {needed_at_least} bytes of its OUT arguments");
                Outcome::refused(RefusalCode::Overloaded, why)
            }
            _ => return Err(NoRoom(usize::MAX)),
        },
    })
}

/// Begin of the detail of a refusal or failure for want of memory.
const NO_MEMORY: &str = "the server's process has no memory left for";

#[cold]
fn too_large(why: EncodeError) -> Outcome {
    let detail = match why {
        EncodeError::NoMemory { needed_at_least } => {
            format!("{NO_MEMORY} it, which has at least {needed_at_least} bytes")
        }
        why => why.to_string(),
    };
    Outcome::failed(FailureCode::ResultTooLarge, detail)
}

#[cfg(test)]
mod tests {
    use crate::serving::dispatch::*;

    #[test]
    fn a_procedure_is_long_after_two_long_times_in_a_row_and_not_after_one() {
        for mean in [0, 600, 60_000] {
            let once = mean_with(mean, u64::MAX);
            assert!(u64::from(once) <= LONG_NANOS, "{mean} becomes {once}");
            assert!(u64::from(mean_with(once, u64::MAX)) > LONG_NANOS);
            assert_eq!(mean_with(once, 500), 500, "and short as soon as it was");
        }
    }

    #[test]
    fn a_slow_procedure_is_tried_again_some_time_after_its_last_call_and_however_many_were_refused() {
        let second = 1_000_000_000;
        let times =
            LongTimes { mean_ns: AtomicU64::new(10 * second), noted_ns: AtomicU64::new(100 * second) };
        (0..1_000_000).for_each(|_| assert_eq!(times.mean_at(101 * second), 10 * second));
        assert_eq!(times.mean_at(111 * second), 5 * second);
        assert!(times.mean_at(160 * second) < second);
        assert_eq!(times.mean_at(u64::MAX), SHORTEST_NS);
        times.note(10 * second, 160 * second);
        assert_eq!(times.mean_at(160 * second), 10 * second);
    }

    #[test]
    fn one_call_that_the_scheduler_has_stopped_says_little_and_ten_slow_ones_are_believed() {
        let (times, ms) = (LongTimes::default(), 1_000_000);
        times.note(20_000 * ms, 0);
        assert_eq!(times.mean_at(0), 10 * ms);
        (0..100).for_each(|_| times.note(ms, 0));
        times.note(20_000 * ms, 0);
        assert!(times.mean_at(0) < 2 * ms, "{}", times.mean_at(0));
        (0..10).for_each(|_| times.note(500 * ms, 0));
        assert!(times.mean_at(0) > 250 * ms, "{}", times.mean_at(0));
    }
}
