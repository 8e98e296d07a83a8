//! A caller and a server with a reply cache, over a network that loses, repeats and reorders datagrams.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::time::Duration;
use stoop_exchange::shares::Owner;
use stoop_onc::auth::Auth;
use stoop_onc::calls::{Calls, Timeout};
use stoop_onc::message::{self, Call, ProcedureId, Reply};
use stoop_onc::reply_cache::{Admission, CallKey, ReplyCache, ReplyCacheLimits};
use stoop_onc::{Instant, Retransmission, Xid, Xids};

const PROCEDURE: ProcedureId = ProcedureId { program: 7, version: 1, procedure: 1 };

struct World {
    now: Instant,
    /// The data of a call is its message.
    calls: Calls<Vec<u8>>,
    cache: ReplyCache<u8>,
    to_server: Vec<Vec<u8>>,
    to_caller: Vec<Vec<u8>>,
    /// How often the call with this xid ran.
    runs: HashMap<Xid, u32>,
    /// Calls that ended with a reply, with the number in it.
    completed: Vec<(Xid, u32)>,
    begun: usize,
    expired: usize,
}

impl World {
    fn new(entries_max: usize) -> Self {
        let limits = ReplyCacheLimits { entries_max, bytes_max: 1 << 20, age_max: Duration::from_secs(1000) };
        World {
            now: Instant::from_nanos(0),
            calls: Calls::new(Retransmission::Every(Duration::from_secs(2)), Xids::new([3; 16])),
            cache: ReplyCache::new(limits),
            to_server: Vec::new(),
            to_caller: Vec::new(),
            runs: HashMap::new(),
            completed: Vec::new(),
            begun: 0,
            expired: 0,
        }
    }

    fn begin(&mut self) {
        let deadline = self.now + Duration::from_secs(15);
        let (_, message) = self.calls.begin(self.now, deadline, |xid| {
            let call = Call { xid, procedure: PROCEDURE, credential: Auth::NONE, verifier: Auth::NONE };
            let mut bytes = Vec::new();
            message::append(&call, &(), &mut bytes).expect("it has a form");
            bytes
        });
        self.to_server.push(message.clone());
        self.begun += 1;
    }

    /// A datagram arrives at the server.
    fn serve(&mut self, message: &[u8]) {
        let (call, _) = Call::parse(message).expect("it is a call");
        let key = CallKey { peer: 1, xid: call.xid, procedure: call.procedure };
        match self.cache.admit(self.now, &key, Owner::host([1; 16]), message) {
            Admission::Run => {
                let runs = self.runs.entry(call.xid).or_default();
                *runs += 1;
                let mut reply = Vec::new();
                message::append(&Reply::success(call.xid), runs, &mut reply).expect("it has a form");
                self.cache.complete(self.now, &key, Some(&reply));
                self.to_caller.push(reply);
            }
            Admission::Replay(reply) => self.to_caller.push(reply.to_vec()),
            Admission::Ignore | Admission::NoRoom | Admission::ReplyLost => {}
        }
    }

    /// A datagram arrives at the caller.
    fn receive(&mut self, message: &[u8]) {
        let (reply, mut results) = Reply::parse(message).expect("it is a reply");
        if self.calls.complete(self.now, reply.xid).is_some() {
            let number = results.value().expect("a number follows");
            self.completed.push((reply.xid, number));
        }
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        while let Some(timeout) = self.calls.handle_timeout(self.now) {
            match timeout {
                Timeout::Retransmit { data, .. } => self.to_server.push(data.clone()),
                Timeout::Expired { .. } => self.expired += 1,
            }
        }
    }

    /// Decides the fate of one of the datagrams under way: it arrives, arrives and stays, or is lost.
    fn step(&mut self, kind: u8, at: usize) {
        let is_call = kind.is_multiple_of(2);
        let queue = if is_call { &mut self.to_server } else { &mut self.to_caller };
        if queue.is_empty() {
            return;
        }
        let at = at % queue.len();
        let message = if kind / 2 == 1 { queue[at].clone() } else { queue.swap_remove(at) };
        match (kind / 2, is_call) {
            (0 | 1, true) => self.serve(&message),
            (0 | 1, false) => self.receive(&message),
            _ => {}
        }
    }

    /// The datagrams under way arrive, and calls end.
    fn settle(&mut self) {
        while !self.calls.is_empty() {
            while !self.to_server.is_empty() || !self.to_caller.is_empty() {
                self.step(0, 0);
                self.step(1, 0);
            }
            self.advance(1);
        }
    }
}

/// 0 to 5: a datagram; 6: a call; 7 and above: time.
fn run(world: &mut World, steps: &[(u8, usize)]) {
    for &(kind, at) in steps {
        match kind {
            0..=5 => world.step(kind, at),
            6 | 7 => world.begin(),
            _ => world.advance(at as u64 % 4),
        }
    }
    world.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn a_call_runs_at_most_once_and_ends_once(steps in vec((0..10u8, any::<usize>()), 1..300)) {
        let mut world = World::new(1000);
        run(&mut world, &steps);
        prop_assert!(world.runs.values().all(|runs| *runs == 1));
        prop_assert!(world.completed.iter().all(|(xid, number)| *number == 1 && world.runs[xid] == 1));
        prop_assert_eq!(world.completed.len() + world.expired, world.begun);
        prop_assert_eq!(world.cache.forgotten_early(), 0);
    }

    #[test]
    fn a_call_runs_again_only_if_a_small_cache_forgot_it(steps in vec((0..10u8, any::<usize>()), 1..300)) {
        let mut world = World::new(4);
        run(&mut world, &steps);
        let more: u32 = world.runs.values().map(|runs| runs - 1).sum();
        prop_assert!(u64::from(more) <= world.cache.forgotten_early());
        prop_assert_eq!(world.completed.len() + world.expired, world.begun);
    }
}
