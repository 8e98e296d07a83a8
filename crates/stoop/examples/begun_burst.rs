//! How long it takes until the last of many begun calls has left, if each takes 50 ms at the server, and a network between the two loses
//! some packets: `begun_burst 1000 10` for 1,000 calls and ten lost packets in 1,000.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use std::{env, process, thread};
use stoop::{BindOptions, Security, Server};

#[stoop::interface]
trait Bed {
    fn nap(&self);
}

struct Hotel;

impl Bed for Hotel {
    fn nap(&self) {
        thread::sleep(Duration::from_millis(50));
    }
}

/// The kind of a packet that brings a call.
const CALL: u8 = 3;

/// Carries datagrams between one caller and the server until nothing more comes. Returns when each call came for the first time, and how many
/// packets there were each way.
fn carry(caller: &UdpSocket, server: &UdpSocket, loss: u64) -> (Vec<Instant>, [u64; 2]) {
    let (mut seen, mut times, mut packets, mut random) = (HashSet::new(), Vec::new(), [0; 2], 1_u64);
    let (mut buffer, mut quiet_since, mut from) = ([0; 2048], Instant::now(), None);
    while quiet_since.elapsed() < Duration::from_millis(1500) {
        let mut is_quiet = true;
        for way in 0..2 {
            let Ok((len, sender)) = [caller, server][way].recv_from(&mut buffer) else { continue };
            is_quiet = false;
            packets[way] += 1;
            let packet = &buffer[..len];
            if way == 0 {
                from = Some(sender);
                // Lane and number.
                if packet[2] == CALL && seen.insert((packet[4..6].to_vec(), packet[16..20].to_vec())) {
                    times.push(Instant::now());
                }
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random % 1000 < loss {
                continue;
            }
            let _ = match (way, from) {
                (0, _) => server.send(packet),
                (_, Some(from)) => caller.send_to(packet, from),
                (_, None) => continue,
            };
        }
        match is_quiet {
            true => thread::sleep(Duration::from_micros(20)),
            false => quiet_since = Instant::now(),
        }
    }
    (times, packets)
}

fn main() {
    let arguments: Vec<u64> = env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [calls, loss] = arguments[..] else {
        eprintln!("begun_burst CALLS LOST_IN_A_THOUSAND");
        process::exit(2);
    };
    let server = Server::new().security(Security::none()).workers(64).queue(calls as usize);
    let server = server.export(BedServer::new(Hotel)).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(server.uris()[0].trim_start_matches("udp://")).unwrap();
    [&near, &far].into_iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let uri = format!("udp://{}", near.local_addr().unwrap());
    let carrier = thread::spawn(move || carry(&near, &far, loss));
    let client = BedClient::bind_with(&uri, &BindOptions::new().timeout(Duration::from_secs(30))).unwrap();
    // The server knows then that the procedure takes long.
    (0..3).for_each(|_| client.nap().unwrap());
    let begun = Instant::now();
    let calling = client.begin();
    let naps: Vec<_> = (0..calls).map(|_| calling.nap()).collect();
    drop(calling);
    let failed = stoop::wait_all(naps).iter().filter(|nap| nap.is_err()).count();
    let ended = begun.elapsed();
    let (times, packets) = carrier.join().unwrap();
    let left = |part: usize| times[times.len() * part / 100 - 1].saturating_duration_since(begun);
    println!("half had left after {:?}, 99 % after {:?}, all after {:?}", left(50), left(99), left(100));
    println!("all had ended after {ended:?}, {failed} without a result; packets each way: {packets:?}");
}
