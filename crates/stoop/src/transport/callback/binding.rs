//! The binding of a server to an object that a client offers.

use crate::calling::begun::BegunCalls;
use crate::calling::counters::CallCounters;
use crate::error::{CallError, Callee, SendError};
use crate::transport::callback::handle::Handle;
use crate::transport::callback::lane::CallbackLane;
use crate::transport::contract::Binding;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoop_wire::metadata::BLOCK_MAX;

/// A binding to an object that a client offers is its handle. It is never made again: the client offers the object again, and that is another.
impl Binding for Handle {
    type Lane<'a> = Box<CallbackLane<'a>>;

    // Inlined into the dispatch of all transports, it would slow them down.
    #[cold]
    #[inline(never)]
    fn hold(&self, timeout_ns: u64) -> Result<Box<CallbackLane<'_>>, CallError> {
        Ok(Box::new(CallbackLane::new(self, timeout_ns)))
    }

    fn callee(&self, procedure: u16) -> Callee {
        Callee::new(self.interface, procedure, &self.client)
    }

    fn describe(&self) -> String {
        "callbacks in the pipes of a call that the client keeps open".into()
    }

    fn describe_checksums(&self) -> &'static str {
        "; checksums as for the calls of the client"
    }

    fn counters(&self) -> CallCounters {
        let run_here = self.here.as_ref().map_or(0, |here| here.run.load(Ordering::Relaxed));
        let calls = self.sent() + run_here;
        CallCounters { calls, ..CallCounters::default() }
    }

    fn metadata_max(&self) -> usize {
        BLOCK_MAX
    }

    fn form(&self, procedure: u16) -> Option<u16> {
        self.agreed.as_ref().map_or(Some(procedure), |agreed| agreed.form(procedure))
    }
}

/// The begun calls of a binding: one table, for as long as the client offers the object.
pub(crate) struct CallbackBegun(Arc<Handle>);

impl CallbackBegun {
    pub(crate) fn new(binding: &Arc<Handle>) -> Self {
        Self(Arc::clone(binding))
    }
}

impl BegunCalls for CallbackBegun {
    type Table = Handle;

    fn present(&self) -> Result<Arc<Handle>, SendError> {
        Ok(Arc::clone(&self.0))
    }

    fn latest(&self) -> Arc<Handle> {
        Arc::clone(&self.0)
    }

    fn counters(&self) -> CallCounters {
        CallCounters::default()
    }
}
