//! The layers of a crate as text.

use crate::Import;
use crate::folders::graphs;
use crate::graph::{Graph, Node};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folders of a crate, each with its layers from top to bottom: a line uses only lines below it. Nodes that import
/// each other are joined by `=`.
pub fn layers(files: &[PathBuf], imports: &[Import]) -> String {
    let graphs = graphs(files, imports);
    let mut text = String::new();
    write_folder(&mut text, &graphs, Path::new(""), 0);
    text
}

fn write_folder(text: &mut String, graphs: &BTreeMap<PathBuf, Graph>, folder: &Path, depth: usize) {
    let Some(graph) = graphs.get(folder) else { return };
    for layer in layers_of(graph) {
        let names: Vec<_> = layer.iter().map(|tangle| join(tangle)).collect();
        writeln!(text, "{:indent$}{}", "", names.join("  "), indent = 4 * depth).expect("a string takes all");
        for node in layer.iter().flatten() {
            if let Node::Folder(name) = node {
                writeln!(text, "{:indent$}{name}:", "", indent = 4 * depth + 2).expect("a string takes all");
                write_folder(text, graphs, &folder.join(name), depth + 1);
            }
        }
    }
}

fn join(tangle: &[Node]) -> String {
    tangle.iter().map(ToString::to_string).collect::<Vec<_>>().join(" = ")
}

/// The tangles of a folder, those of one layer together, the top layer first.
fn layers_of(graph: &Graph) -> Vec<Vec<Vec<Node>>> {
    let mut heights = BTreeMap::new();
    let mut rest = graph.tangles();
    for height in 0.. {
        let is_rest = |node: &Node| rest.iter().flatten().any(|other| other == node);
        let (layer, above): (Vec<_>, Vec<_>) = rest.iter().cloned().partition(|tangle| {
            let mut below = tangle.iter().flat_map(|node| graph.targets(node));
            below.all(|node| tangle.contains(node) || !is_rest(node))
        });
        heights.insert(height, layer);
        rest = above;
        if rest.is_empty() {
            break;
        }
    }
    raise_unconnected(graph, &mut heights);
    heights.into_values().rev().filter(|layer| !layer.is_empty()).collect()
}

/// Puts the nodes without any arrow, such as a root that only re-exports, into the top layer.
fn raise_unconnected(graph: &Graph, heights: &mut BTreeMap<usize, Vec<Vec<Node>>>) {
    let is_target = |node: &Node| graph.nodes.iter().any(|from| !graph.imports(from, node).is_empty());
    let is_connected = |node: &Node| graph.targets(node).next().is_some() || is_target(node);
    let bottom = heights.remove(&0).unwrap_or_default();
    let (bottom, unconnected) = bottom.into_iter().partition(|tangle| tangle.iter().any(is_connected));
    heights.insert(0, bottom);
    if let Some(mut top) = heights.last_entry() {
        top.get_mut().extend(unconnected);
        top.get_mut().sort();
    }
}
