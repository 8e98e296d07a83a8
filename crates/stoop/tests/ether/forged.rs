//! A host of the Ethernet that sees the calls of others and forges their results.

use crate::harness::ethernet;
use crate::harness::ethernet::raw::{EndOfAttack, Raw, frame};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use stoop::Server;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, Frame, OVERHEAD};

#[stoop::interface]
trait Doubler {
    fn double(&self, number: u64) -> u64;
}

struct Honest;

impl Doubler for Honest {
    fn double(&self, number: u64) -> u64 {
        2 * number
    }
}

/// A packet socket at the servers' interface.
struct Attacker(Raw);

impl Attacker {
    /// Forges results of the next call, if one comes. Returns how many.
    fn attack(&self) -> usize {
        let mut buffer = [0; 2048];
        let Some(frame) = self.0.receive(&mut buffer) else { return 0 };
        let Ok(frame) = Frame::parse(frame, EtherType::default()) else { return 0 };
        const CALL: u8 = 3;
        if frame.packets().len() < 40 || frame.packets()[2] != CALL {
            return 0;
        }
        let forged = forgeries(&frame);
        for frame in &forged {
            self.0.send(frame);
        }
        forged.len()
    }
}

/// Results with a wrong number: from other endpoints, for another binding, and damaged.
fn forgeries(call: &Frame<'_>) -> Vec<Vec<u8>> {
    let (caller, server) = (call.from(), call.to());
    let mut result = call.packets()[..40].to_vec();
    // Kind 4, result, of eight bytes.
    result[2] = 4;
    result[20..24].copy_from_slice(&8u32.to_le_bytes());
    result[24..32].fill(0);
    result[32..40].copy_from_slice(&1u64.to_le_bytes());
    let mut of_another_binding = result.clone();
    of_another_binding[9] ^= 1;
    let elsewhere = Address { mac: Mac([2, 0, 0, 0, 0, 0x66]), ..server };
    let another_port = Address { port: server.port ^ 1, ..server };
    let mut damaged = frame(server, caller, Checksum::Computed, &result);
    damaged[OVERHEAD + 33] ^= 1;
    vec![
        frame(elsewhere, caller, Checksum::Computed, &result),
        frame(another_port, caller, Checksum::Computed, &result),
        frame(caller, caller, Checksum::Computed, &result),
        frame(server, caller, Checksum::Omitted, &result),
        frame(server, caller, Checksum::Computed, &of_another_binding),
        frame(server, caller, Checksum::Computed, &result[..20]),
        damaged,
    ]
}

#[test]
fn forged_results_are_not_believed() {
    for parameters in ["", "?backend=xdp-generic"] {
        if !ethernet::enter() {
            return;
        }
        let (server, attacker) = ethernet::at_servers(|| {
            let server = Server::new().security(stoop::Security::none()).export(DoublerServer::new(Honest));
            (server.listen(&ethernet::address("")).unwrap().start().unwrap(), Attacker(Raw::open()))
        });
        let client = DoublerClient::bind(&format!("{}{parameters}", server.uris()[0])).unwrap();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let attack = scope.spawn(|| {
                let mut forged = 0;
                while !has_ended.load(Ordering::Relaxed) {
                    forged += attacker.attack();
                }
                forged
            });
            let end = EndOfAttack(&has_ended);
            for number in 0..1000 {
                assert_eq!(client.double(number).unwrap(), 2 * number);
                if number % 4 == 0 {
                    assert_eq!(client.begin().double(number).wait().unwrap(), 2 * number);
                }
            }
            drop(end);
            assert!(attack.join().unwrap() > 0, "the attacker has seen no call");
        });
    }
}
