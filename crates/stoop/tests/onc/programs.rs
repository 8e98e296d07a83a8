//! The programs of `peer.x`, served by Stoop.

use crate::peer::{self, Blob, PEER};
use std::sync::atomic::{AtomicU32, Ordering};
use stoop::onc::VersionId;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop_xdr::Opaque;

/// Version 1.
#[derive(Default)]
pub(crate) struct One {
    count: AtomicU32,
}

impl Program for One {
    fn version(&self) -> VersionId {
        VersionId { program: PEER, version: 1 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        match call.procedure() {
            1 => {
                let (a, b): (i32, i32) = (call.arguments().value()?, call.arguments().value()?);
                call.reply(&a.wrapping_add(b))
            }
            2 => {
                let count = call.arguments().value()?;
                call.reply(&peer::list(count))
            }
            3 => {
                let Opaque(bytes) = call.arguments().value::<Blob>()?;
                call.reply(&Opaque(peer::reverse(&bytes)))
            }
            4 => {
                let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
                call.reply(&count)
            }
            5 => {
                let who = peer::who(call.identity());
                call.reply(&who)
            }
            6 => panic!("as the test wants"),
            7 => Err(NoResult::NoReply),
            _ => Err(NoResult::ProcedureUnavailable),
        }
    }
}

/// Version 2.
pub(crate) struct Two;

impl Program for Two {
    fn version(&self) -> VersionId {
        VersionId { program: PEER, version: 2 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        match call.procedure() {
            1 => {
                let number: u32 = call.arguments().value()?;
                call.reply(&(u64::from(number) * u64::from(number)))
            }
            _ => Err(NoResult::ProcedureUnavailable),
        }
    }

    fn is_idempotent(&self, _: u32) -> bool {
        true
    }
}
