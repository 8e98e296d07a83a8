//! Metadata: pairs beside the arguments of a call and beside its results.

pub(crate) mod outgoing;
pub(crate) mod served;
pub(crate) mod trace;

use crate::error::MetadataError;
pub use crate::metadata::outgoing::AnswerMetadata;
pub use crate::metadata::trace::TraceParent;
use std::fmt;
use stoop_wire::metadata::{Block, BlockWriter, IN_PROCEDURE, Key, Pair, is_name};

/// Pairs of a name and bytes that travel beside the arguments of calls, or beside a result.
///
/// A client [carries](#carrying) them in its calls, over every transport; the procedure finds them in its
/// [`current_call`](crate::current_call). A server that knows no metadata ignores them. Names are 1 to 64 bytes of lower-case letters, digits, `.`,
/// `-` and `_`. All pairs of a call take at most 4096 bytes, 3 and the name's length of them beside each value, and are at most 64.
///
/// # Carrying
///
/// ```
/// use stoop::{AnswerMetadata, Metadata, Server, current_call};
///
/// #[stoop::interface]
/// pub trait Store { fn count(&self) -> u64; }
///
/// struct Shelves;
/// impl Store for Shelves {
///     fn count(&self) -> u64 {
///         let call = current_call().expect("a procedure runs in a call");
///         call.set_answer_metadata(Metadata::new().set("shelf", b"north"));
///         match call.metadata().get("tenant") {
///             Some(b"blue") => 7,
///             _ => 0,
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::new().export(StoreServer::new(Shelves)).listen("udp://127.0.0.1:0")?.start()?;
/// let store = StoreClient::bind(&server.uris()[0])?;
/// assert_eq!(store.count()?, 0);
///
/// let answer = AnswerMetadata::new();
/// let of_blue = store.with_metadata(Metadata::new().set("tenant", b"blue")).with_answer_metadata(&answer);
/// assert_eq!(of_blue.count()?, 7);
/// assert_eq!(answer.take().get("shelf"), Some(&b"north"[..]));
/// # Ok(())
/// # }
/// ```
///
/// A pair stays with the calls of its client: the calls that the procedure makes do not carry it, because it may be a credential.
/// [`propagate`](Self::propagate) has them carry it. Only a [trace context](TraceParent) always goes on.
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use = "it does nothing until a client or an answer carries it"]
pub struct Metadata {
    /// A finished block; empty without pairs.
    block: Vec<u8>,
    /// Why a pair could not be added.
    failure: Option<MetadataError>,
}

impl Metadata {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of a block.
    pub(crate) fn of(block: Block<'_>) -> Self {
        match block.pairs().next() {
            Some(_) => Self { block: block.bytes().to_vec(), failure: None },
            None => Self::new(),
        }
    }

    /// Sets the value of a name, in place of an earlier one. The names `traceparent` and `tracestate` are those of W3C Trace Context.
    ///
    /// A pair that cannot travel, or does not fit, fails the calls that are to carry it: [`SendError::Metadata`](crate::error::SendError::Metadata)
    /// says why.
    ///
    /// ```
    /// use stoop::Metadata;
    ///
    /// let metadata = Metadata::new().set("tenant", "blue").set("tenant", b"green"); // the later one counts
    /// assert_eq!(metadata.get("tenant"), Some(&b"green"[..]));
    /// ```
    pub fn set(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match name {
            "traceparent" => {
                let text = std::str::from_utf8(value.as_ref()).ok();
                match text.and_then(|text| text.parse().ok()) {
                    Some(parent) => self.trace_parent(parent),
                    None => self.failed(MetadataError::TraceContext),
                }
            }
            "tracestate" => self.with(&Pair { key: Key::Tracestate, goes_on: true, value: value.as_ref() }),
            name => self.with(&Pair { key: Key::Named(name), goes_on: false, value: value.as_ref() }),
        }
    }

    /// Sets the span that is the parent of those of the calls.
    ///
    /// ```
    /// use stoop::{Metadata, TraceParent};
    ///
    /// // For programs that do not use OpenTelemetry: the calls of this client are of that span.
    /// let span = TraceParent { trace: [7; 16], span: [1; 8], flags: 1 };
    /// let metadata = Metadata::new().trace_parent(span);
    /// assert_eq!(metadata.traced(), Some(span));
    /// ```
    pub fn trace_parent(self, parent: TraceParent) -> Self {
        self.with(&Pair { key: Key::Traceparent, goes_on: true, value: &parent.to_bytes() })
    }

