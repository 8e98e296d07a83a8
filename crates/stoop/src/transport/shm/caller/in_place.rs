//! Buffers that both processes use where they lie, and calls that have some as arguments.

use crate::calling::recovery::ATTEMPTS;
use crate::error::{BindError, CallError, InPlaceError};
use crate::transport::shm::caller::lane::WriteArguments;
use crate::transport::shm::caller::{Again, HeldLane, ShmBinding, begin};
use std::io;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_shm::{InPlace, Number};

impl ShmBinding {
    pub(crate) fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        for _ in 0..ATTEMPTS {
            let mut session = self.present();
            if session.is_lost() {
                let deadline = Instant::from_nanos(clock::now_ns()) + self.options.bind_timeout;
                let bound = self.rebind(&session, deadline);
                session = bound.map_err(|why| InPlaceError::Unbound(Box::new(why)))?;
            }
            let Some(arena) = &session.arena else { return Ok(InPlace::private(len)) };
            session.release_withheld();
            let allocated = arena.allocate(len);
            // Asked afterwards: the calls of a session that is lost have given back what their procedures may still use.
            if !session.is_lost() {
                return allocated.map_err(InPlaceError::Full);
            }
        }
        let cause = io::ErrorKind::ConnectionReset.into();
        Err(InPlaceError::Unbound(Box::new(BindError::Unreachable { server: self.uri.clone(), cause })))
    }

    pub(crate) fn describe_buffers(&self) -> String {
        match &self.present().arena {
            Some(arena) => {
                format!(
                    "; buffers lie in memory of both, {} bytes, of which {} are free",
                    arena.len(),
                    arena.free()
                )
            }
            None => "; buffers are copied, because the server gives no memory for them (`Server::in_place`)"
                .into(),
        }
    }
}

impl HeldLane<'_> {
    /// As [`transport`](Self::transport), of a call that has buffers: `write` writes its arguments.
    pub(crate) fn transport_in_place(
        &mut self,
        procedure: u16,
        timeout_ns: u64,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), CallError> {
        let (begun_ns, deadline) = begin(timeout_ns)?;
        let limit = self.limit();
        let lane = self.lane();
        lane.trim();
        let ended = match lane.exchange_in_place(deadline, procedure, limit, write) {
            Ok(()) => Ok(()),
            Err(ended) => self.recover(ended, begun_ns, deadline.latest_ns, procedure, Again::Written(write)),
        };
        self.lane().lent.clear();
        ended
    }

    /// Whether the server was told where `buffer` lies, in the call that has just been made.
    pub(crate) fn has_lent<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        self.made().session.arena.as_ref().is_some_and(|arena| buffer.place_in(arena).is_some())
    }
}
