//! Attacks by packets made by hand, over UDP and Ethernet.

use crate::greedy::means::{LONG, LOOK, tell};
use crate::greedy::port::{Port, announcement, bare, bind_packet, null_call};
use std::io;
use std::thread;
use std::time::Instant;
use stoop_wire::{BindingId, Challenge, Kind};

/// Packets that leave before each pause of [`LOOK`]: fewer than a server's buffer holds.
const BURST: usize = 64;
/// The lanes that a binding may have.
const LANES: u16 = 16_384;
/// Cancels name every fourth lane: memory for lanes is taken for four at a time.
const CANCEL_STEP: u16 = 4;
/// Calls that are announced over each binding.
const ANNOUNCED: u16 = 512;
/// Time between two signs of life on each binding.
const ALIVE: std::time::Duration = std::time::Duration::from_secs(1);

fn failed(error: io::Error) -> String {
    error.to_string()
}

/// Asks for bindings and confirms none, without end.
pub(super) fn half_bind(uri: &str) -> Result<(), String> {
    let port = Port::open(uri).map_err(failed)?;
    tell()?;
    for nonce in 1_u64.. {
        port.send(&bind_packet(nonce, Challenge(0)));
        pause_after(nonce as usize);
    }
    Ok(())
}

/// Over so many bindings, sends a packet about each lane of `lanes`; then only as much as says that the caller lives.
fn hold(
    uri: &str,
    bindings: u64,
    lanes: impl Iterator<Item = u16> + Clone,
    packet: impl Fn(BindingId, u16) -> Vec<u8>,
) -> Result<(), String> {
    let port = Port::open(uri).map_err(failed)?;
    let held =
        (1..=bindings).map(|nonce| port.bind(nonce)).collect::<io::Result<Vec<_>>>().map_err(failed)?;
    for binding in &held {
        for (sent, lane) in lanes.clone().enumerate() {
            port.send(&packet(*binding, lane));
            pause_after(sent);
        }
    }
    tell()?;
    loop {
        let begun = Instant::now();
        let first = lanes.clone().next().unwrap_or(0);
        held.iter().for_each(|binding| port.send(&packet(*binding, first)));
        thread::sleep(ALIVE.saturating_sub(begun.elapsed()));
    }
}

/// Announces long calls of which nothing more comes.
pub(super) fn announce(uri: &str) -> Result<(), String> {
    hold(uri, 16, 1..=ANNOUNCED, |binding, lane| announcement(binding, lane, LONG as u32))
}

/// Cancels calls that were never made, on every fourth lane.
pub(super) fn cancel(uri: &str) -> Result<(), String> {
    let lanes = (0..LANES).step_by(CANCEL_STEP.into());
    hold(uri, 128, lanes, |binding, lane| bare(Kind::Cancel, binding, lane))
}

/// Makes one short call on each lane, so that the server retains all the results.
pub(super) fn retain(uri: &str) -> Result<(), String> {
    hold(uri, 8, 0..LANES, null_call)
}

fn pause_after(sent: usize) {
    if sent.is_multiple_of(BURST) {
        thread::sleep(LOOK);
    }
}
