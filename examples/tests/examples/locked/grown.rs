//! An interface with all kinds of forms.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoop::InPlace;

pub const LEN: usize = 7;
pub type Names = Vec<String>;

#[derive(Clone, Debug, Default, PartialEq, stoop::Data)]
pub struct Options {
    #[stoop(since = 1)]
    pub fast: bool,
}

#[derive(Clone, Debug, PartialEq, stoop::Data)]
pub enum Shape {
    #[stoop(since = 3)]
    Nothing,
    Dot,
    Line(f64, #[stoop(since = 2, default = 1.5)] f64),
    Area {
        #[stoop(since = 1)]
        sides: VecDeque<(u8, Box<Shape>)>,
    },
    #[stoop(otherwise)]
    Other,
}

#[derive(Clone, Debug, PartialEq, stoop::Data)]
pub struct Node {
    #[stoop(shared)]
    pub next: Option<Arc<Node>>,
    pub options: Options,
    pub names: BTreeMap<u32, Names>,
    #[stoop(since = 4, drop)]
    pub hint: Option<Duration>,
}

#[stoop::interface(revision = 4, oldest = 1)]
pub trait Grown {
    fn get(&self, name: &str, #[since(2, default = "x")] other: &str) -> Result<Node, Shape>;
    #[since(3)]
    fn put(&self, #[since(4)] first: Option<&Node>, node: &Node, shapes: &[Shape]);
    #[one_way]
    fn note(&self, shape: Shape, #[since(2)] set: HashSet<char>);
    fn fill(
        &self,
        #[out] bytes: &mut [u8],
        #[out] all: &mut Vec<u32>,
        changed: &mut [u16; LEN],
        nodes: &mut [(u8, u8)],
    );
    fn buffer(&self, buffer: &InPlace<f32>) -> u64;
}
