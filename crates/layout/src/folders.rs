//! The rule itself: in which folders circles of imports are found that may not be there.

use crate::Import;
use crate::graph::{Graph, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// The most files of one folder that may import each other in a circle.
pub const MAX_CIRCLE: usize = 4;

/// A circle of imports that breaks the rule.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The folder that the circle is in, below `src`.
    pub folder: PathBuf,
    /// All files and subfolders of the folder that reach each other. Subfolders end with a slash.
    pub tangle: Vec<String>,
    /// The nodes of a shortest circle among these; the last is the first again.
    pub circle: Vec<String>,
    /// The arrow of the circle with the fewest imports: the one to turn.
    pub weakest: (String, String),
    /// The imports of that arrow.
    pub imports: Vec<Import>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "src/{}: circle {}", self.folder.display(), self.circle.join(" → "))?;
        if self.tangle.len() + 1 > self.circle.len() {
            writeln!(f, "  all that reach each other: {}", self.tangle.join(", "))?;
        }
        writeln!(f, "  turn {} → {}, the arrow with the fewest imports:", self.weakest.0, self.weakest.1)?;
        for import in &self.imports {
            let (from, to) = (import.from.display(), import.to.display());
            writeln!(f, "    src/{from}:{}: {} (defined in {to})", import.line, import.path)?;
        }
        Ok(())
    }
}

/// The circles that break the rule. When the arrows that the faults name are gone, so are all such circles.
pub fn faults(files: &[PathBuf], imports: &[Import]) -> Vec<Fault> {
    let folders = graphs(files, imports);
    folders.into_iter().flat_map(|(folder, graph)| faults_of(&folder, graph)).collect()
}

fn faults_of(folder: &Path, mut graph: Graph) -> Vec<Fault> {
    let mut faults = Vec::new();
    while let Some(tangle) = graph.tangles().into_iter().find(|tangle| is_forbidden(tangle)) {
        let circle = shortest_circle(&graph, &tangle);
        let (from, to) = weakest_arrow(&graph, &circle);
        faults.push(Fault {
            folder: folder.to_owned(),
            tangle: tangle.iter().map(ToString::to_string).collect(),
            circle: circle.iter().map(ToString::to_string).collect(),
            weakest: (from.to_string(), to.to_string()),
            imports: graph.imports(&from, &to).iter().map(|&import| import.clone()).collect(),
        });
        graph.remove(&from, &to);
    }
    faults
}

fn is_forbidden(tangle: &[Node]) -> bool {
    let has_folder = tangle.iter().any(|node| matches!(node, Node::Folder(_)));
    tangle.len() > MAX_CIRCLE || tangle.len() > 1 && has_folder
}

/// A shortest circle of the tangle, through a folder if it has any.
fn shortest_circle(graph: &Graph, tangle: &[Node]) -> Vec<Node> {
    let circles = |is_wanted: fn(&&Node) -> bool| {
        tangle.iter().filter(is_wanted).filter_map(|node| graph.circle(node)).min_by_key(Vec::len)
    };
    circles(|node| matches!(node, Node::Folder(_)))
        .or_else(|| circles(|_| true))
        .expect("the nodes of a tangle reach each other")
}

fn weakest_arrow(graph: &Graph, circle: &[Node]) -> (Node, Node) {
    let arrows = circle.windows(2).map(|arrow| (arrow[0].clone(), arrow[1].clone()));
    arrows.min_by_key(|(from, to)| graph.imports(from, to).len()).expect("a circle has arrows")
}

/// The graph of each folder, by its path below `src`.
pub(crate) fn graphs<'a>(files: &[PathBuf], imports: &'a [Import]) -> BTreeMap<PathBuf, Graph<'a>> {
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    let mut graphs = BTreeMap::<PathBuf, Graph>::new();
    for file in files {
        add_nodes(&mut graphs, &folder_of(file, &folders), file);
    }
    for import in imports {
        let (from, to) = (folder_of(&import.from, &folders), folder_of(&import.to, &folders));
        let common = common_folder(&from, &to);
        let (from, to) = (node_in(&common, &from, &import.from), node_in(&common, &to, &import.to));
        graphs.entry(common).or_default().add(from, to, import);
    }
    graphs
}

/// Adds a file to the folder that it is in, and each folder to the one above.
fn add_nodes(graphs: &mut BTreeMap<PathBuf, Graph<'_>>, folder: &Path, file: &Path) {
    for above in folder.ancestors() {
        graphs.entry(above.to_owned()).or_default().nodes.insert(node_in(above, folder, file));
    }
}

/// The folder that a file belongs to: `foo.rs` belongs to `foo/`, if other files do.
fn folder_of(file: &Path, folders: &BTreeSet<&Path>) -> PathBuf {
    let own = file.with_extension("");
    let parent = file.parent().unwrap_or(Path::new(""));
    let has_files = folders.iter().any(|folder| folder.starts_with(&own));
    if has_files { own } else { parent.to_owned() }
}

fn common_folder(one: &Path, other: &Path) -> PathBuf {
    let pairs = one.components().zip(other.components());
    pairs.take_while(|(one, other)| one == other).map(|(one, _)| one).collect()
}

/// The node for a file of `folder` in the graph of `above`, which is that folder or one above it.
fn node_in(above: &Path, folder: &Path, file: &Path) -> Node {
    let below = folder.strip_prefix(above).expect("the folder lies below");
    let name = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    match below.components().next() {
        Some(subfolder) => Node::Folder(name(Some(subfolder.as_os_str()))),
        None => Node::File(name(file.file_name())),
    }
}