    /// Has the pair that was set last go on: a procedure that was called with it carries it in the calls that it makes, and so on.
    ///
    /// ```
    /// use stoop::Metadata;
    ///
    /// // The request's number goes on to all servers behind the next one; the token stays with it.
    /// let metadata = Metadata::new().set("request", "a81f").propagate().set("token", "secret");
    /// ```
    pub fn propagate(self) -> Self {
        let last = self.pairs().count();
        let mut block = Vec::with_capacity(self.block.len());
        let mut writer = BlockWriter::new(&mut block);
        for (at, pair) in (1..).zip(self.pairs()) {
            // They have been there before.
            let _ = writer.add(&Pair { goes_on: pair.goes_on || at == last, ..pair });
        }
        writer.finish();
        Self { block, failure: self.failure }
    }

    /// The value of a name; `None` if there is none, and for `traceparent`, which is a [`TraceParent`].
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let key = if name == "tracestate" { Key::Tracestate } else { Key::Named(name) };
        self.pairs().find(|pair| pair.key == key).map(|pair| pair.value)
    }

    /// The span of the caller, if it has sent one.
    pub fn traced(&self) -> Option<TraceParent> {
        let pair = self.pairs().find(|pair| pair.key == Key::Traceparent)?;
        TraceParent::from_bytes(pair.value)
    }

    /// The names and values, but that of `traceparent`, in the order in which they were set.
    ///
    /// ```
    /// use stoop::Metadata;
    ///
    /// let metadata = Metadata::new().set("tenant", "blue").set("request", "a81f");
    /// let names: Vec<&str> = metadata.iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["tenant", "request"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.pairs().filter_map(|pair| match pair.key {
            Key::Named(name) => Some((name, pair.value)),
            Key::Tracestate => Some(("tracestate", pair.value)),
            Key::Traceparent | Key::Other(_) => None,
        })
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs().next().is_none()
    }

    /// The same with this pair, in place of an earlier one with its key.
    fn with(self, pair: &Pair<'_>) -> Self {
        if let Key::Named(name) = pair.key
            && !is_name(name)
        {
            return self.failed(MetadataError::Name);
        }
        let mut block = Vec::with_capacity(self.block.len() + 32);
        let mut writer = BlockWriter::new(&mut block);
        let mut others = self.pairs().filter(|other| other.key != pair.key);
        let added = others.try_for_each(|other| writer.add(&other)).and_then(|()| writer.add(pair));
        writer.finish();
        Self { block, failure: self.failure.or(added.err().map(Into::into)) }
    }

    /// The same with these pairs, in place of those with their keys.
    pub(crate) fn and<'p>(self, pairs: impl Iterator<Item = Pair<'p>>) -> Self {
        pairs.fold(self, |metadata, pair| metadata.with(&pair))
    }

    /// The same with the pairs of `more`, in place of those with their keys. If `more` cannot travel, this cannot either.
    pub(crate) fn and_all(self, more: &Self) -> Self {
        let all = self.and(more.pairs());
        Self { failure: all.failure.or(more.failure), ..all }
    }

    fn failed(self, why: MetadataError) -> Self {
        Self { failure: self.failure.or(Some(why)), ..self }
    }

    fn block(&self) -> Block<'_> {
        Block::again(&self.block)
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = Pair<'_>> {
        self.block().pairs()
    }

    /// Its block, which is empty without pairs.
    ///
    /// # Errors
    /// A pair could not be added.
    pub(crate) fn to_send(&self) -> Result<&[u8], MetadataError> {
        self.failure.map_or(Ok(&self.block), Err)
    }
}

impl fmt::Debug for Metadata {
    /// Values may be credentials: only the names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).entries(self.traced()).finish()
    }
}

/// Whether the number of a procedure says that metadata stands behind the arguments.
#[inline(always)]
pub(crate) fn has_metadata(procedure: u16) -> bool {
    procedure & IN_PROCEDURE != 0
}

/// The number of a procedure alone.
#[inline]
pub(crate) fn without_metadata(procedure: u16) -> u16 {
    procedure & !IN_PROCEDURE
}

#[cfg(test)]
mod tests;
