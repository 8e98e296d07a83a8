//! Rounds: in each, every peer has its turn, in processes of its own.

use crate::cells::{Cell, Placement};
use crate::options::Options;
use crate::peers::Peer;
use crate::program::{Pair, Sample};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

/// A cell of a peer, and its samples: one for each round, or none if the peer failed.
pub(crate) struct Measured {
    pub(crate) peer: usize,
    pub(crate) placement: Placement,
    pub(crate) cell: Cell,
    pub(crate) name: String,
    pub(crate) rounds: Vec<Option<Sample>>,
}

/// Calls before each cell that do not count.
const WARM: Duration = Duration::from_millis(30);

/// Adds the rounds that `options` ask for to `all`, and calls `after_each` when one is complete.
pub(crate) fn rounds(
    peers: &[Peer],
    options: &Options,
    all: &mut [Measured],
    after_each: impl Fn(&[Measured]) -> io::Result<()>,
) -> io::Result<()> {
    let begin = Instant::now();
    for round in 0..options.rounds {
        for (number, peer) in peers.iter().enumerate() {
            progress(round * peers.len() + number, options.rounds * peers.len(), peer, begin);
            for placement in [Placement::Two, Placement::One] {
                turn(peer, placement, options.time, of(all, number, placement));
            }
        }
        after_each(all)?;
    }
    eprint!("\r\x1b[K");
    Ok(())
}

/// All cells of these peers, without a round.
pub(crate) fn plan(peers: &[Peer]) -> Vec<Measured> {
    let mut all = Vec::new();
    for (number, peer) in peers.iter().enumerate() {
        for placement in [Placement::Two, Placement::One] {
            for cell in placement.cells().into_iter().filter(|cell| peer.can(cell, placement)) {
                let name = peer.title();
                all.push(Measured { peer: number, placement, cell, name, rounds: Vec::new() });
            }
        }
    }
    all
}

fn of(all: &mut [Measured], peer: usize, placement: Placement) -> Vec<&mut Measured> {
    all.iter_mut().filter(|one| one.peer == peer && one.placement == placement).collect()
}

/// Measures the cells of a peer by two new processes. Where the peer fails, the rest of the cells has no sample.
fn turn(peer: &Peer, placement: Placement, time: Duration, mut cells: Vec<&mut Measured>) {
    let samples: Vec<Cell> = cells.iter().map(|measured| measured.cell).collect();
    let (samples, failure) = samples_of(peer, placement, time, &samples);
    if let Some(why) = failure {
        let failed = cells[samples.len().min(cells.len() - 1)].cell.name();
        eprintln!("\r\x1b[K{}, {}: {failed} failed: {why}", peer.title(), placement.name());
    }
    let rounds = samples.into_iter().map(Some).chain(std::iter::repeat(None));
    cells.iter_mut().zip(rounds).for_each(|(measured, sample)| measured.rounds.push(sample));
}

/// The samples of the cells until the peer fails, and the reason for that.
fn samples_of(
    peer: &Peer,
    placement: Placement,
    time: Duration,
    cells: &[Cell],
) -> (Vec<Sample>, Option<Box<dyn Error>>) {
    let mut samples = Vec::new();
    let mut measure = || -> Result<(), Box<dyn Error>> {
        if cells.is_empty() {
            return Ok(());
        }
        let mut pair = Pair::start(peer, placement)?;
        for cell in cells {
            pair.slice(cell, WARM)?;
            samples.push(pair.slice(cell, time)?);
        }
        Ok(())
    };
    let failure = measure().err();
    (samples, failure)
}

fn progress(done: usize, all: usize, peer: &Peer, begin: Instant) {
    let left = match done {
        0 => String::new(),
        _ => {
            let left = begin.elapsed().as_secs() * (all - done) as u64 / done as u64;
            format!(", {}:{:02} left", left / 60, left % 60)
        }
    };
    eprint!("\r\x1b[K{done} of {all}: {}{left}", peer.title());
}
