//! What the calls of a client carry, and the block of one call.

use crate::error::MetadataError;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::metadata::trace::CurrentSpan;
use crate::metadata::{Metadata, served};
use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex};
use stoop_marshal::DecodeError;
use stoop_wire::metadata::{Block, BlockWriter};

/// The metadata of the last answer to a call of a client, for
/// [`with_answer_metadata`](crate::Metadata#carrying).
///
/// Clones share it. Each result replaces what an earlier one has brought; an answer without a result brings none.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use stoop::{AnswerMetadata, Metadata, Server, current_call};
///
/// #[stoop::interface]
/// trait Clock { fn now(&self) -> u64; }
///
/// struct Wall;
/// impl Clock for Wall {
///     fn now(&self) -> u64 {
///         current_call().expect("a procedure runs in a call").set_answer_metadata(Metadata::new().set("zone", "UTC"));
///         7
///     }
/// }
///
/// let server = Server::new().export(ClockServer::new(Wall)).listen("tcp://127.0.0.1:0")?.start()?;
/// let answer = AnswerMetadata::new();
/// let clock = ClockClient::bind(&server.uris()[0])?.with_answer_metadata(&answer);
/// clock.now()?;
/// assert_eq!(answer.take().get("zone"), Some(&b"UTC"[..]));
/// assert!(answer.take().is_empty()); // it was taken
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AnswerMetadata(Arc<Mutex<Metadata>>);

impl AnswerMetadata {
    /// No metadata yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the metadata of the last result. None is left.
    pub fn take(&self) -> Metadata {
        mem::take(&mut *locked(&self.0))
    }

    pub(crate) fn put(&self, metadata: Metadata) {
        *locked(&self.0) = metadata;
    }
}

/// What the calls of a client carry, and where the metadata of its answers goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) metadata: Metadata,
    pub(crate) answer: Option<AnswerMetadata>,
    /// A one-way callback takes the place of one that has this, too, and has not left.
    pub(crate) latest: Option<u64>,
}

impl Carried {
    /// The same with other pairs.
    pub(crate) fn with_metadata(carried: Option<&Self>, metadata: Metadata) -> Self {
        Self { metadata, ..carried.cloned().unwrap_or_default() }
    }

    /// The same with another place for the metadata of answers.
    pub(crate) fn with_answer(carried: Option<&Self>, answer: &AnswerMetadata) -> Self {
        Self { answer: Some(answer.clone()), ..carried.cloned().unwrap_or_default() }
    }

    /// The same with another key of one-way callbacks.
    pub(crate) fn with_latest(carried: Option<&Self>, key: u64) -> Self {
        Self { latest: Some(key), ..carried.cloned().unwrap_or_default() }
    }

    /// Whether calls send nothing for it. Pairs that cannot travel are none, and their call fails.
    fn has_none(&self) -> bool {
        self.answer.is_none() && self.metadata.to_send().is_ok_and(<[u8]>::is_empty)
    }

    /// A result has brought this block.
    pub(crate) fn note_answer(&self, block: Block<'_>) {
        if let Some(answer) = &self.answer {
            answer.put(Metadata::of(block));
        }
    }
}

thread_local! {
    /// Memory for blocks.
    static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The block of a call that is being made.
#[derive(Debug)]
pub(crate) struct Outgoing(Vec<u8>);

impl Outgoing {
    /// That of a call which this thread makes by a client that carries `carried`, in `span`, to a server that takes blocks of `most`
    /// bytes. `None`: the call carries nothing, or the server knows no metadata.
    ///
    /// # Errors
    /// It cannot be sent.
    pub(crate) fn new(
        carried: Option<&Carried>,
        span: Option<&CurrentSpan>,
        most: usize,
    ) -> Result<Option<Self>, MetadataError> {
        if carried.is_none_or(Carried::has_none) && span.is_none() && !served::goes_on() {
            return Ok(None);
        }
        // A thread that ends has none.
        let mut outgoing = Self(UNUSED.try_with(RefCell::take).unwrap_or_default());
        outgoing.0.clear();
        put_block(&mut outgoing.0, carried.map(|carried| &carried.metadata), span, most)?;
        Ok((most > 0).then_some(outgoing))
    }

    pub(crate) fn block(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Outgoing {
    /// A thread that ends has no place for it any more.
    fn drop(&mut self) {
        let block = mem::take(&mut self.0);
        let _ = UNUSED.try_with(|unused| unused.replace(block));
    }
}

/// Writes the block of a call: these pairs, the pairs of the served call that go on, and the identity of the span; of those with one key
/// the first.
fn put_block(
    block: &mut Vec<u8>,
    own: Option<&Metadata>,
    span: Option<&CurrentSpan>,
    most: usize,
) -> Result<(), MetadataError> {
    let own_block = own.map_or(Ok(&[][..]), Metadata::to_send)?;
    if span.is_none() && !served::goes_on() && !own_block.is_empty() {
        block.extend_from_slice(own_block);
    } else {
        let mut writer = BlockWriter::new(block);
        let own = || own.into_iter().flat_map(Metadata::pairs);
        let mut added = own().try_for_each(|pair| writer.add(&pair));
        served::for_each_going_on(&mut |pair| {
            if added.is_ok() && !pair.key.is_of_trace() && own().all(|own| own.key != pair.key) {
                added = writer.add(&pair);
            }
        });
        added?;
        // A state belongs to its parent. What finds no room of a trace stays behind: no call fails for it.
        let is_traced = own().any(|pair| pair.key.is_of_trace());
        match span {
            _ if is_traced => {}
            Some(span) => drop(span.add_to(&mut writer)),
            None => served::for_each_going_on(&mut |pair| {
                if pair.key.is_of_trace() {
                    let _ = writer.add(&pair);
                }
            }),
        }
        writer.finish();
    }
    if most > 0 && block.len() > most { Err(MetadataError::TooLong { most }) } else { Ok(()) }
}

/// The block behind the result of a call that had one.
///
/// # Errors
/// There is none.
pub(crate) fn block_of_result(message: &[u8]) -> Result<(&[u8], Block<'_>), CallError> {
    Block::split(message).map_err(|_| CallError::Peer(DecodeError::Truncated, None))
}

impl From<MetadataError> for CallError {
    fn from(why: MetadataError) -> Self {
        Self::not_sent(SendError::Metadata(why))
    }
}
