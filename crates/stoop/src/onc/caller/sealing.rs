//! How a client puts a connection under TLS before its first call (RFC 9289).

use crate::calling::trust::{Trust, not_secure};
use crate::error::BindError;
use crate::onc::address::{Address, Transport};
use crate::onc::caller::not_connected::NotConnected;
use crate::onc::channel::Channel;
use crate::program::VersionId;
use crate::security::Security;
use crate::security::keys::{PublicKey, in_words};
use crate::security::session::Session;
use crate::security::tls::{CallerHandshake, Purpose};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop_net::stream::{Stream, StreamArrival};
use stoop_net::{clock, host};
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Call, Denied, ProcedureId, Reply, ReplyBody};
use stoop_onc::record::{self, RecordLimits, Records};
use stoop_onc::{Xid, tls};
use stoop_xdr::Encode;

/// Bytes of a reply before the first call.
const REPLY_MAX: usize = 4 << 10;

/// The connections of a client that are under TLS.
pub(crate) struct Sealing {
    trust: Trust,
    version: VersionId,
    /// The server of the last connection, and the cipher suite.
    last: OnceLock<(Option<PublicKey>, String)>,
}

/// In words, for the description of a binding.
impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last.get() {
            Some((server, suite)) => write!(f, "sealed by TLS ({suite}), with {}", in_words(*server)),
            None => f.write_str("not bound yet; the connection will be sealed by TLS"),
        }
    }
}

impl Sealing {
    /// What a client of that address needs; `None`: neither the address nor its security says that it is under TLS.
    ///
    /// # Errors
    /// The transport has no TLS here, or the key in the address is none.
    pub(crate) fn of(address: &Address, security: &Security) -> Result<Option<Arc<Self>>, BindError> {
        let host = address.host.trim_matches(['[', ']']);
        let trust = Trust::new(&address.to_string(), (address.key.as_deref(), host), security.clone())?;
        let Some(trust) = trust else { return Ok(None) };
        if address.transport != Transport::Tcp {
            return Err(not_secure(
                &trust.uri,
                "cannot be sealed: Sun RPC is sealed over TCP, at onc+tcp://",
            ));
        }
        Ok(Some(Arc::new(Self { trust, version: address.version, last: OnceLock::new() })))
    }

    /// Puts a new connection under TLS by that time. The server has answered a call in the session then: with TLS 1.3 that is how the client
    /// learns that the server takes it.
    ///
    /// # Errors
    /// The server has no TLS, one of the two ends does not take the other, or the connection is lost.
    pub(super) fn seal(&self, stream: Stream, limit: Duration) -> Result<Channel, NotConnected> {
        let deadline_ns = clock::now_ns().saturating_add(limit.as_nanos() as u64);
        let channel = Channel::new(stream);
        let opening = Opening { sealing: self, channel: &channel, deadline_ns };
        opening.ask()?;
        let handshake = opening.shake_hands()?;
        let server = handshake.server();
        let session: Session = handshake.into_session();
        let _ = self.last.set((server, session.suite()));
        channel.seal(session);
        Ok(channel)
    }

    fn error(&self, why: impl Into<String>) -> NotConnected {
        NotConnected::Bind(not_secure(&self.trust.uri, why))
    }

    /// The server's word, or that of a machine on the way, that it has no TLS.
    fn has_no_tls(&self, says: &str) -> NotConnected {
        self.error(format!(
            "does not go on under TLS ({says}), or a machine on the way has changed its answer. No call was sent to it. Have its \
             administrator switch TLS on; only if everyone on the way may read and forge calls, leave Security out"
        ))
    }
}

/// A connection without calls.
struct Opening<'a> {
    sealing: &'a Sealing,
    channel: &'a Channel,
    deadline_ns: u64,
}

