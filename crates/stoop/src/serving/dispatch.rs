//! The dispatch of a call: from the number of its procedure to its result, the same for every endpoint.

use crate::buffers::Memory;
use crate::context::cancelled::CallId;
use crate::context::{Caller, serving_call};
use crate::interface::{Exported, Interface};
use crate::later::room::{OPEN_CALLS_MAX, OpenRoom};
use crate::later::unserved::Unserved;
use crate::metadata::served::{self, CallMetadata};
use crate::metadata::{has_metadata, without_metadata};
use crate::serving::answer_metadata::put_behind;
use crate::serving::outcome::{NoRoom, Outcome, not_served, panicked, too_large};
use crate::serving::procedure_time::ProcedureTime;
use crate::serving::procedures::ProcedureOptions;
use crate::serving::terms::CallTerms;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use stoop_exchange::shares::Owner;
use stoop_marshal::{Reader, Writer};
use stoop_probe::{Point, stamp};
use stoop_wire::metadata::Block;
use stoop_wire::{HEADER_LEN, RefusalCode};

/// The interfaces of a server and how long their procedures take.
pub(crate) struct Exports {
    pub(crate) all: Vec<Arc<dyn Exported>>,
    /// The other addresses of the server, see [`offers`](crate::offers).
    offers: String,
    times: Vec<Vec<ProcedureTime>>,
    options: Vec<Vec<ProcedureOptions>>,
    /// Whether callers of other processes get the messages of panics; unless set, those of this machine do.
    panic_texts: Option<bool>,
    pub(crate) open_room: Arc<OpenRoom>,
    /// Whether callers are told neither names nor signatures.
    is_silent: bool,
}

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
pub(crate) const OUT_UNCOUNTED: usize = 256 * 1024;

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
        let time = |options: &ProcedureOptions| {
            options.limit().map_or_else(ProcedureTime::default, |_| ProcedureTime::counted())
        };
        let times = options.iter().map(|options| options.iter().map(time).collect()).collect();
        let open_room = Arc::new(OpenRoom::new(OPEN_CALLS_MAX, usize::MAX));
        Self { times, options, all, offers, panic_texts: None, open_room, is_silent: false }
    }

    /// The same, with this room for open calls.
    pub(crate) fn with_open_room(self, open_room: Arc<OpenRoom>) -> Self {
        self.all.iter().for_each(|export| export.lend_room(&open_room));
        Self { open_room, ..self }
    }

    /// The same, telling the messages of panics to callers of other processes, or to none.
    pub(crate) fn with_panic_texts(self, panic_texts: Option<bool>) -> Self {
        Self { panic_texts, ..self }
    }

    /// The same, telling callers neither names nor signatures.
    pub(crate) fn silent_if(self, is_silent: bool) -> Self {
        Self { is_silent, ..self }
    }

    /// The server shuts down: calls that clients keep open for callbacks end.
    pub(crate) fn close(&self) {
        self.all.iter().for_each(|export| export.close());
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
        let all = if self.is_silent { all.silent() } else { all };
        let all = in_place.fold(all, |all, (interface, procedure, leading)| {
            all.returning_in_place(interface, procedure, leading)
        });
        let denials = self.all.iter().enumerate();
        let denials = denials.filter_map(|(number, export)| Some((number, export.denial(None)?)));
        denials.fold(all, |all, (number, why)| all.denying(number, why))
    }

    /// Why the caller with that name may call nothing of an interface; `None`: it may call something.
    pub(crate) fn denial(&self, interface: usize, name: Option<&str>) -> Option<String> {
        self.all.get(interface).and_then(|export| export.denial(name))
    }

    /// The time that a procedure takes.
    #[inline]
    pub(crate) fn time(&self, interface: u16, procedure: u16) -> &ProcedureTime {
        let times = &self.times[usize::from(interface)];
        times.get(usize::from(procedure)).unwrap_or_else(|| self.time_otherwise(interface, procedure))
    }

    /// [`time`](Self::time), of a number with the bit of metadata, or of an older form.
    #[cold]
    fn time_otherwise(&self, interface: u16, procedure: u16) -> &ProcedureTime {
        let interface = usize::from(interface);
        let procedure = self.all[interface].interface().base(procedure);
        &self.times[interface][usize::from(procedure)]
    }

    /// The terms of a call for the queue.
    #[cold]
    pub(crate) fn terms(
        &self,
        (interface, procedure): (u16, u16),
        (owner, part, call): (Owner, u64, CallId),
        deadline_ns: u64,
    ) -> CallTerms {
        let procedure = self.all[usize::from(interface)].interface().base(procedure);
        let options = &self.options[usize::from(interface)][usize::from(procedure)];
        let number = u32::from(interface) << 16 | u32::from(procedure);
        let (priority, limit) = (options.its_priority(), options.limit());
        let (work_ns, procedure) = (self.time(interface, procedure).work_ns(), Some(number));
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
        if has_metadata(procedure) {
            return self.run_with_metadata((interface, procedure), arguments, None, packet, limits);
        }
        stamp(Point::ServerStubBegun);
        let export = &*self.all[usize::from(interface)];
        let outcome = self
            .run_with(packet, limits, |result| export.dispatch(procedure, Reader::new(arguments), result));
        stamp(Point::ServerStubEnded);
        outcome
    }

    /// [`run`](Self::run), of a call with metadata behind its arguments; that of its answer is then behind its result.
    #[cold]
    #[inline(never)]
    fn run_with_metadata(
        &self,
        (interface, procedure): (u16, u16),
        message: &[u8],
        memory: Option<Memory<'_>>,
        packet: &mut Vec<u8>,
        limits: CallLimits,
    ) -> Result<Outcome, NoRoom> {
        let (arguments, block) = match Block::split(message) {
            Ok(split) => split,
            Err(why) => {
                return Ok(Outcome::refused(RefusalCode::BadArguments, format!("its metadata: {why}")));
            }
        };
        let metadata = CallMetadata::new(block);
        let (export, procedure) = (&*self.all[usize::from(interface)], without_metadata(procedure));
        let ran = self.run_with(packet, limits, |result| {
            let call = Reader::new(arguments);
            served::serving(Some(Arc::clone(&metadata)), || match memory {
                Some(memory) => export.dispatch_with_memory(procedure, call, memory, result),
                None => export.dispatch(procedure, call, result),
            })
        });
        let ran = ran.map(|outcome| put_behind(&metadata, outcome, packet, limits.result_max));
        served::reuse(metadata);
        ran
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
        if has_metadata(procedure) {
            return self.run_with_metadata((interface, procedure), arguments, Some(memory), packet, limits);
        }
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

    /// Writes the result of a call that has run before into `packet`, behind the header.
    #[cold]
    pub(crate) fn write(
        &self,
        packet: &mut Vec<u8>,
        limits: &CallLimits,
        put: &dyn Fn(&mut Writer<'_>) -> Result<(), Unserved>,
    ) -> Outcome {
        let mut result = Writer::new(packet, HEADER_LEN, limits.result_max);
        match catch_unwind(AssertUnwindSafe(|| put(&mut result))) {
            Ok(Ok(())) => result.finish().map_or_else(too_large, Outcome::Result),
            Ok(Err(why)) => not_served(why, result).unwrap_or_else(|why| why.refused(limits.result_max)),
            Err(panic) => panicked(panic, self.tells_panics(&limits.caller)),
        }
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
