//! A session together with the address of its server, and how one is made.

use crate::calling::handshake::{self, NotBound};
use crate::calling::sessions::Generation;
use crate::error::BindError;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::remote::{Plan, Remote, Replaced};
use crate::users::Users;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_net::stream::StreamAddress;

/// A session, and the address at which its server is.
pub(crate) struct Located<R: Remote> {
    pub(crate) session: Arc<R::Session>,
    pub(crate) address: R::Address,
}

impl<R: Remote> Generation for Located<R> {
    fn generation(&self) -> u64 {
        self.session.generation()
    }

    fn has_forms(&self) -> bool {
        R::bound(&self.session).forms.is_some()
    }
}

/// A plan but for the address.
pub(crate) struct Terms<'a, R: Remote> {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: &'a str,
    pub(crate) options: &'a BindOptions,
    pub(crate) own: &'a R::Options,
}

impl<'a, R: Remote> Terms<'a, R> {
    /// The plan for a server at `address`.
    pub(crate) fn at(&self, address: &'a R::Address) -> Plan<'a, R> {
        let &Self { interface, uri, options, own } = self;
        Plan { interface, uri, address, options, own }
    }
}

impl<R: Remote<Address = StreamAddress>> Plan<'_, R> {
    /// The plan of the handshake on a connection to a server of `trusted` users.
    pub(crate) fn handshake<'b>(&'b self, trusted: &'b Users) -> handshake::Plan<'b> {
        let &Self { interface, uri, address, .. } = self;
        handshake::Plan { interface, uri, address, trusted }
    }
}

/// Binds to the first of the addresses at which a server listens. Each address but the last gets its share of the time that is left,
/// so that one from which nothing is heard does not use up all of it.
pub(crate) fn connect_to_any<R: Remote>(
    terms: &Terms<'_, R>,
    addresses: Vec<R::Address>,
    deadline: Instant,
    replaced: Option<Replaced<'_, R::Session>>,
) -> Result<(Located<R>, Option<R::Lane>), NotBound> {
    let (mut last, count) = (None, addresses.len() as u32);
    for (address, left) in addresses.into_iter().zip((1..=count).rev()) {
        let now = Instant::from_nanos(clock::now_ns());
        let until = if left == 1 { deadline } else { now + deadline.since(now) / left };
        match R::connect(&terms.at(&address), until, replaced) {
            Ok((session, lane)) => return Ok((Located { session, address }, lane)),
            // A name may stand for addresses at which no server listens: ::1 before 127.0.0.1.
            Err(not_bound) if is_about_address(&not_bound.error) => last = Some(not_bound),
            Err(not_bound) => return Err(not_bound),
        }
    }
    Err(last.expect("a name that is resolved has an address"))
}

/// Whether another address of the server may do.
fn is_about_address(error: &BindError) -> bool {
    matches!(error, BindError::Unreachable { .. } | BindError::NoAnswer { .. }) || error.is_shutting_down()
}
