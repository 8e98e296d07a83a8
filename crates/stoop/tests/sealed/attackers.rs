//! An attacker between caller and server, who sees, repeats, changes and forges packets.

use crate::{Pair, VaultClient};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stoop_wire::Kind;

/// One datagram, and whether it goes to the server.
type Passing = (Vec<u8>, bool);

/// A proxy in front of a server.
struct Proxy {
    uri: String,
    seen: Arc<Mutex<Vec<Passing>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Passes on what `change` makes of each datagram; it is told whether the datagram goes to the server.
    fn new(uri: &str, mut change: impl FnMut(&[u8], bool) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let (key, server) = uri.strip_prefix("udp://").unwrap().split_once('@').unwrap();
        let server: SocketAddr = server.parse().unwrap();
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let uri = format!("udp://{key}@{}", front.local_addr().unwrap());
        let (seen, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (log, over) = (Arc::clone(&seen), Arc::clone(&ends));
        front.set_read_timeout(Some(Duration::from_micros(200))).unwrap();
        let thread = thread::spawn(move || {
            // A socket towards the server for each of the caller's.
            let mut ways: Vec<(SocketAddr, UdpSocket)> = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            while !over.load(Ordering::Relaxed) {
                if let Ok((len, from)) = front.recv_from(&mut buffer) {
                    if !ways.iter().any(|(caller, _)| *caller == from) {
                        let way = UdpSocket::bind("127.0.0.1:0").unwrap();
                        way.connect(server).unwrap();
                        way.set_nonblocking(true).unwrap();
                        ways.push((from, way));
                    }
                    log.lock().unwrap().push((buffer[..len].to_vec(), true));
                    let (_, way) = ways.iter().find(|(caller, _)| *caller == from).unwrap();
                    for packet in change(&buffer[..len], true) {
                        let _ = way.send(&packet);
                    }
                }
                for (caller, way) in &ways {
                    while let Ok(len) = way.recv(&mut buffer) {
                        log.lock().unwrap().push((buffer[..len].to_vec(), false));
                        for packet in change(&buffer[..len], false) {
                            let _ = front.send_to(&packet, caller);
                        }
                    }
                }
            }
        });
        Self { uri, seen, ends, thread: Some(thread) }
    }

    fn seen(&self) -> Vec<Passing> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn is_sealed(packet: &[u8]) -> bool {
    packet.len() >= 32 && packet[15] >> 6 == 1
}

fn is_bundle(packet: &[u8]) -> bool {
    is_sealed(packet) && packet[3] & 0x08 != 0
}

fn client(pair: &Pair, proxy: &Proxy) -> VaultClient {
    VaultClient::bind_with(&proxy.uri, &pair.options()).unwrap()
}

#[test]
fn no_argument_and_no_result_is_seen_on_the_way() {
    let pair = Pair::over("udp");
    let proxy = Proxy::new(&pair.uri(), |packet, _| vec![packet.to_vec()]);
    let client = client(&pair, &proxy);
    let secret = b"a secret that nobody may see on the way".repeat(100);
    assert_eq!(client.echo(&secret).unwrap(), secret);
    assert_eq!(client.echo(&secret[..39]).unwrap(), secret[..39]);
    let shown = |packet: &[u8]| packet.windows(16).any(|part| part == &secret[..16]);
    let seen = proxy.seen();
    assert!(seen.iter().filter(|(packet, _)| is_sealed(packet)).count() >= 8);
    assert!(!seen.iter().any(|(packet, _)| shown(packet)));
}

#[test]
fn repeated_packets_run_no_call_again() {
    let pair = Pair::over("udp");
    let mut old: Vec<Vec<u8>> = Vec::new();
    let proxy = Proxy::new(&pair.uri(), move |packet, to_server| {
        if !to_server || !is_sealed(packet) {
            return vec![packet.to_vec()];
        }
        old.push(packet.to_vec());
        let before = old[old.len() / 2].clone();
        vec![packet.to_vec(), packet.to_vec(), before]
    });
    let client = client(&pair, &proxy);
    for number in 1..=100 {
        assert_eq!(client.count().unwrap(), number);
    }
}

#[test]
fn a_changed_bit_anywhere_is_a_lost_packet() {
    let pair = Pair::over("udp");
    let mut bit = 0;
    let proxy = Proxy::new(&pair.uri(), move |packet, _| {
        if !is_sealed(packet) {
            return vec![packet.to_vec()];
        }
        // Before each packet one that differs from it in one bit, but for those that name its binding.
        bit = (bit + 7) % (8 * packet.len());
        let mut changed = packet.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        if (8..16).contains(&(bit / 8)) { vec![packet.to_vec()] } else { vec![changed, packet.to_vec()] }
    });
    let client = client(&pair, &proxy);
    for number in 1..=200 {
        assert_eq!(client.count().unwrap(), number);
        let bytes = vec![number as u8; 300];
        assert_eq!(client.echo(&bytes).unwrap(), bytes);
    }
    assert!(pair.server.counters().packet.corrupt > 0);
}

#[test]
fn bundles_that_are_changed_cut_and_repeated_run_each_call_once() {
    let pair = Pair::over("udp");
    let mut bit = 0;
    let proxy = Proxy::new(&pair.uri(), move |packet, _| {
        if !is_bundle(packet) {
            return vec![packet.to_vec()];
        }
        bit = (bit + 61) % (8 * packet.len());
        let mut changed = packet.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        vec![changed, packet[..packet.len() - 8].to_vec(), packet.to_vec(), packet.to_vec()]
    });
    let client = client(&pair, &proxy);
    for round in 0..50 {
        let begin = client.begin();
        let pending: Vec<_> = (0..40).map(|_| begin.count()).collect();
        drop(begin);
        let mut numbers: Vec<_> = pending.into_iter().map(|each| each.wait().unwrap()).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(40 * round + 1..=40 * round + 40), "in round {round}");
    }
    let seen = proxy.seen();
    for to_server in [true, false] {
        assert!(seen.iter().any(|(packet, to)| *to == to_server && is_bundle(packet)), "{to_server}");
    }
}

#[test]
fn plain_packets_in_the_name_of_a_sealed_binding_run_nothing() {
    let pair = Pair::over("udp");
    let proxy = Proxy::new(&pair.uri(), |packet, to_server| {
        if !to_server || !is_sealed(packet) {
            return vec![packet.to_vec()];
        }
        // The next calls of the lane, without a seal, as short as a plain call without arguments.
        let forged = (1..4).map(|further| {
            let mut call = packet[..32].to_vec();
            let number = u32::from_le_bytes(call[16..20].try_into().unwrap()) + further;
            call[16..20].copy_from_slice(&number.to_le_bytes());
            call
        });
        forged.chain([packet.to_vec()]).collect()
    });
    let client = client(&pair, &proxy);
    for number in 1..=50 {
        assert_eq!(client.count().unwrap(), number);
    }
}

#[test]
fn forged_refusals_of_the_binding_do_not_make_a_call_run_twice() {
    let pair = Pair::over("udp");
    let proxy = Proxy::new(&pair.uri(), |packet, to_server| {
        if to_server || !is_sealed(packet) {
            return vec![packet.to_vec()];
        }
        // *Unknown binding*, about the call that the packet answers, without a seal.
        let mut forged = packet[..32].to_vec();
        (forged[2], forged[3]) = (7, 0);
        forged[20..28].copy_from_slice(&[9; 8]);
        forged[28..32].copy_from_slice(&[1, 0, 0, 0]);
        vec![forged, packet.to_vec()]
    });
    let client = client(&pair, &proxy);
    let mut last = 0;
    for _ in 0..100 {
        // A call may end as unknown; none is counted twice.
        if let Ok(number) = client.count() {
            assert!(number > last && number <= 100, "{number} after {last}");
            last = number;
        }
    }
    assert!(last > 0 && last <= 100);
}

#[test]
fn another_program_decrypts_a_capture_with_the_key_log() {
    let python = |args: &[&std::ffi::OsStr]| std::process::Command::new("python3").args(args).output();
    let probe = python(&["-c".as_ref(), "import cryptography".as_ref()]);
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: python3 has no module `cryptography`");
        return;
    }
    let pair = Pair::over("udp");
    let proxy = Proxy::new(&pair.uri(), |packet, _| vec![packet.to_vec()]);
    let log = pair.folder.file("secrets");
    let security = pair.caller.clone().key_log(&log).unwrap();
    let client = VaultClient::bind_with(&proxy.uri, &pair.options().security(security)).unwrap();
    let bytes = vec![0xa5; 3000];
    assert_eq!(client.echo(&bytes).unwrap(), bytes);
    let begin = client.begin();
    let pending: Vec<_> = (0..3).map(|_| begin.count()).collect();
    drop(begin);
    pending.into_iter().for_each(|each| assert!(each.wait().is_ok()));
    let sealed: Vec<_> = proxy.seen().into_iter().filter(|(packet, _)| is_sealed(packet)).collect();
    let line = |packet: &[u8]| packet.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    let capture = pair.folder.file("capture");
    std::fs::write(&capture, sealed.iter().map(|(packet, _)| line(packet)).collect::<String>()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sealed/decrypt.py");
    let output = python(&[script.as_ref(), capture.as_ref(), log.as_ref()]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), sealed.len(), "every packet opens");
    let shown = text.lines().map(|line| line.matches("a5").count()).sum::<usize>();
    assert!(shown >= 6000, "{shown} bytes of the argument and of the result");
}

#[test]
fn a_caller_whose_provisional_binding_the_server_has_forgotten_binds_again() {
    let pair = Pair::over("udp");
    let mut forgotten: Option<u64> = None;
    let proxy = Proxy::new(&pair.uri(), move |packet, to_server| {
        let mut packet = packet.to_vec();
        let binding = u64::from_le_bytes(packet[8..16].try_into().unwrap());
        let is_call = packet[2] == Kind::Call as u8;
        // Calls of the first handshake are for a binding that the server does not know, as its answers say.
        let is_asked = to_server && is_call && *forgotten.get_or_insert(binding) == binding;
        if is_asked || forgotten.is_some_and(|it| it ^ 1 << 40 == binding) {
            packet[8..16].copy_from_slice(&(binding ^ 1 << 40).to_le_bytes());
        }
        vec![packet]
    });
    assert_eq!(client(&pair, &proxy).count().unwrap(), 1);
}
