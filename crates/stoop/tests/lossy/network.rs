//! A network that goes wrong: a proxy of real sockets before a server.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use stoop_wire::{Header, Kind, MAX_DATAGRAM};

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

/// A proxy before a server. Each caller's port has a port of its own behind it, so that lanes are told apart.
pub(super) struct Network {
    /// Where callers find it.
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    front: Option<thread::JoinHandle<()>>,
}

struct Shared {
    /// Where callers send to.
    front: UdpSocket,
    control: Mutex<Control>,
    changed: Condvar,
}

/// What a test can see and change.
pub(super) struct Control {
    pub(super) server: SocketAddr,
    /// As which callers appear to the server.
    pub(super) host: IpAddr,
    /// Packets that came in, by kind.
    seen: HashMap<u8, u64>,
    /// From now on all goes well.
    pub(super) calm: bool,
    /// What callers send is lost meanwhile.
    pub(super) deaf: bool,
    /// Packets that callers have sent.
    sent: usize,
    /// From here on a portion of what callers have sent is to be sent again.
    replay: Option<usize>,
    ended: bool,
}

impl Control {
    pub(super) fn seen(&self, kind: Kind) -> u64 {
        self.seen.get(&(kind as u8)).copied().unwrap_or(0)
    }
}

/// How long nothing comes before what is held back goes on.
const TICK: Duration = Duration::from_millis(2);

/// Packets replayed at once: fewer than a socket buffer of the default size holds.
const PORTION: usize = 64;

impl Network {
    pub(super) fn new(server: SocketAddr, seed: u64, weather: Weather) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        front.set_read_timeout(Some(TICK)).unwrap();
        let address = front.local_addr().unwrap();
        let host = [127, 0, 0, 1].into();
        let control = Control {
            server,
            host,
            seen: HashMap::new(),
            calm: false,
            deaf: false,
            sent: 0,
            replay: None,
            ended: false,
        };
        let shared = Arc::new(Shared { front, control: Mutex::new(control), changed: Condvar::new() });
        let mut there = There { shared: Arc::clone(&shared), seed, weather, ports: HashMap::new() };
        let front = thread::spawn(move || there.run());
        Self { address, shared, front: Some(front) }
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
        let ended = self.front.take().expect("taken only here").join();
        assert!(ended.is_ok() || thread::panicking(), "the network has broken down");
    }
}

impl Shared {
    /// Notes what has come in.
    fn note(&self, packet: &[u8]) -> MutexGuard<'_, Control> {
        let mut control = self.control.lock().unwrap();
        if let Ok((header, _)) = Header::parse(packet) {
            *control.seen.entry(header.kind as u8).or_default() += 1;
            self.changed.notify_all();
        }
        control
    }
}

/// The way to the server, of all callers.
struct There {
    shared: Arc<Shared>,
    seed: u64,
    weather: Weather,
    /// For each caller's address and each host as which it has appeared, the port behind, and who brings back what
    /// comes there.
    ports: HashMap<(SocketAddr, IpAddr), (Arc<UdpSocket>, thread::JoinHandle<()>)>,
}

impl There {
    fn run(&mut self) {
        let mut way = Way::new(self.seed, self.weather);
        let mut buffer = [0; MAX_DATAGRAM];
        loop {
            let arrived = self.shared.front.recv_from(&mut buffer).ok();
            let mut arrived = arrived.map(|(len, caller)| (caller, buffer[..len].to_vec()));
            let mut control = self.shared.note(arrived.as_ref().map_or(&[], |(_, packet)| packet));
            if control.calm {
                way.weather = CLEAR;
            }
            if way.random.chance(way.weather.change_host) {
                control.host = [127, 0, 0, 1 + way.random.below(2) as u8].into();
            }
            if control.deaf {
                arrived = None;
            }
            control.sent += usize::from(arrived.is_some());
            let (host, server, replay) = (control.host, control.server, control.replay);
            let ended = control.ended;
            drop(control);
            for (caller, packet) in way.pass(arrived) {
                self.port(caller, host).send_to(&packet, server).unwrap();
            }
            if let Some(from) = replay {
                for (caller, packet) in way.old.iter().skip(from).take(PORTION) {
                    self.port(*caller, host).send_to(packet, server).unwrap();
                }
                self.shared.control.lock().unwrap().replay = None;
                self.shared.changed.notify_all();
            }
            if ended {
                return self.ports.drain().for_each(|(_, (_, back))| back.join().unwrap());
            }
        }
    }

    fn port(&mut self, caller: SocketAddr, host: IpAddr) -> &UdpSocket {
        let seed = self.seed << 32 | self.ports.len() as u64;
        let (port, _) = self.ports.entry((caller, host)).or_insert_with(|| {
            let port = Arc::new(UdpSocket::bind((host, 0)).unwrap());
            port.set_read_timeout(Some(TICK)).unwrap();
            let (shared, way) = (Arc::clone(&self.shared), Way::new(seed, self.weather));
            let back = Arc::clone(&port);
            (port, thread::spawn(move || bring_back(&shared, &back, caller, way)))
        });
        port
    }
}

/// The way back to one caller, from one of the ports behind.
fn bring_back(shared: &Shared, port: &UdpSocket, caller: SocketAddr, mut way: Way<Vec<u8>>) {
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        let mut arrived = port.recv_from(&mut buffer).ok().map(|(len, sender)| (sender, &buffer[..len]));
        let control = shared.note(arrived.map_or(&[], |(_, packet)| packet));
        if control.ended {
            return;
        }
        if control.calm {
            way.weather = CLEAR;
        }
        // Of a server that is gone nothing is heard any more.
        arrived = arrived.filter(|(sender, _)| *sender == control.server);
        drop(control);
        for packet in way.pass(arrived.map(|(_, packet)| packet.to_vec())) {
            shared.front.send_to(&packet, caller).unwrap();
        }
    }
}

/// What becomes of packets that go the same way.
struct Way<P> {
    random: Random,
    weather: Weather,
    /// Packets that are held back, and how many are to pass before each.
    held: Vec<(u64, P)>,
    /// All that were seen.
    old: Vec<P>,
}

impl<P: Clone> Way<P> {
    fn new(seed: u64, weather: Weather) -> Self {
        Self { random: Random(seed), weather, held: Vec::new(), old: Vec::new() }
    }

    /// Takes a packet, or the news that none has come for a while. Returns what goes on now, in this order.
    fn pass(&mut self, arrived: Option<P>) -> Vec<P> {
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
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}
