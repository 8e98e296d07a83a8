//! A blocking call to another process, from its start to the end of its result.

use crate::buffers::{SharedBuffers, WriteArguments, take_elements};
use crate::callbacks::nested;
use crate::error::{CallError, Ran, SendError};
use crate::interface::Interface;
use crate::metadata::outgoing::Carried;
use crate::metadata::served::{goes_on, needs_care};
use crate::transport::local::caller::Local;
use crate::transports::{AnyBinding, AnyLane};
use std::time::Duration;
use stoop_marshal::{DecodeError, EncodeError, Form, GatherList, Reader, Scalar, Writer};
use stoop_probe::{Point, stamp};
use stoop_shm::{InPlace, Number};

/// Forms in which a call is made, at most: its server may be replaced by one of another revision while it is under way.
const REVISIONS_MAX: u32 = 8;

/// The way that a call takes.
#[derive(Debug)]
pub enum Route<'a, L: ?Sized> {
    /// Through the trait.
    Local(Local<'a, L>),
    /// By packets.
    Remote(Remote<'a>),
}

/// A call to another process.
pub struct Remote<'a> {
    binding: &'a AnyBinding,
    timeout_ns: u64,
    carried: Option<&'a Carried>,
}

impl std::fmt::Debug for Remote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("timeout", &Duration::from_nanos(self.timeout_ns))
            .finish_non_exhaustive()
    }
}

/// A call being made, and the lane that it holds: first with its arguments so far, then with its result.
///
/// It stays where it was made until it ends: handed on, it would be copied, which takes as long as finding the lane.
pub struct Call<'a> {
    lane: AnyLane<'a>,
    procedure: u16,
    /// The metadata that it carries.
    carried: Option<&'a Carried>,
}

impl<'a> Remote<'a> {
    #[inline]
    pub(crate) fn new(binding: &'a AnyBinding, timeout_ns: u64) -> Self {
        Self { binding, timeout_ns, carried: None }
    }

    /// The same, carrying this.
    pub(crate) fn carrying(self, carried: &'a Carried) -> Self {
        Self { carried: Some(carried), ..self }
    }

    /// Starter: finds this thread's lane and its call packet.
    ///
    /// # Errors
    /// [`CallError::NotSent`] when a new lane is needed and cannot be made.
    #[inline]
    pub fn start(self, procedure: u16) -> Result<Call<'a>, CallError> {
        let lane = match self.binding.hold(self.timeout_ns) {
            Ok(lane) => lane,
            Err(error) => return Err(self.binding.name(error, procedure)),
        };
        stamp(Point::CallStarted);
        Ok(Call { lane, procedure, carried: self.carried })
    }
}

