//! Mistakes on purpose: a checker that cannot fail is no checker.

/// A mistake built into the drivers around the protocol, to see that the checkers notice it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// A caller sends its call again under a new binding, even if the server was restarted.
    ResendAnyway,
    /// A caller sends its call again under a new binding of the same server, however long ago it was first sent.
    ResendHoweverOld,
    /// A restarted server draws the secret of its predecessor, and so the same bindings.
    SameSecret,
    /// The server takes every call packet for a new call.
    DuplicatesAsNew,
    /// A caller puts parts of results in the wrong place.
    MisplacedParts,
    /// A caller takes more for granted than the server has room for.
    IgnoresLimits,
    /// The server refuses a cancelled call in its queue and yet keeps it.
    RunsCancelled,
    /// The server refuses a call for overload and yet keeps it.
    RefuseButRun,
}
