//! The user that a caller of Sun RPC claims to be.

use crate::context::{CurrentCall, DEADLINE_NS, NONE};
use std::cell::Cell;
use std::fmt;
use stoop_onc::auth::{AuthSys, Groups, Identity, MACHINE_NAME_MAX};

/// An [`AuthSys`] that borrows nothing.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    stamp: u32,
    uid: u32,
    gid: u32,
    gids: Groups,
    name: [u8; MACHINE_NAME_MAX],
    name_len: usize,
}

impl Claim {
    fn of(claimed: &AuthSys<'_>) -> Self {
        let AuthSys { stamp, machine_name, uid, gid, gids } = *claimed;
        let mut name = [0; MACHINE_NAME_MAX];
        name[..machine_name.len()].copy_from_slice(machine_name);
        Self { stamp, uid, gid, gids, name, name_len: machine_name.len() }
    }

    fn identity(&self) -> Identity<'_> {
        let Self { stamp, uid, gid, gids, ref name, name_len } = *self;
        Identity::Sys(AuthSys { stamp, machine_name: &name[..name_len], uid, gid, gids })
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity().fmt(f)
    }
}

impl CurrentCall {
    /// The user that the caller claims to be, if the call came by Sun RPC with AUTH_SYS: uid, gid, other groups and the name of the machine.
    /// **Nothing proves it**: any program can state any user. [`Identity::None`](crate::onc::Identity::None) for
    /// AUTH_NONE, and for callers by Stoop's own protocol; of processes of this machine [`caller`](Self::caller) tells the user by the
    /// kernel's word.
    ///
    /// Cargo feature `onc`. A procedure refuses a caller by [`onc::deny`](crate::onc::deny).
    pub fn identity(&self) -> Identity<'_> {
        self.claim.as_ref().map_or(Identity::None, Claim::identity)
    }
}

/// Whether this thread serves a call.
pub(crate) fn is_serving() -> bool {
    DEADLINE_NS.get() != NONE
}

thread_local! {
    /// That of the call which this thread serves, if there is one.
    static CLAIM: Cell<Option<Claim>> = const { Cell::new(None) };
    /// Apart from it, so that a call without a claim copies nothing.
    static IS_CLAIMED: Cell<bool> = const { Cell::new(false) };
}

/// Restores whether there is a claim.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        IS_CLAIMED.set(self.0);
    }
}

/// The claim of the caller of the call that this thread serves.
pub(super) fn claimed() -> Option<Claim> {
    IS_CLAIMED.get().then(|| CLAIM.get()).flatten()
}

/// Runs `procedure` for a caller with that identity.
#[inline]
pub(crate) fn claiming<R>(identity: &Identity<'_>, procedure: impl FnOnce() -> R) -> R {
    let Identity::Sys(claimed) = identity else {
        return procedure();
    };
    CLAIM.set(Some(Claim::of(claimed)));
    IS_CLAIMED.set(true);
    let _restore = Restore(false);
    procedure()
}

/// Runs `procedure` for another caller, which claims nothing, inside a call that this thread serves.
pub(super) fn without_claim<R>(procedure: impl FnOnce() -> R) -> R {
    let _restore = Restore(IS_CLAIMED.replace(false));
    procedure()
}
