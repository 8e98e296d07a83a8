//! Carries datagrams of UDP between callers and a server: a proxy of real sockets.

use super::network::{CLEAR, PORTION, Shared, TICK, Way, Weather};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use stoop_wire::MAX_DATAGRAM;

/// Starts the proxy. Returns the URI at which callers find it.
pub(super) fn carry(
    shared: &Arc<Shared>,
    seed: u64,
    weather: Weather,
) -> (String, Vec<thread::JoinHandle<()>>) {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    front.set_read_timeout(Some(TICK)).unwrap();
    let uri = format!("udp://{}", front.local_addr().unwrap());
    let mut there = There { shared: Arc::clone(shared), front, seed, weather, ports: HashMap::new() };
    (uri, vec![thread::spawn(move || there.run())])
}

fn address_of(uri: &str) -> SocketAddr {
    uri.strip_prefix("udp://").unwrap().parse().unwrap()
}

/// The way to the server, of all callers. Each caller's port has a port of its own behind the proxy, so that lanes are told apart.
struct There {
    shared: Arc<Shared>,
    /// Where callers send to.
    front: Arc<UdpSocket>,
    seed: u64,
    weather: Weather,
    /// For each caller's address and each host as which it has appeared, the port behind, and the thread that brings back what comes
    /// there.
    ports: HashMap<(SocketAddr, u8), (Arc<UdpSocket>, thread::JoinHandle<()>)>,
}

impl There {
    fn run(&mut self) {
        let mut way = Way::new(self.seed, self.weather);
        let mut buffer = [0; MAX_DATAGRAM];
        loop {
            let arrived = self.front.recv_from(&mut buffer).ok();
            let arrived = arrived.map(|(len, caller)| (caller, buffer[..len].to_vec()));
            let mut control = self.shared.note(arrived.as_ref().map_or(&[], |(_, packet)| packet));
            let arrived = way.follow(&mut control, arrived);
            let (host, server, replay) = (control.host, address_of(&control.server), control.replay);
            let ended = control.ended;
            drop(control);
            for (caller, packet) in way.pass(arrived) {
                self.port(caller, host).send_to(&packet, server).unwrap();
            }
            if let Some(from) = replay {
                for (caller, packet) in way.old.iter().skip(from).take(PORTION) {
                    self.port(*caller, host).send_to(packet, server).unwrap();
                }
                self.shared.note_replayed();
            }
            if ended {
                return self.ports.drain().for_each(|(_, (_, back))| back.join().unwrap());
            }
        }
    }

    fn port(&mut self, caller: SocketAddr, host: u8) -> &UdpSocket {
        let seed = self.seed << 32 | self.ports.len() as u64;
        let (port, _) = self.ports.entry((caller, host)).or_insert_with(|| {
            let port = Arc::new(UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap());
            port.set_read_timeout(Some(TICK)).unwrap();
            let (shared, way) = (Arc::clone(&self.shared), Way::new(seed, self.weather));
            let (back, front) = (Arc::clone(&port), Arc::clone(&self.front));
            (port, thread::spawn(move || bring_back(&shared, &back, (&front, caller), way)))
        });
        port
    }
}

/// The way back to one caller, from one of the ports behind.
fn bring_back(
    shared: &Shared,
    port: &UdpSocket,
    (front, caller): (&UdpSocket, SocketAddr),
    mut way: Way<Vec<u8>>,
) {
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
        arrived = arrived.filter(|(sender, _)| *sender == address_of(&control.server));
        drop(control);
        for packet in way.pass(arrived.map(|(_, packet)| packet.to_vec())) {
            front.send_to(&packet, caller).unwrap();
        }
    }
}
