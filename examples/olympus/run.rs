//! Runs a graph: begins the nodes that are ready at servers with room, by calls that do not block, and hands on tokens as they end.

use crate::servers::Servers;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use stoop::{CallError, Pending, Ran};
use stoop_examples::olympus::Outcome;
use stoop_examples::olympus::graph::Graph;
use stoop_examples::olympus::marking::Marking;
use stoop_examples::olympus::record::{Firing, Record};

/// A node that a server was given.
#[derive(Clone, Copy)]
struct Given {
    node: u32,
    server: usize,
    idempotent: bool,
    began: Duration,
}

/// A node that a server interprets.
struct Flight {
    given: Given,
    call: Pending<Result<Outcome, CallError>>,
}

/// Why a graph stopped before all that could fire has fired.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A server said that the node cannot be interpreted.
    Failed { node: String, server: String },
    /// Nobody knows whether the node was interpreted, and it must not be twice.
    Unknown { node: String, server: String, why: CallError },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { node, server } => {
                write!(f, "the node {node} failed at {server}; its tokens are in its inputs again")
            }
            Self::Unknown { node, server, why } => write!(
                f,
                "nobody knows whether the node {node} was interpreted at {server}, and its procedure is not idempotent: find out, and move \
                 its tokens to its outputs in the marking if it was. {why}"
            ),
        }
    }
}

/// A graph that runs.
pub(crate) struct Run<'a> {
    graph: &'a Graph,
    /// For each node how long the path behind it is.
    followers: Vec<u32>,
    servers: Servers,
    marking: Marking,
    /// Nodes that have taken their tokens, by the graph's procedures.
    ready: Vec<VecDeque<u32>>,
    ready_count: usize,
    flights: VecDeque<Flight>,
    record: Record,
    begin: Instant,
    waker: Waker,
    stop: Option<Stop>,
}

/// What is left when a graph has ended or stopped.
pub(crate) struct Ended {
    pub(crate) marking: Marking,
    pub(crate) record: Record,
    /// The servers' addresses by the numbers that the record has.
    pub(crate) servers: Vec<String>,
    pub(crate) stop: Option<Stop>,
}

/// How far a graph has come.
pub(crate) struct State<'a> {
    pub(crate) record: &'a Record,
    /// The nodes that are interpreted now.
    pub(crate) in_flight: Vec<u32>,
    pub(crate) ready: usize,
    /// The procedures of nodes that are ready.
    pub(crate) ready_procedures: Vec<&'a str>,
    pub(crate) servers: &'a Servers,
    pub(crate) elapsed: Duration,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How long the thread receives answers itself before it sleeps until any call ends.
const RECEIVES: Duration = Duration::from_micros(200);

/// How often the picture is drawn, and the longest sleep.
pub(crate) const FRAME: Duration = Duration::from_millis(100);

impl<'a> Run<'a> {
    pub(crate) fn new(graph: &'a Graph, servers: Servers, marking: Marking) -> Self {
        let mut run = Self {
            graph,
            followers: graph.followers(),
            servers,
            marking,
            ready: vec![VecDeque::new(); graph.procedures.len()],
            ready_count: 0,
            flights: VecDeque::new(),
            record: Record::new(graph),
            begin: Instant::now(),
            waker: Waker::from(Arc::new(Unpark(thread::current()))),
            stop: None,
        };
        for node in 0..graph.nodes.len() as u32 {
            run.make_ready(node);
        }
        run
    }

    /// Runs until no node can fire, or one must not. `draw` is shown the state ten times a second.
    pub(crate) fn finish(mut self, mut draw: impl FnMut(&State)) -> Ended {
        let mut drawn = Instant::now();
        loop {
            self.servers.join_new();
            if self.stop.is_none() {
                self.begin_ready();
            }
            if self.flights.is_empty() && (self.ready_count == 0 || self.stop.is_some()) {
                break;
            }
            self.wait();
            if drawn.elapsed() >= FRAME {
                drawn = Instant::now();
                draw(&self.state());
            }
        }
        draw(&self.state());
        for node in std::mem::take(&mut self.ready).into_iter().flatten() {
            self.marking.give(self.graph.inputs(node));
        }
        let servers = self.servers.all.iter().map(|server| server.address.uri.clone()).collect();
        Ended { marking: self.marking, record: self.record, servers, stop: self.stop }
    }

