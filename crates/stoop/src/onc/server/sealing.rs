//! Connections of an address that requires TLS (RFC 9289), up to their first call.
//!
//! In the clear a connection is asked one question, whether the server goes on under TLS; all calls are refused (AUTH_TOOWEAK). Then the
//! [thread](HandshakeThread) of the address makes the handshake. No worker waits for a caller, and a connection that is not under TLS after
//! [`SEALED_WITHIN`] is closed.

use crate::context::peer::Peer;
use crate::later::lent::Lent;
use crate::onc::server::NO_REASON;
use crate::onc::server::connection::{Connection, Incoming, Read};
use crate::onc::server::stage::{SealedCaller, Stage};
use crate::onc::server::streams::{StreamCall, StreamEndpoint};
use crate::security::Security;
use crate::security::session::{HELD_MAX, Session};
use crate::security::tls::{Acceptor, Purpose, ServerHandshake};
use crate::serving::handshake_thread::{Authenticates, HandshakeThread, Step};
use crate::serving::identity;
use crate::serving::workers::WorkerPool;
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop_net::poller::{Interest, Poller};
use stoop_net::stream::StreamArrival;
use stoop_net::{clock, host};
use stoop_onc::auth::AuthStatus;
use stoop_onc::message::{self, Call, Denied, Reply};
use stoop_onc::record::{self, RecordLimits, Records};
use stoop_onc::tls;
use stoop_wire::{BindingId, RefusalCode};

/// Time for a caller to put its connection under TLS.
pub(super) const SEALED_WITHIN: Duration = Duration::from_secs(10);

/// What an address that requires TLS has for handshakes.
pub(crate) struct Sealing {
    acceptor: Acceptor,
    thread: HandshakeThread<StreamCall>,
    pub(super) pool: OnceLock<Lent<WorkerPool<StreamEndpoint>>>,
}

impl Sealing {
    /// `None`: the address does not require TLS.
    pub(crate) fn new(security: &Security) -> Option<Self> {
        let acceptor = security.keys().and_then(|keys| Acceptor::new(keys, Purpose::SUN_RPC))?;
        Some(Self { acceptor, thread: HandshakeThread::new(), pool: OnceLock::new() })
    }
}

impl Connection {
    /// Takes bytes of a caller whose connection is not under TLS.
    #[cold]
    pub(super) fn read_before_calls(&self, incoming: &mut Incoming, bytes: &[u8]) -> Read {
        match &mut incoming.stage {
            Stage::Handshake(begun) => {
                incoming.stage = Stage::AtWork(begun.take());
                Read::Handshake(bytes.to_vec())
            }
            _ => self.read_in_clear(incoming, bytes),
        }
    }

    fn read_in_clear(&self, incoming: &mut Incoming, mut bytes: &[u8]) -> Read {
        let mut refused = 0;
        loop {
            let record = match incoming.records.next(&mut bytes) {
                Ok(Some([])) => continue,
                Ok(Some(record)) => record,
                Ok(None) => return Read::Refused(refused),
                Err(_) => return Read::Ended { is_broken: true },
            };
            let answer = match Call::parse(record) {
                Ok((call, _)) => match tls::is_probe(&call) {
                    Ok(true) => tls::offer(call.xid),
                    Ok(false) => denied(&call, AuthStatus::TOO_WEAK),
                    Err(status) => denied(&call, status),
                },
                Err(bad) => match bad.reply() {
                    Some(reply) => reply,
                    None => return Read::Ended { is_broken: true },
                },
            };
            if !self.answer_in_clear(&answer) {
                return Read::Ended { is_broken: false };
            }
            if answer != tls::offer(answer.xid) {
                refused += 1;
                continue;
            }
            // An honest caller waits for the answer. Others would have bytes in the clear taken for bytes of the session.
            if !bytes.is_empty() {
                return Read::Ended { is_broken: true };
            }
            incoming.stage = Stage::Handshake(None);
            return Read::Refused(refused);
        }
    }

    /// Sends a short record. `false`: the caller does not take it.
    fn answer_in_clear(&self, reply: &Reply<'_>) -> bool {
        let mut record = vec![0; 4];
        message::append(reply, &(), &mut record).expect("a refusal has a form");
        let mark = record::mark(record.len() - 4).expect("a refusal is short");
        record[..4].copy_from_slice(&mark);
        self.send_whole(&record)
    }

    /// Sends bytes that there is space for. `false`: the caller does not take them.
    fn send_whole(&self, bytes: &[u8]) -> bool {
        bytes.is_empty()
            || matches!(self.channel.stream().try_send(&[IoSlice::new(bytes)]), Ok(sent) if sent == bytes.len())
    }

    /// Whether its caller has had enough time to put it under TLS, and has not.
    pub(super) fn is_late(&self, now_ns: u64) -> bool {
        self.awaits_tls() && now_ns.saturating_sub(self.begun_ns) > SEALED_WITHIN.as_nanos() as u64
    }

    /// Puts the connection under TLS, and takes the `clear` bytes that came with the end of the handshake.
    fn seal(
        &self,
        (session, caller): (Session, SealedCaller),
        limits: RecordLimits,
        clear: &[u8],
        with: impl FnMut(&[u8]),
    ) -> Read {
        let mut incoming = self.incoming();
        self.channel.seal(session);
        let _ = self.sealed.set(caller);
        incoming.records = Records::new(limits);
        incoming.stage = Stage::Open;
        self.take(&mut incoming, clear, clock::now_ns(), with)
    }

