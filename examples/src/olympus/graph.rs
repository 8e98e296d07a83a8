//! A precedence graph, read from a text file.
//!
//! ```text
//! # A comment. Each line describes a place or a node.
//! place begin 1
//! node kneads sleep 20 : begin -> dough
//! node heats  sleep 30 : begin -> oven
//! node bakes  sleep 50 : dough oven -> bread
//! ```
//!
//! `place NAME TOKENS` gives a place its first tokens; a place that only nodes name has none. `node NAME PROCEDURE [ARGUMENT] : IN… ->
//! OUT…` is a node: when each of its inputs has a token it takes one from each, servers interpret the procedure with the argument (a
//! number, 0 unless given), and each of its outputs receives a token. Of several nodes that want the same token the first in the file
//! takes it. A place may be an input of a node more than once.

use std::collections::HashMap;
use std::fmt;

/// Lists of numbers, one after another: the numbers of list `n` lie between `ends[n - 1]` and `ends[n]`.
#[derive(Debug, Default)]
struct Lists {
    ends: Vec<u32>,
    numbers: Vec<u32>,
}

/// Places and nodes by their numbers, which are their order in the file.
#[derive(Debug, Default)]
pub struct Graph {
    /// The names of the places.
    pub places: Vec<String>,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The names of the procedures that any node has.
    pub procedures: Vec<String>,
    /// The tokens that each place begins with.
    pub tokens: Vec<u32>,
    procedure: Vec<u32>,
    argument: Vec<u64>,
    inputs: Lists,
    outputs: Lists,
    consumers: Lists,
}

/// Why a line of a graph's file cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    line: usize,
    what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

impl Lists {
    fn push(&mut self, list: impl IntoIterator<Item = u32>) {
        self.numbers.extend(list);
        self.ends.push(self.numbers.len() as u32);
    }

    fn of(&self, number: u32) -> &[u32] {
        let begin = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        &self.numbers[begin as usize..self.ends[number as usize] as usize]
    }
}

/// What is only known while the file is read.
#[derive(Default)]
struct Reader {
    graph: Graph,
    places: HashMap<String, u32>,
    nodes: HashMap<String, u32>,
    procedures: HashMap<String, u32>,
}

