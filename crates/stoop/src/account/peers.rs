//! The time that a server's procedures have run for each caller.

use crate::context::{Caller, peer, served_call, serving_caller};
use crate::locked::locked;
use crate::thread_number::thread_number;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A server's figures of one caller.
///
/// ```
/// use stoop::account::{CallingPeer, ServerAccount};
///
/// /// The callers that have each taken more than a third of what all have.
/// fn heavy(account: &ServerAccount) -> impl Iterator<Item = &CallingPeer> {
///     let all: std::time::Duration = account.peers.iter().map(|peer| peer.ran).sum();
///     account.peers.iter().filter(move |peer| peer.ran > all / 3)
/// }
/// # assert_eq!(heavy(&ServerAccount::default()).count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct CallingPeer {
    /// The name of a caller on a sealed binding, the host's address of another, or the user and process of a caller on the same machine.
    /// `others`: all callers beyond a bound of 4096.
    pub peer: String,
    /// Its calls that have ended: an estimate from those that are timed.
    pub calls: u64,
    /// How long its procedures have run together; likewise. Calls with pipes, which mostly wait for items, do not count.
    pub ran: Duration,
}

/// Tables, among which threads are divided, so that they hardly ever wait for each other.
const TABLES: usize = 16;
/// Callers of a table; the others are counted together.
const PEERS_MAX: usize = 4096 / TABLES;

/// A caller: a name, a host, or a process of the same machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    Named(Arc<str>),
    Host(IpAddr),
    Station([u8; 16]),
    Process { uid: u32, pid: i32 },
    Others,
}

impl Peer {
    /// The caller of the call that this thread serves.
    #[inline]
    pub(crate) fn serving() -> Self {
        let caller = serving_caller();
        match caller {
            Caller::Network(_) | Caller::Station(_) => {
                let named = peer::Peer::of(&caller, served_call().id());
                named.map_or_else(|| Self::of(caller), |named| Self::Named(named.into_name()))
            }
            _ => Self::of(caller),
        }
    }

    fn of(caller: Caller) -> Self {
        match caller {
            Caller::Network(address) => Self::Host(address.ip().to_canonical()),
            Caller::Station(station) => Self::Station(station.host()),
            Caller::Process(of) => Self::Process { uid: of.uid, pid: of.pid },
            Caller::Local => Self::Others,
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Host(host) => write!(f, "{host}"),
            Self::Station(host) => {
                let [first, rest @ ..] = &host[..6] else { return f.write_str("a station") };
                write!(f, "{first:02x}")?;
                rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
            }
            Self::Process { uid, pid } => write!(f, "process {pid} of user {uid}"),
            Self::Others => f.write_str("others"),
        }
    }
}

/// Calls, and how long their procedures ran.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    ran_ns: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.ran_ns += other.ran_ns;
    }
}

/// The last caller of a table comes again, most often.
#[derive(Default)]
struct Table {
    last: Option<(Peer, Sum)>,
    all: HashMap<Peer, Sum>,
}

impl Table {
    #[inline]
    fn add(&mut self, peer: Peer, more: Sum) {
        match &mut self.last {
            Some((last, sum)) if *last == peer => sum.add(more),
            _ => self.change(peer, more),
        }
    }

    fn change(&mut self, peer: Peer, more: Sum) {
        if let Some((last, sum)) = self.last.replace((peer, more)) {
            let has_room = self.all.len() < PEERS_MAX || self.all.contains_key(&last);
            self.all.entry(if has_room { last } else { Peer::Others }).or_default().add(sum);
        }
    }
}

/// The sums of all callers.
#[derive(Default)]
pub(crate) struct PeerTimes([OnceLock<Box<Mutex<Table>>>; TABLES]);

impl PeerTimes {
    #[inline]
    pub(crate) fn add(&self, peer: Peer, calls: u64, ran_ns: u64) {
        let table = self.0[thread_number() % TABLES].get_or_init(Box::default);
        locked(table).add(peer, Sum { calls, ran_ns });
    }

    /// The sums so far; first the callers for which procedures have run longest.
    pub(crate) fn copy(&self) -> Vec<CallingPeer> {
        let mut sums: HashMap<Peer, Sum> = HashMap::new();
        for table in self.0.iter().filter_map(OnceLock::get) {
            let table = locked(table);
            let all = table.all.iter().map(|(peer, sum)| (peer.clone(), *sum)).chain(table.last.clone());
            all.for_each(|(peer, sum)| sums.entry(peer).or_default().add(sum));
        }
        let peer = |(peer, sum): (Peer, Sum)| CallingPeer {
            peer: peer.to_string(),
            calls: sum.calls,
            ran: Duration::from_nanos(sum.ran_ns),
        };
        let mut peers: Vec<_> = sums.into_iter().map(peer).collect();
        peers.sort_by(|one, other| other.ran.cmp(&one.ran).then_with(|| one.peer.cmp(&other.peer)));
        peers
    }
}

#[cfg(test)]
mod tests {
    use crate::account::peers::*;
    use crate::context::Credentials;
    use std::net::{Ipv4Addr, SocketAddr};

    fn host(number: u32, port: u16) -> Peer {
        Peer::of(Caller::Network(SocketAddr::from((Ipv4Addr::from(number), port))))
    }

    #[test]
    fn the_calls_of_a_host_are_one_sum_whatever_their_ports() {
        let times = PeerTimes::default();
        for port in 1..=4 {
            times.add(host(0x0a00_0001, port), 1, 10);
            times.add(Peer::of(Caller::Process(Credentials { uid: 7, gid: 7, pid: 9 })), 64, 6400);
        }
        let found: Vec<_> = times.copy().into_iter().map(|peer| (peer.peer, peer.calls)).collect();
        assert_eq!(found, [("process 9 of user 7".to_owned(), 256), ("10.0.0.1".to_owned(), 4)]);
    }

    #[test]
    fn callers_beyond_the_bound_are_counted_together() {
        let times = PeerTimes::default();
        for number in 0..3 * PEERS_MAX as u32 {
            times.add(host(number, 1), 1, 1);
        }
        let found = times.copy();
        assert!(found.len() <= PEERS_MAX + 2, "{}", found.len());
        assert_eq!(found.iter().map(|peer| peer.calls).sum::<u64>(), 3 * PEERS_MAX as u64);
        assert!(found.iter().any(|peer| peer.peer == "others"));
    }
}
