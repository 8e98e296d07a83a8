//! The client's end of any transport.

use crate::account::CallAccount;
use crate::account::calls::Recorder;
use crate::account::spans::BegunSpans;
use crate::calling::begun::BegunCalls;
use crate::calling::counters::CallCounters;
use crate::error::{CallError, InPlaceError, SendError};
use crate::intercept::client::ClientChain;
use crate::transport::contract::{Binding, Transport};
use crate::transports::intercepted::InterceptedCalls;
use crate::transports::{AnyCalls, AnyLane, BegunOf, BindingOf};
use std::io;
use std::sync::Arc;
use stoop_shm::{InPlace, Number};

macro_rules! enums {
    (() $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        /// A binding.
        #[derive(Clone)]
        pub(crate) enum AnyBinding {
            $($(#[$meta])* $Name(Arc<BindingOf<$Type>>),)*
        }

        /// The tables of a binding's begun calls.
        pub(crate) enum AnyBegunCalls {
            $($(#[$meta])* $Name(BegunOf<$Type>),)*
            /// Those of a client with interceptors, to a server that takes metadata of so many bytes.
            Intercepted(Box<AnyBegunCalls>, Arc<ClientChain>, usize),
        }

        impl AnyBinding {
            /// As [`Binding::hold`].
            #[inline(always)]
            pub(crate) fn hold(&self, timeout_ns: u64) -> Result<AnyLane<'_>, CallError> {
                Ok(match self {
                    $($(#[$meta])* Self::$Name(binding) => AnyLane::$Name(binding.hold(timeout_ns)?),)*
                })
            }

            /// As [`Transport::begun_calls`].
            pub(crate) fn begun_calls(&self) -> io::Result<AnyBegunCalls> {
                Ok(match self {
                    $($(#[$meta])* Self::$Name(binding) => {
                        AnyBegunCalls::$Name(<$Type as Transport>::begun_calls(binding)?)
                    })*
                })
            }
        }

        impl AnyBegunCalls {
            /// As [`BegunCalls::present`].
            #[inline]
            pub(crate) fn present(&self) -> Result<AnyCalls, SendError> {
                Ok(match self {
                    $($(#[$meta])* Self::$Name(begun) => AnyCalls::$Name(begun.present()?),)*
                    Self::Intercepted(begun, interceptors, metadata_max) => {
                        begun.present_intercepted(interceptors, *metadata_max)?
                    }
                })
            }

            /// As [`BegunCalls::latest`].
            pub(crate) fn latest(&self) -> AnyCalls {
                match self {
                    $($(#[$meta])* Self::$Name(begun) => AnyCalls::$Name(begun.latest()),)*
                    Self::Intercepted(begun, ..) => begun.latest(),
                }
            }

            pub(crate) fn counters(&self) -> CallCounters {
                match self {
                    $($(#[$meta])* Self::$Name(begun) => begun.counters(),)*
                    Self::Intercepted(begun, ..) => begun.counters(),
                }
            }
        }
    };
}
list! { enums () }

impl AnyBinding {
    pub(crate) fn describe(&self) -> String {
        on!(AnyBinding, self, binding => binding.describe())
    }

    pub(crate) fn describe_buffers(&self) -> String {
        on!(AnyBinding, self, binding => binding.describe_buffers())
    }

    pub(crate) fn describe_checksums(&self) -> &'static str {
        on!(AnyBinding, self, binding => binding.describe_checksums())
    }

    pub(crate) fn counters(&self) -> CallCounters {
        on!(AnyBinding, self, binding => binding.counters())
    }

    pub(crate) fn account(&self) -> CallAccount {
        self.recorder().map_or_else(CallAccount::default, Recorder::account)
    }

    /// The error of a call of that procedure, with its name and that of its server.
    #[cold]
    #[inline(never)]
    pub(crate) fn name(&self, error: CallError, procedure: u16) -> CallError {
        error.knowing(on!(AnyBinding, self, binding => binding.callee(procedure)))
    }

    /// What makes spans of the calls that are begun.
    pub(crate) fn begun_spans(&self) -> BegunSpans {
        self.recorder().map_or_else(BegunSpans::default, Recorder::begun_spans)
    }

    fn recorder(&self) -> Option<&Recorder> {
        on!(AnyBinding, self, binding => binding.recorder())
    }

    pub(crate) fn metadata_max(&self) -> usize {
        on!(AnyBinding, self, binding => binding.metadata_max())
    }

    pub(crate) fn form(&self, procedure: u16) -> Option<u16> {
        on!(AnyBinding, self, binding => binding.form(procedure))
    }

    pub(crate) fn offers(&self) -> String {
        on!(AnyBinding, self, binding => binding.offers())
    }

    pub(crate) fn incarnation(&self) -> u64 {
        on!(AnyBinding, self, binding => binding.incarnation())
    }

    pub(crate) fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        on!(AnyBinding, self, binding => binding.in_place(len))
    }
}

impl AnyBegunCalls {
    /// The same, of a client with these interceptors, if it has some.
    pub(crate) fn intercepted(self, interceptors: Option<ClientChain>, metadata_max: usize) -> Self {
        match interceptors {
            Some(interceptors) => Self::Intercepted(Box::new(self), Arc::new(interceptors), metadata_max),
            None => self,
        }
    }

    #[cold]
    #[inline(never)]
    fn present_intercepted(
        &self,
        interceptors: &Arc<ClientChain>,
        metadata_max: usize,
    ) -> Result<AnyCalls, SendError> {
        let calls = InterceptedCalls::new(self.present()?, interceptors, metadata_max);
        Ok(AnyCalls::Intercepted(Arc::new(calls)))
    }
}