impl Graph {
    /// The graph that a text describes.
    ///
    /// # Errors
    /// The first line that does not, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            reader.line(line).map_err(|what| ParseError { line: number + 1, what })?;
        }
        let mut graph = reader.graph;
        graph.find_consumers();
        Ok(graph)
    }

    /// The procedure of a node, as a place in `procedures`.
    pub fn procedure(&self, node: u32) -> usize {
        self.procedure[node as usize] as usize
    }

    /// The argument of a node.
    pub fn argument(&self, node: u32) -> u64 {
        self.argument[node as usize]
    }

    /// The places that a node takes tokens from.
    pub fn inputs(&self, node: u32) -> &[u32] {
        self.inputs.of(node)
    }

    /// The places that a node gives tokens to.
    pub fn outputs(&self, node: u32) -> &[u32] {
        self.outputs.of(node)
    }

    /// The nodes that take tokens from a place.
    pub fn consumers(&self, place: u32) -> &[u32] {
        self.consumers.of(place)
    }

    /// Nodes by their distance from the first tokens.
    pub fn layers(&self) -> Vec<Vec<u32>> {
        let mut depth = vec![0_usize; self.places.len()];
        let of = |depth: &[usize], node| {
            self.inputs(node).iter().map(|&place| depth[place as usize]).max().unwrap_or(0)
        };
        // A circle would grow for ever.
        for _ in 0..self.nodes.len() {
            for node in 0..self.nodes.len() as u32 {
                let next = (of(&depth, node) + 1).min(self.nodes.len());
                for &place in self.outputs(node) {
                    depth[place as usize] = depth[place as usize].max(next);
                }
            }
        }
        let mut layers = vec![Vec::new(); self.nodes.len() + 1];
        for node in 0..self.nodes.len() as u32 {
            layers[of(&depth, node)].push(node);
        }
        layers.retain(|layer| !layer.is_empty());
        layers
    }

    /// For each node how many nodes follow it, one after the other, on the longest path behind it. A circle is followed once.
    pub fn followers(&self) -> Vec<u32> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            No,
            Open,
            Known,
        }
        let (mut seen, mut followers) = (vec![Seen::No; self.nodes.len()], vec![0; self.nodes.len()]);
        let next = |node| self.outputs(node).iter().flat_map(|&place| self.consumers(place)).copied();
        let mut stack: Vec<u32> = (0..self.nodes.len() as u32).collect();
        while let Some(&node) = stack.last() {
            let state = &mut seen[node as usize];
            if *state == Seen::No {
                *state = Seen::Open;
                stack.extend(next(node).filter(|&other| seen[other as usize] == Seen::No));
                continue;
            }
            stack.pop();
            if *state == Seen::Open {
                *state = Seen::Known;
                let known = next(node).filter(|&other| seen[other as usize] == Seen::Known && other != node);
                followers[node as usize] =
                    known.map(|other| followers[other as usize] + 1).max().unwrap_or(0);
            }
        }
        followers
    }

    fn find_consumers(&mut self) {
        let mut counts = vec![0_u32; self.places.len() + 1];
        for &place in &self.inputs.numbers {
            counts[place as usize + 1] += 1;
        }
        for place in 1..counts.len() {
            counts[place] += counts[place - 1];
        }
        self.consumers.ends = counts[1..].to_vec();
        self.consumers.numbers = vec![0; self.inputs.numbers.len()];
        for node in 0..self.nodes.len() as u32 {
            for &place in self.inputs.of(node) {
                let next = &mut counts[place as usize];
                self.consumers.numbers[*next as usize] = node;
                *next += 1;
            }
        }
    }
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        match words.next() {
            None => Ok(()),
            Some("place") => self.place(words.collect()),
            Some("node") => self.node(line),
            Some(other) => Err(format!("a line begins with `place` or `node`, not with `{other}`")),
        }
    }

    fn place(&mut self, words: Vec<&str>) -> Result<(), String> {
        let [name, tokens] = words[..] else { return Err("write `place NAME TOKENS`".into()) };
        let tokens = tokens.parse().map_err(|_| format!("`{tokens}` is not a number of tokens"))?;
        let place = self.number_of_place(name);
        self.graph.tokens[place as usize] = tokens;
        Ok(())
    }

    fn node(&mut self, line: &str) -> Result<(), String> {
        let usage = || "write `node NAME PROCEDURE [ARGUMENT] : IN… -> OUT…`".to_owned();
        let (begin, places) = line.split_once(':').ok_or_else(usage)?;
        let (inputs, outputs) = places.split_once("->").ok_or_else(usage)?;
        let words: Vec<&str> = begin.split_whitespace().skip(1).collect();
        let (name, procedure, argument) = match words[..] {
            [name, procedure] => (name, procedure, "0"),
            [name, procedure, argument] => (name, procedure, argument),
            _ => return Err(usage()),
        };
        let argument = argument.parse().map_err(|_| format!("`{argument}` is not a number"))?;
        if inputs.split_whitespace().next().is_none() {
            return Err(format!("the node {name} has no input, and would fire for ever"));
        }
        let number = self.graph.nodes.len() as u32;
        if self.nodes.insert(name.to_owned(), number).is_some() {
            return Err(format!("there is a node {name} already"));
        }
        let inputs: Vec<u32> = inputs.split_whitespace().map(|place| self.number_of_place(place)).collect();
        let outputs: Vec<u32> = outputs.split_whitespace().map(|place| self.number_of_place(place)).collect();
        let procedure = self.number_of_procedure(procedure);
        self.graph.nodes.push(name.to_owned());
        self.graph.procedure.push(procedure);
        self.graph.argument.push(argument);
        self.graph.inputs.push(inputs);
        self.graph.outputs.push(outputs);
        Ok(())
    }

    fn number_of_place(&mut self, name: &str) -> u32 {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.graph.places.len() as u32;
        self.places.insert(name.to_owned(), place);
        self.graph.places.push(name.to_owned());
        self.graph.tokens.push(0);
        place
    }

    fn number_of_procedure(&mut self, name: &str) -> u32 {
        let next = self.procedures.len() as u32;
        let number = *self.procedures.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.graph.procedures.push(name.to_owned());
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAD: &str = "\
        # Bread.\n\
        place begin 2\n\
        node kneads sleep 20 : begin -> dough\n\
        node heats sleep 30 : begin -> oven  # in time\n\
        node bakes bake : dough oven -> bread\n";

    #[test]
    fn places_and_nodes_are_found_by_their_numbers() {
        let graph = Graph::parse(BREAD).expect("it is well formed");
        assert_eq!(graph.nodes, ["kneads", "heats", "bakes"]);
        assert_eq!(graph.procedures, ["sleep", "bake"]);
        assert_eq!((graph.argument(1), graph.argument(2)), (30, 0));
        let oven = graph.places.iter().position(|place| place == "oven").expect("it is there") as u32;
        assert_eq!(graph.outputs(1), [oven]);
        assert_eq!(graph.consumers(oven), [2]);
        assert_eq!(graph.consumers(0), [0, 1], "in the order of the file");
        assert_eq!(graph.tokens[0], 2);
    }

    #[test]
    fn an_error_names_the_line_and_the_form_that_it_should_have() {
        for (text, expected) in [
            ("plaice a 1", "line 1: a line begins with `place` or `node`, not with `plaice`"),
            ("\nplace a", "line 2: write `place NAME TOKENS`"),
            ("place a b", "line 1: `b` is not a number of tokens"),
            ("node a sleep a -> b", "line 1: write `node NAME PROCEDURE [ARGUMENT] : IN… -> OUT…`"),
            ("node a sleep x : a -> b", "line 1: `x` is not a number"),
            ("node a sleep : -> b", "line 1: the node a has no input, and would fire for ever"),
            ("node a sleep : p -> q\nnode a sleep : p -> q", "line 2: there is a node a already"),
        ] {
            let error = Graph::parse(text).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_node_is_in_a_later_layer_than_those_that_it_waits_for() {
        let text = "place a 1\nnode last x : b c -> d\nnode one x : a -> b\nnode two x : a -> c";
        let graph = Graph::parse(text).expect("it is well formed");
        assert_eq!(graph.layers(), [vec![1, 2], vec![0]]);
    }

    #[test]
    fn the_followers_of_a_node_are_those_on_the_longest_path_behind_it() {
        let text = "node a x : 1 -> 2 3\nnode b x : 2 -> 4\nnode c x : 3 -> 5\nnode d x : 4 5 -> 6\nnode e x : 5 -> 7\nnode f x : 6 -> 8";
        assert_eq!(Graph::parse(text).expect("it is well formed").followers(), [3, 2, 2, 1, 0, 0]);
        let circle = "node to x : a -> b\nnode back x : b -> a\nnode self x : c -> c d\nnode end x : d -> e";
        assert_eq!(Graph::parse(circle).expect("it is well formed").followers().len(), 4);
        assert_eq!(Graph::parse(circle).expect("it is well formed").followers()[2..], [1, 0]);
    }

    #[test]
    fn a_circle_has_layers_too() {
        let graph =
            Graph::parse("place a 1\nnode to x : a -> b\nnode back x : b -> a").expect("it is well formed");
        assert_eq!(graph.layers().into_iter().flatten().count(), 2);
    }
}
