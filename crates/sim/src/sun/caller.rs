//! A caller process with its socket: several calls in flight, as `stoop::onc` makes them.

use super::SunSabotage;
use super::ledger::{CallId, Told};
use super::server::{FAILS, IDEMPOTENT, KEPT, PROGRAM};
use crate::Random;
use crate::network::Address;
use core::time::Duration;
use stoop_onc::auth::Auth;
use stoop_onc::calls::{Calls, Timeout};
use stoop_onc::message::{self, Call, ProcedureId, Reply};
use stoop_onc::outcome::Ending;
use stoop_onc::{Instant, Retransmission, Xid, Xids};

/// From the start of its process to its end.
pub(super) struct Caller {
    pub(super) address: Address,
    calls: Calls<Outgoing>,
    retransmission: Retransmission,
    /// All earlier calls on this socket were sent once and answered, so that an error of the socket belongs to a present one.
    is_clean: bool,
    /// The network has repeated a datagram of this socket.
    pub(super) is_repeated: bool,
    pub(super) left: u32,
    sabotage: SunSabotage,
}

struct Outgoing {
    id: CallId,
    message: Vec<u8>,
}

/// A call that has ended.
pub(super) struct Ended {
    pub(super) id: CallId,
    pub(super) told: Told,
    pub(super) case: &'static str,
    /// The network had repeated a datagram of the socket.
    pub(super) is_repeated: bool,
}

/// The action of a timer.
pub(super) enum Due {
    Sends(CallId, Vec<u8>),
    Ends(Ended),
}

impl Caller {
    pub(super) fn new(
        address: Address,
        retransmission: Retransmission,
        left: u32,
        sabotage: SunSabotage,
        random: &mut Random,
    ) -> Self {
        let calls = Calls::new(retransmission, xids(random));
        Self { address, calls, retransmission, is_clean: true, is_repeated: false, left, sabotage }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.calls.next_timeout()
    }

    /// Begins a call. Returns its datagram, and whether its procedure is idempotent.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        deadline: Duration,
        id: CallId,
        random: &mut Random,
    ) -> (Vec<u8>, bool) {
        let procedure = random.pick(&[KEPT, KEPT, KEPT, IDEMPOTENT, FAILS]);
        let (_, call) = self.calls.begin(now, now + deadline, |xid| {
            let procedure = ProcedureId { program: PROGRAM, version: 1, procedure };
            let header = Call { xid, procedure, credential: Auth::NONE, verifier: Auth::NONE };
            let mut message = Vec::new();
            message::append(&header, &id, &mut message).expect("it has a form");
            Outgoing { id, message }
        });
        (call.message.clone(), procedure == IDEMPOTENT)
    }

    /// A datagram arrives.
    pub(super) fn receive(&mut self, now: Instant, datagram: &[u8]) -> Option<Ended> {
        let (reply, mut results) = Reply::parse(datagram).expect("servers send replies");
        let xid = self.matching(reply.xid)?;
        let completed = self.calls.complete(now, xid)?;
        let (id, sent) = (completed.data.id, completed.transmissions);
        // Another transmission may be under way, and meet a closed port.
        self.is_clean &= sent == 1 || self.sabotage == SunSabotage::TrustsOldSockets;
        let (told, case) = match Ending::of(&reply.body) {
            None => {
                let of: CallId = results.value().expect("results are numbers");
                (Told::Result(of), if sent > 1 { "result after several transmissions" } else { "result" })
            }
            Some(ending) if ending.did_not_run(sent) => (Told::DidNotRun, "did not run: refused"),
            Some(Ending::Refused) if self.sabotage == SunSabotage::RefusalIsNo => {
                (Told::DidNotRun, "did not run: refused")
            }
            Some(Ending::Refused) => (Told::Perhaps, "perhaps: refused after several transmissions"),
            Some(_) => (Told::Perhaps, "result"),
        };
        Some(Ended { id, told, case, is_repeated: false })
    }

    /// The xid of the call that a reply with this one is taken for.
    fn matching(&mut self, xid: Xid) -> Option<Xid> {
        match self.sabotage {
            SunSabotage::IgnoresXids => {
                self.calls.iter().min_by_key(|(_, call, _)| call.id).map(|(xid, ..)| xid)
            }
            _ => Some(xid),
        }
    }

    /// The server's machine says that the port is closed: the calls end, and the next has another socket.
    pub(super) fn refused(&mut self, port: u16, random: &mut Random) -> Vec<Ended> {
        let transmissions: Vec<_> = self.calls.iter().map(|(_, _, transmissions)| transmissions).collect();
        let is_known = self.is_clean && transmissions.len() == 1;
        let did_not_run = is_known && Ending::PortClosed.did_not_run(transmissions[0]);
        let (told, case) = match did_not_run {
            true => (Told::DidNotRun, "did not run: port closed"),
            false => (Told::Perhaps, "perhaps: port closed"),
        };
        let is_repeated = self.is_repeated;
        let ended =
            self.calls.drain().map(|(_, call)| Ended { id: call.id, told, case, is_repeated }).collect();
        self.bind(port, random);
        ended
    }

    fn bind(&mut self, port: u16, random: &mut Random) {
        self.address.port = port;
        self.calls = Calls::new(self.retransmission, xids(random));
        (self.is_clean, self.is_repeated) = (true, false);
    }

    /// The action that is due now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        Some(match self.calls.handle_timeout(now)? {
            Timeout::Retransmit { data, .. } => Due::Sends(data.id, data.message.clone()),
            Timeout::Expired { data, .. } => {
                self.is_clean = false;
                let told = match self.sabotage {
                    SunSabotage::SilenceIsNo => Told::DidNotRun,
                    _ => Told::Perhaps,
                };
                Due::Ends(Ended { id: data.id, told, case: "perhaps: deadline passed", is_repeated: false })
            }
        })
    }

    /// The process ends and begins again: the calls that it forgets. The port is the same, and the xids are others.
    pub(super) fn restart(&mut self, random: &mut Random) -> Vec<CallId> {
        let forgotten = self.calls.drain().map(|(_, call)| call.id).collect();
        let port = self.address.port;
        self.bind(port, random);
        // Datagrams of the process before may still be answered with an error at this port.
        self.is_clean = false;
        forgotten
    }
}

fn xids(random: &mut Random) -> Xids {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random.bits().to_le_bytes());
    Xids::new(key)
}
