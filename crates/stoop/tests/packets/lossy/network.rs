//! A network that goes wrong, between callers and a server: it loses, repeats, delays and replays packets.

use super::Link;
use super::datagrams;
use super::frames;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use stoop_wire::{Header, Kind};

/// How often what happens to a packet, in a thousand.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    pub(super) lose: u64,
    /// It is held back until some others have passed, or nothing comes for a while.
    pub(super) hold: u64,
    /// It comes once more, a little later.
    pub(super) repeat: u64,
    /// With it comes some packet that was seen before, however long ago.
    pub(super) replay: u64,
    /// From it on the server sees another host.
    pub(super) change_host: u64,
}

pub(super) const CLEAR: Weather = Weather { lose: 0, hold: 0, repeat: 0, replay: 0, change_host: 0 };
pub(super) const LOSSY: Weather = Weather { lose: 100, ..CLEAR };
pub(super) const DISORDERLY: Weather = Weather { lose: 20, hold: 200, repeat: 300, replay: 300, ..CLEAR };
pub(super) const STORM: Weather = Weather { lose: 200, hold: 100, repeat: 200, replay: 200, ..CLEAR };

/// The network before a server.
pub(super) struct Network {
    /// Where callers find it.
    pub(super) uri: String,
    shared: Arc<Shared>,
    carriers: Vec<thread::JoinHandle<()>>,
}

/// The part of a network that its test and its carriers share.
pub(super) struct Shared {
    control: Mutex<Control>,
    changed: Condvar,
}

/// What a test can see and change.
pub(super) struct Control {
    /// The URI of the server that is reached.
    pub(super) server: String,
    /// The number of the host as which callers appear to the server.
    pub(super) host: u8,
    /// Packets that came in, by kind.
    seen: HashMap<u8, u64>,
    /// From now on all goes well.
    pub(super) calm: bool,
    /// What callers send is lost meanwhile.
    pub(super) deaf: bool,
    /// Packets that callers have sent.
    pub(super) sent: usize,
    /// From here on a portion of what callers have sent is to be sent again.
    pub(super) replay: Option<usize>,
    pub(super) ended: bool,
}

impl Control {
    pub(super) fn seen(&self, kind: Kind) -> u64 {
        self.seen.get(&(kind as u8)).copied().unwrap_or(0)
    }
}

/// How long nothing comes before what is held back goes on.
pub(super) const TICK: Duration = Duration::from_millis(2);

/// Packets replayed at once: fewer than a socket buffer of the default size holds.
pub(super) const PORTION: usize = 64;

impl Network {
    /// A network before `server`, a URI.
    pub(super) fn new(link: &Link, server: String, seed: u64, weather: Weather) -> Self {
        let control = Control {
            server,
            host: 1,
            seen: HashMap::new(),
            calm: false,
            deaf: false,
            sent: 0,
            replay: None,
            ended: false,
        };
        let shared = Arc::new(Shared { control: Mutex::new(control), changed: Condvar::new() });
        let (uri, carriers) = match link {
            Link::Datagrams => datagrams::carry(&shared, seed, weather),
            Link::Frames(ethernet) => frames::carry(&shared, ethernet, seed, weather),
        };
        Self { uri, shared, carriers }
    }

    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.shared.control.lock().unwrap()
    }

    /// Waits until so many packets of that kind have come in.
    pub(super) fn await_seen(&self, kind: Kind, count: u64) {
        let few = |control: &mut Control| control.seen(kind) < count;
        drop(self.shared.changed.wait_while(self.control(), few).unwrap());
    }

    /// Sends all that callers have ever sent to the server once more, `PORTION` packets at a time, lest its socket
    /// overflow, in good weather. After each portion `catch_up` waits until the server has taken it.
    pub(super) fn replay_all(&self, catch_up: impl Fn()) {
        self.control().calm = true;
        let all = self.control().sent;
        for from in (0..all).step_by(PORTION) {
            self.control().replay = Some(from);
            drop(self.shared.changed.wait_while(self.control(), |control| control.replay.is_some()).unwrap());
            catch_up();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.control().ended = true;
        for carrier in self.carriers.drain(..) {
            assert!(carrier.join().is_ok() || thread::panicking(), "the network has broken down");
        }
    }
}

impl Shared {
    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap()
    }

    /// A portion of what callers have sent has been sent again.
    pub(super) fn note_replayed(&self) {
        self.control().replay = None;
        self.changed.notify_all();
    }

    /// Notes what has come in.
    pub(super) fn note(&self, packet: &[u8]) -> MutexGuard<'_, Control> {
        let mut control = self.control.lock().unwrap();
        if let Ok((header, _)) = Header::parse(packet) {
            *control.seen.entry(header.kind as u8).or_default() += 1;
            self.changed.notify_all();
        }
        control
    }
}

/// What becomes of packets that go the same way.
pub(super) struct Way<P> {
    pub(super) random: Random,
    pub(super) weather: Weather,
    /// Packets that are held back, and how many are to pass before each.
    held: Vec<(u64, P)>,
    /// All that were seen.
    pub(super) old: Vec<P>,
}

impl<P: Clone> Way<P> {
    pub(super) fn new(seed: u64, weather: Weather) -> Self {
        Self { random: Random(seed), weather, held: Vec::new(), old: Vec::new() }
    }

    /// Does what the test wants before a packet of a caller passes, which may be lost by that.
    pub(super) fn follow<T>(&mut self, control: &mut Control, arrived: Option<T>) -> Option<T> {
        if control.calm {
            self.weather = CLEAR;
        }
        if self.random.chance(self.weather.change_host) {
            control.host = 1 + self.random.below(2) as u8;
        }
        let arrived = arrived.filter(|_| !control.deaf);
        control.sent += usize::from(arrived.is_some());
        arrived
    }

    /// Takes a packet, or the news that none has come for a while. Returns what goes on now, in this order.
    pub(super) fn pass(&mut self, arrived: Option<P>) -> Vec<P> {
        let Some(packet) = arrived else {
            return self.held.drain(..).rev().map(|(_, packet)| packet).collect();
        };
        let Self { random, weather, held, old } = self;
        let mut on = Vec::new();
        old.push(packet.clone());
        if !random.chance(weather.lose) {
            match random.chance(weather.hold) {
                true => held.push((1 + random.below(8), packet.clone())),
                false => on.push(packet.clone()),
            }
        }
        if random.chance(weather.repeat) {
            held.push((random.below(8), packet));
        }
        if random.chance(weather.replay) {
            on.push(old[random.below(old.len() as u64) as usize].clone());
        }
        on.extend(held.extract_if(.., |(to_pass, _)| *to_pass == 0).map(|(_, packet)| packet));
        held.iter_mut().for_each(|(to_pass, _)| *to_pass -= 1);
        on
    }
}

/// SplitMix64 (Steele, Lea & Flood 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
