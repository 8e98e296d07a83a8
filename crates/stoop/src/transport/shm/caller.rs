//! Calls through memory that is shared with a server on this machine.
//!
//! A call is one line of a ring, its answer another line. The calling thread waits for that line: it spins while the server can run
//! at the same time, and sleeps otherwise.

pub(crate) mod connect;
pub(crate) mod death_watch;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod published;
pub(crate) mod result_wait;
pub(crate) mod session;

use crate::calling::handshake::NotBound;
use crate::error::{BindError, InPlaceError};
use crate::transport::contract::Target;
use crate::transport::remote::{Connected, Plan, Remote, RemoteBinding, Replaced, next_generation};
use crate::transport::shm::address::socket_address;
use crate::transport::shm::caller::connect::connect;
use crate::transport::shm::caller::lane::ShmLane;
use crate::transport::shm::caller::session::Session;
use crate::transport::shm::options::ShmOptions;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_net::clock;
use stoop_net::stream::{Credentials, StreamAddress};
use stoop_shm::{InPlace, Number};

/// Sessions on which memory for a buffer is asked for, each after the one before it was lost.
const SESSIONS_MAX: u32 = 3;

/// `shm:`
pub(crate) struct ShmTransport;

/// A binding over shared memory.
pub(crate) type ShmBinding = RemoteBinding<ShmTransport>;

impl Remote for ShmTransport {
    type Address = StreamAddress;
    type Options = ShmOptions;
    type Session = Session;
    type Lane = ShmLane;

    const CHECKSUMS: &'static str = "; no checksums, because nothing lies between the two ends";

    fn resolve(target: &Target<'_>, _: Instant) -> io::Result<Vec<StreamAddress>> {
        Ok(vec![socket_address(target.address)])
    }

    fn connect(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        replaced: Option<Replaced<'_, Session>>,
    ) -> Result<Connected<Self>, NotBound> {
        let session = Arc::new(connect(plan, deadline, next_generation(replaced.as_ref()))?);
        let unreachable = |cause| BindError::Unreachable { server: plan.uri.into(), cause };
        death_watch::add(&session).map_err(unreachable)?;
        Ok((session, None))
    }

    fn describe(plan: &Plan<'_, Self>, session: &Session) -> String {
        let server = match session.server {
            Some(Credentials { pid: Some(pid), uid, .. }) => format!("process {pid} of user {uid}"),
            Some(Credentials { uid, .. }) => {
                format!("a process of user {uid} (in a process namespace that is not seen here)")
            }
            None => "a server".into(),
        };
        format!(
            "shared memory with {server}, {}; at most {} bytes of arguments or result; waiting {:?}, \
             and both ends {} run at the same time",
            plan.options.reason,
            plan.options.max_message,
            plan.options.waiting,
            if session.placement.together { "can" } else { "cannot" },
        )
    }

    fn bound(session: &Session) -> &Bound {
        &session.bound
    }

    fn describe_buffers(session: &Session) -> String {
        match &session.arena {
            Some(arena) => {
                let (len, free) = (arena.len(), arena.free());
                format!("; buffers lie in memory of both, {len} bytes, of which {free} are free")
            }
            None => {
                "; buffers are copied, because the server gives no memory for them (`ShmOptions::in_place`)"
                    .into()
            }
        }
    }

    fn note_closing(session: &Session) {
        session.note_closing();
    }

    fn close(session: &Session) {
        session.close();
    }

    fn incarnation(session: &Session) -> u64 {
        session.bound.incarnation
    }

    fn in_place<T: Number>(binding: &ShmBinding, len: usize) -> Result<InPlace<T>, InPlaceError> {
        for _ in 0..SESSIONS_MAX {
            let mut session = binding.present();
            if session.is_lost() {
                let deadline = Instant::from_nanos(clock::now_ns()) + binding.options.bind_timeout;
                let bound = binding.rebind(&session, None, deadline);
                session = bound.map_err(|why| InPlaceError::Unbound(Box::new(why)))?;
            }
            let Some(arena) = &session.arena else { return Ok(InPlace::private(len)) };
            session.release_withheld();
            let allocated = arena.allocate(len);
            // Asked afterwards: the calls of a session that is lost have given back memory that their procedures may still use.
            if !session.is_lost() {
                return allocated.map_err(InPlaceError::Full);
            }
        }
        let cause = io::ErrorKind::ConnectionReset.into();
        Err(InPlaceError::Unbound(Box::new(BindError::Unreachable { server: binding.uri.clone(), cause })))
    }
}