    fn state(&self) -> State<'_> {
        State {
            record: &self.record,
            in_flight: self.flights.iter().map(|flight| flight.given.node).collect(),
            ready: self.ready_count,
            ready_procedures: self.ready_procedures(),
            servers: &self.servers,
            elapsed: self.begin.elapsed(),
        }
    }

    fn ready_procedures(&self) -> Vec<&str> {
        let procedures = self.graph.procedures.iter().zip(&self.ready);
        procedures.filter(|(_, ready)| !ready.is_empty()).map(|(name, _)| name.as_str()).collect()
    }

    /// Lets a node take its tokens as often as it can. It goes before those that wait if the path behind it is longer than that behind
    /// the first of them: the longest path decides when the graph ends.
    fn make_ready(&mut self, node: u32) {
        let length = |node: u32| self.followers[node as usize];
        while self.marking.take(self.graph.inputs(node)) {
            let ready = &mut self.ready[self.graph.procedure(node)];
            match ready.front() {
                Some(&first) if length(node) > length(first) => ready.push_front(node),
                _ => ready.push_back(node),
            }
            self.ready_count += 1;
        }
    }

    /// Begins nodes in turns, in each of them an equal share at every server, until none is ready or no server has room.
    fn begin_ready(&mut self) {
        loop {
            let up = self.servers.all.iter().filter(|server| server.is_up).count();
            let share = self.ready_count.div_ceil(up.max(1));
            let before = self.ready_count;
            for server in 0..self.servers.all.len() {
                self.begin_at(server, share);
            }
            if self.ready_count == before || self.ready_count == 0 {
                return;
            }
        }
    }

    fn begin_at(&mut self, number: usize, share: usize) {
        let server = &mut self.servers.all[number];
        let mut room = server.address.limit.saturating_sub(server.in_flight).min(share);
        if !server.is_up || room == 0 || self.ready_count == 0 {
            return;
        }
        let began = self.begin.elapsed();
        // They leave together when the batch is dropped.
        let batch = server.client.begin();
        for (offer, ready) in server.offers.iter().zip(&mut self.ready) {
            let Some((offer, idempotent)) = *offer else { continue };
            while room > 0
                && let Some(node) = ready.pop_front()
            {
                let argument = self.graph.argument(node);
                let call = match idempotent {
                    true => batch.interpret_again(offer, argument),
                    false => batch.interpret(offer, argument),
                };
                let given = Given { node, server: number, idempotent, began };
                self.flights.push_back(Flight { given, call });
                self.ready_count -= 1;
                server.in_flight += 1;
                room -= 1;
            }
        }
    }

    /// Waits until a node has ended, a server was bound, or the picture is due, and ends all nodes that have.
    fn wait(&mut self) {
        // While answers come fast, the thread that waits for the oldest receives all of them itself.
        match self.flights.pop_front().map(|flight| flight.wait_timeout(RECEIVES)) {
            None => return thread::park_timeout(FRAME),
            Some(Ok((given, outcome))) => self.end(given, outcome),
            Some(Err(flight)) => {
                self.flights.push_front(flight);
                return self.sleep();
            }
        }
        for _ in 0..self.flights.len() {
            let Some(flight) = self.flights.pop_front() else { return };
            if flight.call.is_ready() {
                self.end(flight.given, flight.call.wait());
            } else {
                self.flights.push_back(flight);
            }
        }
    }

    /// Sleeps until any call ends, and ends those that have.
    fn sleep(&mut self) {
        let before = self.flights.len();
        for _ in 0..before {
            let Some(mut flight) = self.flights.pop_front() else { return };
            match Pin::new(&mut flight.call).poll(&mut Context::from_waker(&self.waker)) {
                Poll::Ready(outcome) => self.end(flight.given, outcome),
                Poll::Pending => self.flights.push_back(flight),
            }
        }
        if self.flights.len() == before {
            thread::park_timeout(FRAME);
        }
    }

    fn end(&mut self, given: Given, outcome: Result<Outcome, CallError>) {
        let Given { node, server, idempotent, .. } = given;
        self.servers.all[server].in_flight -= 1;
        match outcome {
            Ok(Outcome::Done) => self.fire(given),
            Ok(Outcome::Failed) => {
                self.marking.give(self.graph.inputs(node));
                let (node, server) = self.names(node, server);
                self.stop.get_or_insert(Stop::Failed { node, server });
            }
            Ok(Outcome::NotOffered) => self.again(node, server),
            Err(why) if idempotent || why.ran() == Ran::No => self.again(node, server),
            Err(why) => {
                self.marking.give(self.graph.inputs(node));
                let (node, server) = self.names(node, server);
                self.stop.get_or_insert(Stop::Unknown { node, server, why });
            }
        }
    }

    fn fire(&mut self, given: Given) {
        let (node, graph) = (given.node, self.graph);
        self.record.fired(
            graph,
            Firing { node, server: given.server, began: given.began, ended: self.begin.elapsed() },
        );
        self.marking.give(graph.outputs(node));
        for &place in graph.outputs(node) {
            for &consumer in graph.consumers(place) {
                self.make_ready(consumer);
            }
        }
    }

    /// Another server, or this one in its next life, interprets the node.
    fn again(&mut self, node: u32, server: usize) {
        self.servers.is_gone(server);
        self.record.repeated += 1;
        self.ready[self.graph.procedure(node)].push_front(node);
        self.ready_count += 1;
    }

    fn names(&self, node: u32, server: usize) -> (String, String) {
        (self.graph.nodes[node as usize].clone(), self.servers.all[server].address.uri.clone())
    }
}

impl Flight {
    /// The outcome of the call, if it ends within the limit.
    fn wait_timeout(self, limit: Duration) -> Result<(Given, Result<Outcome, CallError>), Self> {
        let given = self.given;
        self.call.wait_timeout(limit).map(|outcome| (given, outcome)).map_err(|call| Self { given, call })
    }
}
