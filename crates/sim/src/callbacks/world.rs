//! The events of a world, in the order of their times.

use super::CallbackSabotage;
use super::client::Client;
use super::ledger::{CallbackReport, Checked, Id, Ledger};
use super::server::Server;
use crate::Random;
use core::time::Duration;
use std::collections::BTreeMap;
use stoop_exchange::Instant;

/// Something that happens.
pub(super) enum Event {
    Offers,
    /// The server's program makes a callback.
    Calls,
    ToClient(u64, Vec<u8>),
    ToServer(u64, Vec<u8>),
    /// A callback that runs goes on.
    Runs(u64, Id),
    /// It calls the server, which is to call back; its call ends by then, and so many callbacks are to run within it.
    CallsServer(u64, Id, (Instant, u8)),
    /// That call has ended, with a result or without.
    CallEnds(u64, Id, bool),
    Expires(u64, u64),
    ConnectionEnds,
    ClientLearnsEnd(u64),
    ServerLearnsEnd(u64),
    ClientEnds,
    ClientStarts,
    ServerEnds,
    ServerStarts,
}

/// What both ends know of a session in the end: the connection.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// When the last record arrives at the client, and at the server.
    last: [Instant; 2],
    /// The start of the server to which the client is bound.
    pub(super) server: u64,
}

pub(super) struct World {
    pub(super) now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    planned: u64,
    pub(super) random: Random,
    pub(super) sabotage: CallbackSabotage,
    pub(super) ledger: Ledger,
    pub(super) client: Client,
    pub(super) server: Server,
    pub(super) links: BTreeMap<u64, Link>,
    sessions: u64,
    /// Packets of a thousand that are lost.
    loss: u32,
    /// Callbacks that the program has still to make, and whether ends happen.
    calls_left: u32,
    ends: bool,
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// How long a packet that was lost is missed.
const SENT_AGAIN_AFTER: Duration = millis(50);

/// Events after which a world that is not at rest runs in circles.
const STEPS_MAX: u64 = 100_000;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first promise that is broken, and how to see it again.
pub fn run_callback_seed(seed: u64, sabotage: CallbackSabotage) -> Result<CallbackReport, String> {
    let mut random = Random::new(seed);
    let mut world = World {
        now: Instant::from_nanos(1_000_000_000),
        events: BTreeMap::new(),
        planned: 0,
        sabotage,
        ledger: Ledger::default(),
        client: Client::new(random.pick(&[1, 1, 1, 3])),
        server: Server::default(),
        links: BTreeMap::new(),
        sessions: 0,
        loss: random.pick(&[0, 50, 300]),
        calls_left: 5 + random.below(60) as u32,
        ends: random.chance(800),
        random,
    };
    world.plan_after(Duration::ZERO, Event::Offers);
    world.plan_after(millis(5), Event::Calls);
    for (end, often) in [(Event::ConnectionEnds, 300), (Event::ClientEnds, 300), (Event::ServerEnds, 300)] {
        if world.ends && world.random.chance(often) {
            let after = world.random.between((millis(1), millis(600)));
            world.plan_after(after, end);
        }
    }
    let mut steps = 0;
    while let Some(((at, _), event)) = world.events.pop_first() {
        (steps, world.now) = (steps + 1, at);
        let again = |what| {
            format!(
                "seed {seed}, event {steps}: {what}; to repeat: STOOP_CALLBACK_SEED={seed} cargo test -p stoop-sim --test sim callbacks::"
            )
        };
        world.step(event).map_err(again)?;
        if steps > STEPS_MAX {
            return Err(again("the world does not come to rest".into()));
        }
    }
    let rests = world.ledger.check_end().and_then(|()| match world.client.is_idle() {
        true => Ok(()),
        false => Err("callbacks wait at the client for ever".into()),
    });
    rests.map_err(|what| format!("seed {seed}, at its end: {what}"))?;
    Ok(world.ledger.report)
}

impl World {
    pub(super) fn plan(&mut self, at: Instant, event: Event) {
        self.planned += 1;
        self.events.insert((at, self.planned), event);
    }

