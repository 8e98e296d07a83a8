//! The tokens of all places at one moment, and their file, from which a graph goes on.
//!
//! The file has a line `PLACE TOKENS` for each place that has any.

use super::graph::Graph;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Tokens by the numbers of the places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marking(Vec<u32>);

impl Marking {
    /// The marking that a graph begins with.
    pub fn first(graph: &Graph) -> Self {
        Self(graph.tokens.clone())
    }

    /// The marking that a text describes.
    ///
    /// # Errors
    /// What is wrong with its first line that is not right.
    pub fn parse(graph: &Graph, text: &str) -> Result<Self, String> {
        let numbers: HashMap<&str, usize> =
            graph.places.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let mut tokens = vec![0; graph.places.len()];
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (place, count) =
                line.trim().split_once(' ').ok_or_else(|| format!("`{line}` is not `PLACE TOKENS`"))?;
            let place = numbers.get(place).ok_or_else(|| format!("the graph has no place `{place}`"))?;
            tokens[*place] =
                count.trim().parse().map_err(|_| format!("`{count}` is not a number of tokens"))?;
        }
        Ok(Self(tokens))
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, graph: &Graph, file: &Path) -> io::Result<()> {
        let mut text = String::new();
        for (name, tokens) in graph.places.iter().zip(&self.0).filter(|(_, tokens)| **tokens > 0) {
            let _ = writeln!(text, "{name} {tokens}");
        }
        let unfinished = file.with_extension("unfinished");
        std::fs::write(&unfinished, text)?;
        std::fs::rename(unfinished, file)
    }

    /// Takes a token from each input of a node, if each has one.
    pub fn take(&mut self, inputs: &[u32]) -> bool {
        for (taken, &place) in inputs.iter().enumerate() {
            let Some(left) = self.0[place as usize].checked_sub(1) else {
                self.give(&inputs[..taken]);
                return false;
            };
            self.0[place as usize] = left;
        }
        true
    }

    /// Gives a token to each of these places.
    pub fn give(&mut self, places: &[u32]) {
        for &place in places {
            self.0[place as usize] += 1;
        }
    }

    /// The tokens of a place.
    #[cfg(test)]
    pub fn of(&self, place: usize) -> u32 {
        self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_a_token_from_each_input_or_none() {
        let graph = Graph::parse("place a 1\nplace b 0\nnode n empty : a b -> c").expect("it is well formed");
        let mut marking = Marking::first(&graph);
        assert!(!marking.take(graph.inputs(0)));
        assert_eq!(marking.of(0), 1);
        marking.give(&[1]);
        assert!(marking.take(graph.inputs(0)));
        assert_eq!((marking.of(0), marking.of(1)), (0, 0));
    }

    #[test]
    fn a_place_that_is_an_input_twice_needs_two_tokens() {
        let graph = Graph::parse("place a 1\nnode n empty : a a -> b").expect("it is well formed");
        let mut marking = Marking::first(&graph);
        assert!(!marking.take(graph.inputs(0)));
        assert_eq!(marking.of(0), 1);
        marking.give(&[0]);
        assert!(marking.take(graph.inputs(0)));
    }

    #[test]
    fn a_saved_marking_is_read_back() {
        let graph = Graph::parse("place a 3\nnode n empty : a -> b").expect("it is well formed");
        let file = std::env::temp_dir().join(format!("olympus-marking-{}", std::process::id()));
        Marking::first(&graph).save(&graph, &file).expect("it can be written");
        let text = std::fs::read_to_string(&file).expect("it was written");
        std::fs::remove_file(&file).expect("it is there");
        assert_eq!(Marking::parse(&graph, &text), Ok(Marking::first(&graph)));
        assert_eq!(Marking::parse(&graph, "z 1"), Err("the graph has no place `z`".into()));
    }
}