impl Opening<'_> {
    fn send(&self, bytes: &[u8]) -> Result<(), NotConnected> {
        match self.channel.send_until(bytes, self.deadline_ns)? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(NotConnected::Io(io::ErrorKind::TimedOut.into())),
        }
    }

    /// The next bytes. `while_doing`: what the server does that ends the connection in place of sending some.
    fn receive(&self, while_doing: &str) -> Result<Vec<u8>, NotConnected> {
        let mut buffer = vec![0; REPLY_MAX];
        loop {
            let left_ns = self.deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                let why = format!("it does not answer {while_doing}");
                return Err(NotConnected::Io(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
            match self.channel.recv_about(&mut buffer, left_ns, left_ns) {
                Ok(StreamArrival::Bytes(len)) => {
                    buffer.truncate(len);
                    return Ok(buffer);
                }
                Ok(StreamArrival::Nothing) => {}
                Ok(StreamArrival::Closed) | Err(_) => {
                    let why = format!("ends the connection {while_doing}, without saying why");
                    return Err(self.sealing.error(why));
                }
            }
        }
    }

    /// Asks whether the server goes on under TLS.
    fn ask(&self) -> Result<(), NotConnected> {
        let VersionId { program, version } = self.sealing.version;
        let xid = Xid(u32::from_ne_bytes(host::random_bytes()));
        self.send(&record_of(&tls::probe(xid, program, version)))?;
        let mut records = records();
        loop {
            let received = self.receive("when it is asked for TLS")?;
            let mut bytes = &received[..];
            match records.next(&mut bytes) {
                Ok(None) => {}
                // Bytes behind the answer would be in the clear, and those of somebody else.
                Ok(Some(reply)) if bytes.is_empty() => return self.take_answer(xid, reply),
                _ => return Err(self.sealing.has_no_tls("its answer is none to the question")),
            }
        }
    }

    fn take_answer(&self, xid: Xid, reply: &[u8]) -> Result<(), NotConnected> {
        let no = |says: &str| Err(self.sealing.has_no_tls(says));
        match Reply::parse(reply) {
            Ok((reply, _)) if reply == tls::offer(xid) => Ok(()),
            Ok((Reply { xid: other, .. }, _)) if other != xid => no("its answer is none to the question"),
            Ok((Reply { body: ReplyBody::Denied(Denied::Auth(status)), .. }, _)) => no(&status.to_string()),
            Ok((Reply { body: ReplyBody::Denied(denied), .. }, _)) => no(&denied.to_string()),
            Ok((Reply { body: ReplyBody::Accepted { status, .. }, .. }, _)) => {
                no(&format!("it does not offer TLS: {status}"))
            }
            Err(_) => no("its answer is none to the question"),
        }
    }

    /// Makes the handshake, and a call of procedure 0.
    fn shake_hands(&self) -> Result<CallerHandshake, NotConnected> {
        let trust = &self.sealing.trust;
        let mut handshake = trust.begin(Purpose::SUN_RPC).map_err(NotConnected::Bind)?;
        while handshake.is_going_on() {
            self.send(&handshake.output())?;
            let bytes = self.receive("in the handshake of TLS")?;
            self.input(&mut handshake, &bytes)?;
        }
        let VersionId { program, version } = self.sealing.version;
        let procedure = ProcedureId { program, version, procedure: 0 };
        let xid = Xid(u32::from_ne_bytes(host::random_bytes()));
        handshake.write(&record_of(&Call { xid, procedure, credential: Auth::NONE, verifier: Auth::NONE }));
        // An alert may be there although the server does not read any more.
        let _ = self.send(&handshake.output());
        let mut records = records();
        loop {
            let clear = handshake.read();
            let mut bytes = &clear[..];
            match records.next(&mut bytes) {
                // Whatever it says: the server has read the call, and so it takes the client.
                Ok(Some(reply)) if Xid::of(reply) == Some(xid) && bytes.is_empty() => return Ok(handshake),
                Ok(None) => {}
                _ => return Err(self.sealing.error("answers a call that was not made")),
            }
            let bytes = self.receive("when it has seen who calls")?;
            self.input(&mut handshake, &bytes)?;
        }
    }

    fn input(&self, handshake: &mut CallerHandshake, bytes: &[u8]) -> Result<(), NotConnected> {
        let taken = handshake.input(bytes);
        taken.map_err(|failed| {
            // The server learns why, if it still reads.
            let _ = self.send(&handshake.output());
            NotConnected::Bind(self.sealing.trust.failed(failed))
        })
    }
}

fn records() -> Records {
    Records::new(RecordLimits { record_max: REPLY_MAX, ..RecordLimits::default() })
}

/// A message without arguments as a record.
fn record_of(header: &impl Encode) -> Vec<u8> {
    let mut record = vec![0; 4];
    message::append(header, &(), &mut record).expect("a header has a form");
    let mark = record::mark(record.len() - 4).expect("a header is short");
    record[..4].copy_from_slice(&mark);
    record
}
