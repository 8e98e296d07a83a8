//! Authentication: the credential of each call and the check of each reply, for an open set of flavors.

use std::fmt;
use std::fs;
use std::sync::Arc;
pub use stoop_onc::auth::{Auth, AuthStatus, AuthSys, Flavor, Groups};
use stoop_onc::auth::{BODY_MAX, MACHINE_NAME_MAX};

/// Makes the credential and the verifier of each call, and judges the verifier of each reply (RFC 5531 §8.2).
///
/// [`Credential`] is one whose bytes stay the same. Flavors whose bytes change from call to call implement the trait.
pub trait Authentication: Send + Sync {
    /// Passes the credential and the verifier of the next call to `with`, once.
    fn authenticate(&self, with: &mut dyn FnMut(Auth<'_>, Auth<'_>));

    /// Whether the verifier of a reply is right. If not, the call ends with
    /// [`SunFault::BadVerifier`](crate::error::SunFault::BadVerifier).
    fn accepts(&self, verifier: Auth<'_>) -> bool {
        let _ = verifier;
        true
    }
}

/// A credential that stays the same, with AUTH_NONE as verifier.
///
/// ```
/// use stoop::onc::{AuthSys, Credential, Flavor, Groups};
///
/// let nobody = AuthSys { stamp: 0, machine_name: b"here", uid: 65_534, gid: 65_534, gids: Groups::first_of(&[]) };
/// let credentials = [Credential::none(), Credential::own(), Credential::sys(&nobody)];
/// assert_ne!(credentials[0], credentials[2]);
/// assert_eq!(Credential::of_flavor(Flavor::NONE, &[]), Credential::none());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    flavor: Flavor,
    body: Arc<[u8]>,
}

impl Default for Credential {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Credential {
    /// Without the body, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({})", self.flavor)
    }
}

impl Credential {
    /// AUTH_NONE: the caller does not say who it is.
    pub fn none() -> Self {
        Self { flavor: Flavor::NONE, body: Arc::default() }
    }

    /// AUTH_SYS: the caller states its user and groups. It proves nothing: any program can state any user.
    ///
    /// A name longer than 255 bytes is cut.
    pub fn sys(identity: &AuthSys<'_>) -> Self {
        let mut room = [0; BODY_MAX];
        let name = &identity.machine_name[..identity.machine_name.len().min(MACHINE_NAME_MAX)];
        let identity = AuthSys { machine_name: name, ..identity.clone() };
        let credential = identity.credential(&mut room).expect("the name is short enough");
        Self { flavor: credential.flavor, body: credential.body.into() }
    }

    /// AUTH_SYS with the name of this machine, and the effective user and the groups of this process.
    pub fn own() -> Self {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (uid, gid) = (effective(&status, "Uid:"), effective(&status, "Gid:"));
        let gids: Vec<u32> = numbers(&status, "Groups:").collect();
        let gids = Groups::first_of(&gids);
        Self::sys(&AuthSys { stamp: 0, machine_name: name.trim_end().as_bytes(), uid, gid, gids })
    }

    /// A credential of any flavor.
    ///
    /// # Panics
    /// The body is longer than 400 bytes (RFC 5531 §8.2).
    pub fn of_flavor(flavor: Flavor, body: &[u8]) -> Self {
        assert!(body.len() <= BODY_MAX, "the body of a credential has at most {BODY_MAX} bytes");
        Self { flavor, body: body.into() }
    }
}

impl Authentication for Credential {
    #[inline]
    fn authenticate(&self, with: &mut dyn FnMut(Auth<'_>, Auth<'_>)) {
        with(Auth { flavor: self.flavor, body: &self.body }, Auth::NONE);
    }
}

/// The numbers of a line of `/proc/self/status`.
fn numbers<'s>(status: &'s str, key: &str) -> impl Iterator<Item = u32> + use<'s> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|word| word.parse().ok())
}

/// The second number is the effective one (proc_pid_status(5)); without it, nobody.
fn effective(status: &str, key: &str) -> u32 {
    numbers(status, key).nth(1).unwrap_or(65_534)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoop_onc::auth::Identity;

    #[test]
    fn the_effective_user_and_the_groups_are_read_from_the_status() {
        let status = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \n";
        assert_eq!((effective(status, "Uid:"), effective(status, "Gid:")), (2, 6));
        assert_eq!(numbers(status, "Groups:").collect::<Vec<_>>(), [9, 10]);
        assert_eq!(effective("", "Uid:"), 65_534);
    }

    #[test]
    fn the_own_credential_is_one_of_auth_sys() {
        let mut identity = None;
        Credential::own().authenticate(&mut |credential, verifier| {
            assert_eq!(verifier, Auth::NONE);
            identity = Some(matches!(Identity::of(credential), Ok(Identity::Sys(_))));
        });
        assert_eq!(identity, Some(true));
    }
}
