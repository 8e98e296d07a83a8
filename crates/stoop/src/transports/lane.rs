//! A lane of any transport. Each method is that of [`Lane`].

use crate::buffers::WriteArguments;
use crate::error::{CallError, Callee};
use crate::metadata::outgoing::Carried;
use crate::transport::contract::Lane;
use crate::transports::LaneOf;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_shm::{InPlace, Number};

macro_rules! enums {
    (() $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        /// A lane held by a call.
        pub(crate) enum AnyLane<'a> {
            $($(#[$meta])* $Name(LaneOf<'a, $Type>),)*
        }

        impl AnyLane<'_> {
            pub(crate) fn can_gather(&self) -> bool {
                match self {
                    $($(#[$meta])* Self::$Name(_) => <LaneOf<'_, $Type> as Lane>::CAN_GATHER,)*
                }
            }
        }
    };
}
list! { enums () }

impl AnyLane<'_> {
    #[inline(always)]
    pub(crate) fn arguments(&mut self) -> Writer<'_> {
        on!(AnyLane, self, lane => lane.arguments())
    }

    // In the stub: out of line, the call and its result go through memory, which takes 65 instructions of 1,430.
    #[inline(always)]
    pub(crate) fn transport(&mut self, procedure: u16, len: usize) -> Result<(), CallError> {
        on!(AnyLane, self, lane => lane.transport(procedure, len))
    }

    pub(crate) fn transport_gathered(
        &mut self,
        procedure: u16,
        len: usize,
        list: &mut GatherList<'_, '_>,
    ) -> Result<(), CallError> {
        on!(AnyLane, self, lane => lane.transport_gathered(procedure, len, list))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn transport_carrying(
        &mut self,
        procedure: u16,
        len: usize,
        list: &mut GatherList<'_, '_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        on!(AnyLane, self, lane => lane.transport_carrying(procedure, len, list, carried))
    }

    pub(crate) fn transport_with_buffers(
        &mut self,
        procedure: u16,
        write: &mut WriteArguments<'_>,
        carried: Option<&Carried>,
    ) -> Result<(), CallError> {
        on!(AnyLane, self, lane => lane.transport_with_buffers(procedure, write, carried))
    }

    #[cold]
    pub(crate) fn other_form(&self, procedure: u16, made: u16) -> Option<u16> {
        on!(AnyLane, self, lane => lane.other_form(procedure, made))
    }

    #[cold]
    pub(crate) fn callee(&self, procedure: u16) -> Callee {
        on!(AnyLane, self, lane => lane.callee(procedure))
    }

    #[inline]
    pub(crate) fn result(&self) -> &[u8] {
        on!(AnyLane, self, lane => lane.result())
    }

    pub(crate) fn scattered(&self) -> Option<Reader<'_>> {
        on!(AnyLane, self, lane => lane.scattered())
    }

    pub(crate) fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        on!(AnyLane, self, lane => lane.has_shared(buffer))
    }
}
