//! Olympus: precedence graphs, and the interface by which servers interpret their nodes, over Stoop's protocol and Sun RPC.

pub mod graph;
pub mod marking;
pub mod record;
pub mod timeline;

/// A kind of node that a server interprets.
#[derive(stoop::Data, stoop::Xdr, Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The procedure's name in the file of a graph.
    #[xdr(max = 64)]
    pub name: String,
    /// Whether a node may be interpreted once more when nobody knows whether it was.
    pub idempotent: bool,
}

/// How the interpretation of a node ended.
#[derive(stoop::Data, stoop::Xdr, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node has fired.
    Done,
    /// It could not be interpreted, and would not be another time.
    Failed,
    /// The server has no such offer.
    NotOffered,
}

/// Interprets nodes. An offer is named by its place in the list of all.
#[stoop::interface(program = 0x2000_004f, version = 1)]
pub trait Interpreter {
    /// All that this server interprets.
    #[idempotent]
    fn offers(&self) -> Vec<Offer>;

    /// Interprets a node, once or not at all.
    fn interpret(&self, offer: u32, argument: u64) -> Outcome;

    /// Interprets a node of an idempotent offer.
    #[idempotent]
    fn interpret_again(&self, offer: u32, argument: u64) -> Outcome;
}