    pub(super) fn plan_after(&mut self, after: Duration, event: Event) {
        self.plan(self.now + after, event);
    }

    /// How long a packet is under way, with those of its copies that are lost.
    pub(super) fn delay(&mut self) -> Duration {
        let mut delay = self.random.between((Duration::ZERO, millis(3)));
        while self.random.chance(self.loss) {
            delay += SENT_AGAIN_AFTER;
        }
        delay
    }

    /// Sends a record in a session, behind those before it.
    pub(super) fn send(&mut self, session: u64, to_client: bool, record: Vec<u8>) {
        let delay = self.delay();
        let Some(link) = self.links.get_mut(&session) else { return };
        let last = &mut link.last[usize::from(to_client)];
        *last = (*last).max(self.now + delay);
        let at = *last;
        self.plan(
            at,
            if to_client { Event::ToClient(session, record) } else { Event::ToServer(session, record) },
        );
    }

    fn step(&mut self, event: Event) -> Checked {
        match event {
            Event::Offers => self.offer(),
            Event::Calls => {
                self.calls_left -= 1;
                if self.calls_left > 0 {
                    let after = self.random.between((Duration::ZERO, millis(30)));
                    self.plan_after(after, Event::Calls);
                }
                self.call_client()
            }
            Event::ToClient(session, record) => self.arrive_at_client(session, record),
            Event::ToServer(session, record) => self.arrive_at_server(session, &record),
            Event::Runs(session, id) => self.go_on(session, id),
            Event::CallsServer(session, id, call) => self.serve(session, id, call),
            Event::CallEnds(session, id, has_result) => self.call_ends(session, id, has_result),
            Event::Expires(session, number) => self.expire(session, number),
            Event::ConnectionEnds => self.end_connection(),
            Event::ClientLearnsEnd(session) => self.client_loses(session),
            Event::ServerLearnsEnd(session) => self.server_loses(session),
            Event::ClientEnds => {
                self.ledger.report.count("client ended");
                self.client.end();
                self.cut(true);
                self.plan_after(millis(20), Event::ClientStarts);
                Ok(())
            }
            Event::ClientStarts => {
                self.client.start();
                self.offer()
            }
            Event::ServerEnds => {
                self.ledger.report.count("server ended");
                self.end_server()?;
                self.cut(false);
                self.plan_after(millis(30), Event::ServerStarts);
                Ok(())
            }
            Event::ServerStarts => {
                self.server.start();
                Ok(())
            }
        }
    }

    /// The client offers its object, again if it was lost.
    fn offer(&mut self) -> Checked {
        if !self.client.may_offer() {
            return Ok(());
        }
        if !self.server.is_up() {
            self.plan_after(millis(10), Event::Offers);
            return Ok(());
        }
        self.sessions += 1;
        let session = self.sessions;
        self.server_replaces()?;
        self.links.insert(session, Link { server: self.server.starts, ..Link::default() });
        self.client.begin(session);
        self.server.accept(session);
        Ok(())
    }

    /// The connection of the present session ends: both ends learn it, each in its time.
    fn end_connection(&mut self) -> Checked {
        if let Some(session) = self.client.session {
            self.ledger.report.count("connection lost");
            self.links.remove(&session);
            let (client, server) = (self.delay(), self.delay());
            self.plan_after(client, Event::ClientLearnsEnd(session));
            self.plan_after(server, Event::ServerLearnsEnd(session));
        }
        Ok(())
    }

    /// One end is gone: the other learns it later.
    fn cut(&mut self, client_is_gone: bool) {
        let Some((&session, _)) = self.links.last_key_value() else { return };
        let after = self.random.between((Duration::ZERO, millis(40)));
        self.plan_after(
            after,
            if client_is_gone { Event::ServerLearnsEnd(session) } else { Event::ClientLearnsEnd(session) },
        );
    }
}
