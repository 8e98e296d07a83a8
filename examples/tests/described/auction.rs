/// Sells things to those who offer most.
#[stoop::interface]
pub trait Auction {
    /// Offers so much for a thing. Returns the number of the bid.
    fn bid(
        &self,
        thing: &str,
        bidder: &str,
        amount: u64,
    ) -> Result<u32, TooLow>;

    /// The latest bid for a thing, as soon as it is not that of this number any
    /// more. Nothing if no other comes in the time of the call.
    fn after(&self, thing: &str, number: u32) -> Option<Bid>;
}

/// A bid that does not count.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct TooLow {
    /// What is offered already.
    pub offered: u64,
}

/// What is offered for a thing.
#[derive(stoop::Data, Clone, Debug, PartialEq)]
pub struct Bid {
    /// How many bids there were, this one among them.
    pub number: u32,
    /// In the least coins.
    pub amount: u64,
    /// Who offers it.
    pub bidder: String,
}