    /// Goes on reading.
    fn read_again(&self, poller: &Poller) -> io::Result<()> {
        let mut outgoing = self.outgoing();
        self.watch(&mut outgoing, poller)
    }
}

fn denied(call: &Call<'_>, status: AuthStatus) -> Reply<'static> {
    Reply::denied(call.xid, Denied::Auth(status))
}

impl StreamEndpoint {
    /// Counts calls that were refused in the clear.
    #[cold]
    pub(super) fn count_refused(&self, calls: u32) {
        (0..calls).for_each(|_| self.activity.refused.count(RefusalCode::Denied));
    }

    /// Leaves bytes of a handshake to the thread. A connection for whose handshake there is no time is closed: Sun RPC has no word for it.
    #[cold]
    pub(super) fn leave_to_thread(&self, connection: &Arc<Connection>, bytes: Vec<u8>) {
        let sealing = self.sealing.as_ref().expect("its address requires TLS");
        let poller = &self.connections.acceptor.poller;
        // An end of the connection is told without being asked for: once, so that no worker spins until the thread has taken the bytes.
        let _ = poller.modify(&connection.channel, connection.token, Interest::NONE.once());
        let call = StreamCall { connection: Arc::clone(connection), message: bytes };
        let pool = || sealing.pool.get().cloned().unwrap_or_default();
        if !self.activity.begin_call() || sealing.thread.enqueue((call, Step::Begin), pool).is_some() {
            self.activity.end_call();
            self.activity.refused.count(NO_REASON);
            self.connections.close(connection);
        }
    }

    /// Goes on with a handshake. `None`: the connection is to be closed.
    fn shake_hands(&self, connection: &Arc<Connection>, mut bytes: &[u8]) -> Option<()> {
        let sealing = self.sealing.as_ref()?;
        let begun = match &mut connection.incoming().stage {
            Stage::AtWork(begun) => begun.take(),
            _ => return None,
        };
        let mut handshake = begun.unwrap_or_else(|| Box::new(sealing.acceptor.begin()));
        let goes_on = handshake.input_to_end(&mut bytes);
        // Of a handshake that has failed the caller learns why.
        let is_sent = connection.send_whole(&handshake.output());
        if !goes_on {
            self.activity.malformed.fetch_add(1, Ordering::Relaxed);
        }
        if !goes_on || !is_sent {
            return None;
        }
        match handshake.is_going_on() {
            true => connection.incoming().stage = Stage::Handshake(Some(handshake)),
            false => self.open(connection, *handshake, bytes)?,
        }
        connection.read_again(&self.connections.acceptor.poller).ok()
    }

    /// Puts a connection under TLS; `bytes`: records of the session that came with the end of the handshake.
    fn open(&self, connection: &Arc<Connection>, handshake: ServerHandshake, bytes: &[u8]) -> Option<()> {
        let sealing = self.sealing.as_ref()?;
        let number = u64::from_ne_bytes(host::random_bytes()) & !BindingId::CHECKSUM | BindingId::SEALED;
        let (key, binding) = (handshake.caller(), BindingId(number));
        let peer = identity::peer(&sealing.acceptor.keys, &handshake);
        let session = handshake.into_session();
        let mut buffer = vec![0; HELD_MAX + bytes.len()];
        buffer[HELD_MAX..].copy_from_slice(bytes);
        let clear = match session.open(connection.channel.stream(), &mut buffer, bytes.len()) {
            Ok(StreamArrival::Bytes(len)) => &buffer[..len],
            Ok(StreamArrival::Nothing) => &[],
            Ok(StreamArrival::Closed) | Err(_) => return None,
        };
        if let Some(peer) = peer {
            if !self.connections.count_by_name(connection, peer.owner()) {
                return None;
            }
            peer.enter(binding);
        }
        let (caller, limits) = (SealedCaller { key, binding }, self.connections.record_limits());
        let mut has_room = true;
        let read = connection.seal((session, caller), limits, clear, |record| {
            let mut found = Default::default();
            has_room &= self.find(connection, record, &mut Vec::new(), &mut found);
            self.leave(&mut found);
        });
        // Closed by another thread that did not know the caller yet.
        if connection.is_closed() {
            Peer::leave(binding);
        }
        (has_room && matches!(read, Read::Some)).then_some(())
    }

    /// Closes the connections whose callers are not served any more.
    #[cold]
    pub(super) fn look_at_callers(&self) {
        let Some(sealing) = &self.sealing else { return };
        let serves = identity::served(&sealing.acceptor.keys);
        for connection in self.connections.all() {
            if connection.sealed.get().is_some_and(|caller| !serves(caller.key)) {
                self.connections.close(&connection);
            }
        }
    }
}

impl Authenticates for StreamEndpoint {
    fn answer_handshake(&self, call: StreamCall) -> Option<StreamCall> {
        let StreamCall { connection, message } = call;
        if self.shake_hands(&connection, &message).is_none() {
            self.connections.close(&connection);
        }
        self.activity.end_call();
        None
    }
}
