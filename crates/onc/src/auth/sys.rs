//! AUTH_SYS: a credential that states the caller's user and groups (RFC 5531 appendix A). It proves nothing.

use super::{Auth, BODY_MAX, Flavor};
use core::ops::Deref;
use stoop_xdr::{Decode, DecodeError, Encode, EncodeError, Fault, Layout, Reader, Writer, Xdr};

/// Bytes of the longest machine name (RFC 5531 appendix A).
pub const MACHINE_NAME_MAX: usize = 255;

/// The most groups, besides the first one (RFC 5531 appendix A).
pub const GIDS_MAX: usize = 16;

/// The body of a credential of flavor AUTH_SYS (`authsys_parms`, RFC 5531 appendix A).
///
/// It says who the caller claims to be. Any program can claim to be anyone: use it only where the network and all hosts
/// on it are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary number of the caller's machine.
    pub stamp: u32,
    /// The name of the caller's machine: at most [`MACHINE_NAME_MAX`] bytes.
    pub machine_name: &'a [u8],
    /// The caller's effective user.
    pub uid: u32,
    /// The caller's effective group.
    pub gid: u32,
    /// The caller's other groups.
    pub gids: Groups,
}

impl<'a> AuthSys<'a> {
    /// Reads the body of a credential, all of it.
    ///
    /// # Errors
    /// When the bytes are not such a body: too long, too short, or too many groups.
    pub fn from_body(body: &'a [u8]) -> Result<Self, DecodeError> {
        stoop_xdr::from_slice(body)
    }

    /// Makes the credential, with its body in `room`.
    ///
    /// # Errors
    /// When the machine name is too long.
    pub fn credential<'b>(&self, room: &'b mut [u8; BODY_MAX]) -> Result<Auth<'b>, EncodeError> {
        let mut writer = Writer::new(room);
        writer.value(self);
        let len = writer.finish()?;
        Ok(Auth { flavor: Flavor::SYS, body: &room[..len] })
    }
}

impl Xdr for AuthSys<'_> {
    const LAYOUT: Layout = Layout::variable(20);
}

impl Encode for AuthSys<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.stamp);
        writer.string(self.machine_name, MACHINE_NAME_MAX);
        writer.u32(self.uid);
        writer.u32(self.gid);
        writer.sequence(&self.gids, GIDS_MAX);
    }
}

impl<'a> Decode<'a> for AuthSys<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stamp: reader.u32()?,
            machine_name: reader.string(MACHINE_NAME_MAX)?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            gids: Groups::decode(reader)?,
        })
    }
}

/// Groups of a caller: at most [`GIDS_MAX`], without an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    gids: [u32; GIDS_MAX],
    count: u8,
}

impl Groups {
    /// The first [`GIDS_MAX`] of these groups: a credential has no room for more, and callers leave the rest out.
    pub fn first_of(gids: &[u32]) -> Self {
        let count = gids.len().min(GIDS_MAX);
        let mut groups = Self { count: count as u8, ..Self::default() };
        groups.gids[..count].copy_from_slice(&gids[..count]);
        groups
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let position = reader.position();
        let len = reader.u32()?;
        if len as usize > GIDS_MAX {
            return Err(DecodeError { position, fault: Fault::TooLong { len, max: GIDS_MAX } });
        }
        let mut groups = Self { count: len as u8, ..Self::default() };
        for gid in &mut groups.gids[..len as usize] {
            *gid = reader.u32()?;
        }
        Ok(groups)
    }
}

impl Deref for Groups {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.gids[..usize::from(self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthStatus, Identity};
    use alloc::vec::Vec;

    fn alice(gids: &[u32]) -> AuthSys<'static> {
        AuthSys { stamp: 9, machine_name: b"host.lab", uid: 1001, gid: 100, gids: Groups::first_of(gids) }
    }

    #[test]
    fn a_credential_is_read_as_it_was_made() {
        let mut room = [0; BODY_MAX];
        let credential = alice(&[1, 2, 3]).credential(&mut room).unwrap();
        assert_eq!(credential.flavor, Flavor::SYS);
        assert_eq!(Identity::of(credential), Ok(Identity::Sys(alice(&[1, 2, 3]))));
    }

    #[test]
    fn the_longest_credential_fits_in_its_room_and_a_longer_name_is_not_sent() {
        let mut room = [0; BODY_MAX];
        let gids: Vec<u32> = (0..30).collect();
        let name = [b'n'; 256];
        let longest = AuthSys { machine_name: &name[..255], ..alice(&gids) };
        assert_eq!(longest.credential(&mut room).unwrap().body.len(), 4 + 260 + 8 + 4 + 64);
        assert_eq!(longest.gids.len(), 16);
        assert!(AuthSys { machine_name: &name, ..alice(&[]) }.credential(&mut room).is_err());
    }

    #[test]
    fn a_body_of_the_wrong_length_is_a_bad_credential() {
        let mut room = [0; BODY_MAX];
        let body = alice(&[1, 2]).credential(&mut room).unwrap().body.to_vec();
        let refused =
            |body: &[u8]| Identity::of(Auth { flavor: Flavor::SYS, body }) == Err(AuthStatus::BAD_CREDENTIAL);
        assert!((0..body.len()).all(|len| refused(&body[..len])));
        assert!(refused(&[&body[..], &[0; 4]].concat()));
        // 17 groups, and a name of 256 bytes.
        let mut many = body.clone();
        many[27] = 17;
        many.extend([0; 60]);
        assert!(refused(&many));
        let mut long = [0; 300];
        long[6..8].copy_from_slice(&256_u16.to_be_bytes());
        assert!(refused(&long));
    }
}
