//! The parts of a server for Sun RPC where the cargo feature `onc` is off: there are none.

use crate::error::ListenError;
use crate::program::programs::Programs;
use crate::server::Server;
use crate::server::running::Running;

/// No programs, and nothing for rpcbind.
#[derive(Default)]
pub(super) struct SunRpc {}

impl SunRpc {
    pub(super) fn register(&self, _: &Programs, _: &mut Running) -> Result<(), ListenError> {
        Ok(())
    }
}

impl Server {
    pub(super) fn has_programs(&self) -> bool {
        false
    }

    pub(super) fn programs(&self) -> Result<Programs, ListenError> {
        Ok(Programs::default())
    }

    pub(super) fn check_sun_rpc(&self) -> Result<(), ListenError> {
        Ok(())
    }
}
