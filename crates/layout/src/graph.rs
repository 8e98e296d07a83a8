//! The arrows between the files and subfolders of one folder.

use crate::Import;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// A direct file or a subfolder of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Folder(String),
    File(String),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(name) => write!(f, "{name}/"),
            Self::File(name) => f.write_str(name),
        }
    }
}

/// The files and subfolders of one folder, and the imports between them.
#[derive(Clone, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) nodes: BTreeSet<Node>,
    pub(crate) arrows: BTreeMap<Node, BTreeMap<Node, Vec<&'a Import>>>,
}

impl<'a> Graph<'a> {
    pub(crate) fn add(&mut self, from: Node, to: Node, import: &'a Import) {
        self.arrows.entry(from).or_default().entry(to).or_default().push(import);
    }

    pub(crate) fn imports(&self, from: &Node, to: &Node) -> &[&'a Import] {
        self.arrows.get(from).and_then(|targets| targets.get(to)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn remove(&mut self, from: &Node, to: &Node) {
        self.arrows.get_mut(from).and_then(|targets| targets.remove(to));
    }

    pub(crate) fn targets(&self, from: &Node) -> impl Iterator<Item = &Node> {
        self.arrows.get(from).into_iter().flat_map(BTreeMap::keys)
    }

    /// For each node that arrows lead to from `from`, the node before it on a shortest way.
    fn reach(&self, from: &Node) -> BTreeMap<Node, Node> {
        let mut before = BTreeMap::new();
        let mut queue = VecDeque::from([from.clone()]);
        while let Some(node) = queue.pop_front() {
            for next in self.targets(&node) {
                if !before.contains_key(next) {
                    before.insert(next.clone(), node.clone());
                    queue.push_back(next.clone());
                }
            }
        }
        before
    }

    /// A shortest circle through `node`, which it begins and ends with.
    pub(crate) fn circle(&self, node: &Node) -> Option<Vec<Node>> {
        let before = self.reach(node);
        let mut circle = vec![node.clone(), before.get(node)?.clone()];
        while circle.last() != Some(node) {
            circle.push(before[&circle[circle.len() - 1]].clone());
        }
        circle.reverse();
        Some(circle)
    }

    /// Sets of nodes in which each reaches each other; a node that is in no circle is alone in its set.
    pub(crate) fn tangles(&self) -> Vec<Vec<Node>> {
        let reached: BTreeMap<_, _> = self.nodes.iter().map(|node| (node, self.reach(node))).collect();
        let mut rest = self.nodes.clone();
        let mut tangles = Vec::new();
        while let Some(node) = rest.pop_first() {
            let is_with =
                |other: &Node| reached[&node].contains_key(other) && reached[other].contains_key(&node);
            let with: Vec<_> = rest.iter().filter(|other| is_with(other)).cloned().collect();
            with.iter().for_each(|other| {
                rest.remove(other);
            });
            tangles.push([vec![node], with].concat());
        }
        tangles
    }
}
