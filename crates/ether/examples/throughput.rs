//! Measures how many bytes a second go from one endpoint to another on a private Ethernet:
//! `cargo run --release -p stoop-ether --example throughput`.
//!
//! Needs root, iproute2 and two processors. The sender writes packets of 1,440 bytes into lent frames, 32 at
//! a time; the receiver takes those that have arrived together. Frames that the receiver is too slow for are
//! lost, and counted.

#[path = "../tests/network/mod.rs"]
mod network;

use network::{BACKENDS, Ethernet};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stoop_ether::frame::Checksum;
use stoop_ether::{Arrival, Endpoint, Options};

const PACKET_LEN: usize = 1440;
const PACKETS: usize = 32;
const TIME: Duration = Duration::from_millis(500);

fn main() {
    let Some(ethernet) = Ethernet::make("throughput", 1500) else { return };
    for checksum in [Checksum::Omitted, Checksum::Computed] {
        for backend in BACKENDS {
            let server = ethernet.b.listen(7400, backend, &Options::of_many_lanes()).unwrap();
            let caller = ethernet.a.connect(backend, &Options::of_many_lanes()).unwrap();
            let (sent, received, time) = measure(&caller, &server, checksum);
            let gbits = (received * PACKET_LEN * 8) as f64 / time.as_nanos() as f64;
            let lost = 100.0 * (sent - received) as f64 / sent as f64;
            println!("{server:48} CRC-32C {checksum:?}: {gbits:5.2} Gbit/s received, {lost:.1} % lost");
        }
    }
}

/// Packets sent, packets received, and the time that it took.
fn measure(caller: &Endpoint, server: &Endpoint, checksum: Checksum) -> (usize, usize, Duration) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            pin(1);
            let (mut buffer, mut received) = (vec![0; 1 << 16], 0);
            while !end.load(Ordering::Relaxed) {
                if let Arrival::Packet { len, .. } = server.receive_many(&mut buffer) {
                    received += len.count();
                }
            }
            received
        });
        pin(0);
        let to = caller.template(server.address(), checksum);
        let (data, mut room) = (vec![0x5a; PACKETS * PACKET_LEN], caller.room());
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < TIME {
            for (packet, bytes) in room.packets(data.len(), PACKET_LEN).zip(data.chunks(PACKET_LEN)) {
                packet.copy_from_slice(bytes);
            }
            caller.send_room(&to, &mut room, |_, _| {});
            sent += PACKETS;
        }
        let time = start.elapsed();
        // What is in the ring is received within a moment.
        std::thread::sleep(Duration::from_millis(20));
        end.store(true, Ordering::Relaxed);
        (sent, receiver.join().unwrap(), time)
    })
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set).unwrap();
}
