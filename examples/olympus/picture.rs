//! The graph in the terminal while it runs, redrawn in its place.

use crate::run::State;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use stoop_examples::olympus::graph::Graph;

/// A picture on the terminal, if there is one.
pub(crate) struct Picture<'a> {
    graph: &'a Graph,
    /// Nodes by how many firings must come before, if the graph is small enough to be drawn.
    layers: Vec<Vec<u32>>,
    /// Lines that the last frame had.
    lines: usize,
    fired: Vec<u32>,
    counted: usize,
    terminal: bool,
    /// Frames since a node was interpreted, while some are ready.
    idle: usize,
}

/// So many frames without a node that is interpreted are said: a second.
const IDLE: usize = 10;

/// More nodes are a bar, not a picture.
const DRAWN: usize = 60;

const BAR: usize = 50;

impl<'a> Picture<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Self {
        let layers = if graph.nodes.len() <= DRAWN { graph.layers() } else { Vec::new() };
        let terminal = std::io::stderr().is_terminal();
        Self { graph, layers, lines: 0, fired: vec![0; graph.nodes.len()], counted: 0, terminal, idle: 0 }
    }

    pub(crate) fn draw(&mut self, state: &State) {
        self.idle = if state.ready > 0 && state.in_flight.is_empty() { self.idle + 1 } else { 0 };
        if !self.terminal {
            if self.idle == IDLE {
                eprintln!("{}", wanted(state));
            }
            return;
        }
        let frame = self.frame(state);
        let up = if self.lines == 0 { String::new() } else { format!("\x1b[{}A", self.lines) };
        self.lines = frame.lines().count();
        // A terminal that has gone is no reason to stop.
        let _ = write!(std::io::stderr(), "{up}\x1b[J{frame}");
    }

    fn frame(&mut self, state: &State) -> String {
        for firing in &state.record.firings[self.counted..] {
            self.fired[firing.node as usize] += 1;
        }
        self.counted = state.record.firings.len();
        let mut running: HashMap<u32, usize> = HashMap::new();
        state.in_flight.iter().for_each(|node| *running.entry(*node).or_default() += 1);
        let mut out = String::new();
        let busy = state.in_flight.len();
        let _ = writeln!(
            out,
            "{:.1?}: {} fired, {busy} running, {} ready",
            state.elapsed, self.counted, state.ready
        );
        for server in &state.servers.all {
            let sign = if server.is_up { "" } else { " (does not answer)" };
            let _ = writeln!(
                out,
                "  {} of {} at {}{sign}",
                server.in_flight, server.address.limit, server.address.uri
            );
        }
        if self.idle >= IDLE {
            let _ = writeln!(out, "  {}", wanted(state));
        }
        if self.layers.is_empty() {
            let done = self.fired.iter().filter(|count| **count > 0).count() * BAR / self.fired.len().max(1);
            let _ = writeln!(out, "  [{}{}]", "█".repeat(done), "·".repeat(BAR - done));
        }
        for layer in &self.layers {
            let nodes: Vec<String> = layer.iter().map(|node| self.node(*node, &running)).collect();
            let _ = writeln!(out, "  {}", nodes.join("  "));
        }
        out
    }

    /// A node's name after what it does: it waits, runs, or has fired.
    fn node(&self, node: u32, running: &HashMap<u32, usize>) -> String {
        let name = &self.graph.nodes[node as usize];
        match (running.get(&node), self.fired[node as usize]) {
            (Some(_), _) => format!("\x1b[33m▶ {name}\x1b[0m"),
            (None, 0) => format!("· {name}"),
            (None, 1) => format!("\x1b[32m✔ {name}\x1b[0m"),
            (None, times) => format!("\x1b[32m✔ {name} ×{times}\x1b[0m"),
        }
    }
}

/// The procedures of ready nodes that no server interprets.
fn wanted(state: &State) -> String {
    format!("waiting for a server that offers {}", state.ready_procedures.join(", "))
}
