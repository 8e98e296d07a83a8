//! What fired where and when, and what follows from that: the critical path, and the parallelism that the graph allows.

use super::graph::Graph;
use std::time::Duration;

/// A node that has fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The node's number.
    pub node: u32,
    /// The server's number.
    pub server: usize,
    /// Since the graph began.
    pub began: Duration,
    /// Since the graph began.
    pub ended: Duration,
}

/// The longest chain of firings of which each waited for the one before, up to one of them.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    time: Duration,
    /// The last firing of it.
    last: Option<u32>,
}

/// All firings, in the order of their ends.
pub struct Record {
    /// In the order of their ends.
    pub firings: Vec<Firing>,
    /// How often a node was given to another server.
    pub repeated: usize,
    /// By firings: the one before in the longest chain to it.
    before: Vec<Option<u32>>,
    /// By places: the longest chain to a token that came there.
    chains: Vec<Chain>,
    longest: Chain,
}

impl Firing {
    /// How long a server had the node.
    pub fn time(&self) -> Duration {
        self.ended.saturating_sub(self.began)
    }
}

impl Record {
    /// Nothing has fired.
    pub fn new(graph: &Graph) -> Self {
        Self {
            firings: Vec::new(),
            repeated: 0,
            before: Vec::new(),
            chains: vec![Chain::default(); graph.places.len()],
            longest: Chain::default(),
        }
    }

    /// Notes a firing; those that it waited for were noted before.
    pub fn fired(&mut self, graph: &Graph, firing: Firing) {
        let chains = graph.inputs(firing.node).iter().map(|&place| self.chains[place as usize]);
        let before = chains.max_by_key(|chain| chain.time).unwrap_or_default();
        let chain = Chain { time: before.time + firing.time(), last: Some(self.firings.len() as u32) };
        for &place in graph.outputs(firing.node) {
            let known = &mut self.chains[place as usize];
            if known.time <= chain.time {
                *known = chain;
            }
        }
        if self.longest.time <= chain.time {
            self.longest = chain;
        }
        self.before.push(before.last);
        self.firings.push(firing);
    }

    /// The longest chain of firings of which each waited for the one before: its time, and the firings in their order.
    pub fn critical_path(&self) -> (Duration, Vec<Firing>) {
        let mut path = Vec::new();
        let mut next = self.longest.last;
        while let Some(number) = next {
            path.push(self.firings[number as usize]);
            next = self.before[number as usize];
        }
        path.reverse();
        (self.longest.time, path)
    }

    /// The time of all firings together.
    pub fn work(&self) -> Duration {
        self.firings.iter().map(Firing::time).sum()
    }

    /// From the first beginning to the last end.
    pub fn span(&self) -> Duration {
        let begin = self.firings.iter().map(|firing| firing.began).min().unwrap_or_default();
        let end = self.firings.iter().map(|firing| firing.ended).max().unwrap_or_default();
        end.saturating_sub(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(node: u32, began: u64, ended: u64) -> Firing {
        Firing { node, server: 0, began: Duration::from_millis(began), ended: Duration::from_millis(ended) }
    }

    #[test]
    fn the_critical_path_is_the_longest_chain_of_tokens() {
        let text =
            "place a 1\nplace b 1\nnode short x : a -> c\nnode long x : b -> d\nnode last x : c d -> e";
        let graph = Graph::parse(text).expect("it is well formed");
        let mut record = Record::new(&graph);
        for firing in [firing(0, 0, 10), firing(1, 0, 30), firing(2, 31, 36)] {
            record.fired(&graph, firing);
        }
        let (time, path) = record.critical_path();
        assert_eq!(time, Duration::from_millis(35));
        assert_eq!(path.iter().map(|firing| firing.node).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((record.work(), record.span()), (Duration::from_millis(45), Duration::from_millis(36)));
    }
}