/// Its arguments.
impl Call<'_> {
    /// Whether large arguments can stay where the caller has them, and large results be placed there.
    pub fn can_gather(&self) -> bool {
        self.lane.can_gather()
    }

    /// The writer of the arguments.
    #[inline]
    pub fn arguments(&mut self) -> Writer<'_> {
        self.lane.arguments()
    }

    /// Transporter: sends the call packet and waits for the result packet.
    ///
    /// # Errors
    /// Why there is no result; see [`CallError`].
    // In the stub: out of line, the call and its result go through memory, which takes 65 instructions of 1,430.
    #[inline(always)]
    pub fn transport(&mut self, arguments: Result<usize, EncodeError>) -> Result<(), CallError> {
        if self.carried.is_some() || needs_care() {
            return self.transport_gathered(arguments, GatherList::none());
        }
        let ended = match arguments {
            Ok(len) => self.lane.transport(self.procedure, len),
            Err(why) => Err(CallError::not_sent(SendError::Arguments(why))),
        };
        match ended {
            Ok(()) => {
                stamp(Point::TransportEnded);
                Ok(())
            }
            Err(error) => Err(self.name(error)),
        }
    }

    /// As [`transport`](Self::transport), of a call that has buffers: `write` writes its arguments, and once more if it goes to another server.
    ///
    /// # Errors
    /// Why there is no result; see [`CallError`].
    pub fn transport_with_buffers(&mut self, write: &mut WriteArguments<'_>) -> Result<(), CallError> {
        let Self { lane, procedure, carried } = self;
        let ended = nested::waiting(|| lane.transport_with_buffers(*procedure, write, *carried));
        ended.map_err(|error| self.name(error))
    }

    /// The call has ended with this error because the server does not know the form of its arguments: makes it in the form that the server
    /// knows, for which `write` writes them again. Returns the form of the result.
    ///
    /// # Errors
    /// Why there is no result; the same error if that has another reason.
    #[cold]
    pub fn in_another_form(
        &mut self,
        interface: &'static Interface,
        procedure: u16,
        error: CallError,
        write: &mut dyn FnMut(&mut Writer<'_>, Form),
    ) -> Result<Form, CallError> {
        let idempotent = interface.procedures[usize::from(procedure)].idempotent;
        self.in_other_forms(interface, (procedure, idempotent), error, &mut |call, form| {
            let mut arguments = call.lane.arguments();
            write(&mut arguments, form);
            let written = arguments.finish();
            call.transport(written)
        })
    }

    /// As [`in_another_form`](Self::in_another_form), of a call that has buffers.
    ///
    /// # Errors
    /// Why there is no result; the same error if that has another reason.
    #[cold]
    pub fn with_buffers_in_another_form(
        &mut self,
        interface: &'static Interface,
        procedure: u16,
        error: CallError,
        write: &mut dyn FnMut(&mut Writer<'_>, &mut SharedBuffers<'_>, Form),
    ) -> Result<Form, CallError> {
        // An attempt that may have run may have changed the buffers.
        self.in_other_forms(interface, (procedure, false), error, &mut |call, form| {
            call.transport_with_buffers(&mut |arguments, buffers| write(arguments, buffers, form))
        })
    }

    /// `may_run_again`: it may be made again if an attempt may have run.
    fn in_other_forms(
        &mut self,
        interface: &'static Interface,
        (procedure, may_run_again): (u16, bool),
        mut error: CallError,
        attempt: &mut dyn FnMut(&mut Self, Form) -> Result<(), CallError>,
    ) -> Result<Form, CallError> {
        for _ in 0..REVISIONS_MAX {
            let may_come_again = error.ran() == Ran::No || may_run_again && error.ran() == Ran::Perhaps;
            let other = self.lane.other_form(procedure, self.procedure);
            let Some(number) = other.filter(|_| may_come_again) else { return Err(error) };
            self.procedure = number;
            let form = interface.form_of_arguments(number);
            match attempt(self, form) {
                Ok(()) => return Ok(form),
                // An earlier attempt may have run.
                Err(again) if again.ran() == Ran::No && error.ran() != Ran::No => {}
                Err(again) => error = again,
            }
        }
        Err(error)
    }

    /// As [`transport`](Self::transport), with arguments that are not all in the call packet.
    ///
    /// # Errors
    /// Why there is no result; see [`CallError`].
    pub fn transport_gathered(
        &mut self,
        arguments: Result<usize, EncodeError>,
        mut list: GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        let carries = self.carried.is_some() || goes_on();
        let ended = nested::waiting(|| match (arguments, carries) {
            (Ok(len), true) => self.lane.transport_carrying(self.procedure, len, &mut list, self.carried),
            (Ok(len), false) => self.lane.transport_gathered(self.procedure, len, &mut list),
            (Err(why), _) => Err(CallError::not_sent(SendError::Arguments(why))),
        });
        ended.map_err(|error| self.name(error))
    }

    /// The error of this call, with its procedure and its server.
    #[cold]
    #[inline(never)]
    fn name(&self, error: CallError) -> CallError {
        error.knowing(self.lane.callee(self.procedure))
    }
}

/// Its result, after it was transported.
impl Call<'_> {
    /// The rest of the result, if what the procedure wrote into OUT arguments was placed in the caller's memory.
    pub fn scattered(&self) -> Option<Reader<'_>> {
        self.lane.scattered()
    }

    /// The result, in the packet in which it arrived.
    #[inline]
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.lane.result())
    }

    /// Reads a buffer that the procedure may have changed, unless it lies where the procedure has written it.
    ///
    /// # Errors
    /// When it is not all there.
    pub fn take_buffer<T: Number + Scalar>(
        &self,
        reader: &mut Reader<'_>,
        buffer: &mut InPlace<T>,
    ) -> Result<(), DecodeError> {
        if self.lane.has_shared(buffer) { Ok(()) } else { take_elements(reader, buffer) }
    }

    /// Ender: what the caller gets. The lane is given back when the call is dropped.
    ///
    /// # Errors
    /// [`CallError::Peer`] when the result was no value of its type; [`CallError::Failed`] when there is no memory for it.
    #[inline]
    pub fn end<T>(&self, decoded: Result<T, DecodeError>) -> Result<T, CallError> {
        decoded.map_err(|why| self.name(CallError::undecoded(why)))
    }
}
