/// Interprets nodes. An offer is named by its place in the list of all.
#[stoop::interface]
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

/// A kind of node that a server interprets.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Offer {
    /// The procedure's name in the file of a graph.
    pub name: String,
    /// Whether a node may be interpreted once more when nobody knows whether it
    /// was.
    pub idempotent: bool,
}

/// How the interpretation of a node ended.
#[derive(stoop::Data, Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The node has fired.
    Done,
    /// It could not be interpreted, and would not be another time.
    Failed,
    /// The server has no such offer.
    NotOffered,
}
