//! Credentials and verifiers (RFC 5531 §8.2): an open set of flavors, each with an opaque body.

mod status;
mod sys;

pub use status::AuthStatus;
pub use sys::{AuthSys, GIDS_MAX, Groups, MACHINE_NAME_MAX};

use core::fmt;
use stoop_xdr::{Decode, DecodeError, Encode, Layout, Reader, Writer, Xdr};

/// Bytes of the longest body of a credential or verifier (RFC 5531 §8.2).
pub const BODY_MAX: usize = 400;

/// The kind of a credential or verifier (RFC 5531 §8.2). Servers may know flavors that this crate does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flavor(pub u32);

impl Flavor {
    /// No authentication (RFC 5531 §10.1).
    pub const NONE: Self = Self(0);
    /// The caller's machine, user and groups, as the caller says (RFC 5531 appendix A).
    pub const SYS: Self = Self(1);
    /// A short form that a server gave for AUTH_SYS (RFC 5531 appendix A).
    pub const SHORT: Self = Self(2);
    /// Diffie-Hellman, known to be insecure (RFC 5531 §14).
    pub const DH: Self = Self(3);
    /// Generic security services: Kerberos and others (RFC 2203).
    pub const RPCSEC_GSS: Self = Self(6);
    /// Asks whether the server can go on under TLS (RFC 9289 §4.1).
    pub const TLS: Self = Self(7);
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("AUTH_NONE"),
            Self::SYS => f.write_str("AUTH_SYS"),
            Self::SHORT => f.write_str("AUTH_SHORT"),
            Self::DH => f.write_str("AUTH_DH"),
            Self::RPCSEC_GSS => f.write_str("RPCSEC_GSS"),
            Self::TLS => f.write_str("AUTH_TLS"),
            Self(other) => write!(f, "authentication flavor {other}"),
        }
    }
}

/// A credential or a verifier (`opaque_auth`, RFC 5531 §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// The kind of the body.
    pub flavor: Flavor,
    /// The body: at most [`BODY_MAX`] bytes.
    pub body: &'a [u8],
}

impl Auth<'_> {
    /// AUTH_NONE: no body (RFC 5531 §10.1).
    pub const NONE: Self = Auth { flavor: Flavor::NONE, body: &[] };
}

impl Default for Auth<'_> {
    fn default() -> Self {
        Auth::NONE
    }
}

impl Xdr for Auth<'_> {
    const LAYOUT: Layout = Layout::variable(8);
}

impl Encode for Auth<'_> {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.flavor.0);
        writer.opaque(self.body, BODY_MAX);
    }
}

impl<'a> Decode<'a> for Auth<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Auth { flavor: Flavor(reader.u32()?), body: reader.opaque(BODY_MAX)? })
    }
}

/// The caller's identity as this crate understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The caller did not say (AUTH_NONE).
    None,
    /// The caller says so (AUTH_SYS). Nothing proves it.
    Sys(AuthSys<'a>),
}

impl<'a> Identity<'a> {
    /// The identity in a credential.
    ///
    /// # Errors
    /// The reason for a reply that refuses the call: a flavor other than AUTH_NONE and AUTH_SYS, also AUTH_TLS, which
    /// RFC 9289 §4.1 asks a server without TLS to reject; or a body that is not of its flavor.
    pub fn of(credential: Auth<'a>) -> Result<Self, AuthStatus> {
        match credential.flavor {
            // RFC 5531 §10.1 recommends an empty body; peers ignore others, too.
            Flavor::NONE => Ok(Self::None),
            Flavor::SYS => {
                AuthSys::from_body(credential.body).map(Self::Sys).map_err(|_| AuthStatus::BAD_CREDENTIAL)
            }
            _ => Err(AuthStatus::REJECTED_CREDENTIAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use stoop_xdr::{EncodeError, Fault, from_slice, to_vec};

    #[test]
    fn a_body_has_at_most_400_bytes_in_both_directions() {
        let body = vec![7; 401];
        let auth = |body| Auth { flavor: Flavor(77), body };
        let form = to_vec(&auth(&body[..400])).unwrap();
        assert_eq!(form.len(), 408);
        assert_eq!(from_slice(&form), Ok(auth(&body[..400])));
        assert_eq!(to_vec(&auth(&body)), Err(EncodeError::TooLong { position: 4, len: 401, max: 400 }));
        let mut form = vec![0; 412];
        form[6..8].copy_from_slice(&401_u16.to_be_bytes());
        assert_eq!(from_slice::<Auth<'_>>(&form).unwrap_err().fault, Fault::TooLong { len: 401, max: 400 });
    }

    #[test]
    fn unknown_flavors_and_a_probe_for_tls_are_rejected() {
        for flavor in [Flavor(77), Flavor::SHORT, Flavor::RPCSEC_GSS, Flavor::TLS] {
            let credential = Auth { flavor, body: &[] };
            assert_eq!(Identity::of(credential), Err(AuthStatus::REJECTED_CREDENTIAL));
        }
        assert_eq!(Identity::of(Auth { flavor: Flavor::NONE, body: &[1] }), Ok(Identity::None));
        assert_eq!(Identity::of(Auth { flavor: Flavor::SYS, body: &[] }), Err(AuthStatus::BAD_CREDENTIAL));
    }
}
