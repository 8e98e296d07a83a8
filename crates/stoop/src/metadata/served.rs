//! The metadata of the call that a thread serves, and that of its answer.

use crate::locked::locked;
use crate::metadata::Metadata;
#[cfg(feature = "opentelemetry")]
use crate::metadata::TraceParent;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Mutex, PoisonError};
#[cfg(feature = "opentelemetry")]
use stoop_wire::metadata::Key;
use stoop_wire::metadata::{Block, BlockWriter, Pair};

/// The metadata of a call that is served.
#[derive(Debug, Default)]
pub(crate) struct CallMetadata {
    /// A copy: the message may be in memory that other code uses.
    block: Vec<u8>,
    /// Whether some pairs go on.
    goes_on: bool,
    answer: Mutex<Metadata>,
    /// Its share of the memory for what open calls keep, if it is long and the call may become an open one.
    counted: Mutex<Option<Box<dyn Any + Send>>>,
}

thread_local! {
    /// That of the call which the thread serves, if the call has some. Outside of calls it is `None`, so that it needs no drop, and is there
    /// also while the thread ends.
    static SERVED: RefCell<ManuallyDrop<Option<Arc<CallMetadata>>>> = const { RefCell::new(ManuallyDrop::new(None)) };
    /// Why calls of this thread need care: they carry pairs of the call that it serves ([`GOES_ON`]), or that is a callback
    /// ([`IN_CALLBACK`]). A cell of its own, because every call reads it.
    static CARE: Cell<u8> = const { Cell::new(0) };
    /// Serves one call after the other.
    static UNUSED: Cell<Option<Arc<CallMetadata>>> = const { Cell::new(None) };
}

/// Bits of `CARE`.
const GOES_ON: u8 = 1;
const IN_CALLBACK: u8 = 2;

impl CallMetadata {
    /// A copy of a block.
    pub(crate) fn new(block: Block<'_>) -> Arc<Self> {
        // A thread that ends has none.
        let mut unused = UNUSED.try_with(Cell::take).ok().flatten().unwrap_or_default();
        match Arc::get_mut(&mut unused) {
            Some(own) => own.fill(block),
            None => {
                let mut own = Self::default();
                own.fill(block);
                unused = Arc::new(own);
            }
        }
        unused
    }

    fn fill(&mut self, block: Block<'_>) {
        self.block.clear();
        self.block.extend_from_slice(block.bytes());
        self.goes_on = block.pairs().any(|pair| pair.goes_on);
        *self.answer.get_mut().unwrap_or_else(PoisonError::into_inner) = Metadata::new();
    }

    fn block(&self) -> Block<'_> {
        Block::again(&self.block)
    }

    fn going_on(&self) -> impl Iterator<Item = Pair<'_>> {
        self.block().pairs().filter(|pair| pair.goes_on)
    }

    /// Its answer has this metadata.
    pub(crate) fn set_answer(&self, metadata: Metadata) {
        *locked(&self.answer) = metadata;
    }

    /// The metadata that its answer has by now; none is left.
    pub(crate) fn take_answer(&self) -> Metadata {
        mem::take(&mut *locked(&self.answer))
    }

    /// What goes on of it.
    fn inherited(&self) -> Arc<Self> {
        let mut block = Vec::new();
        let mut writer = BlockWriter::new(&mut block);
        // They were in a block before.
        self.going_on().for_each(|pair| _ = writer.add(&pair));
        writer.finish();
        Arc::new(Self { block, goes_on: self.goes_on, ..Self::default() })
    }
}

/// Gives the memory of a call that has ended to the next one.
pub(crate) fn reuse(mut ended: Arc<CallMetadata>) {
    // That of an open call goes with the call.
    if let Some(own) = Arc::get_mut(&mut ended) {
        *own.counted.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        // A thread that ends has no place for it any more.
        let _ = UNUSED.try_with(|unused| unused.set(Some(ended)));
    }
}

/// Takes room for the metadata of the call that this thread serves, which may become an open call, by `count`, which is told the bytes.
///
/// # Errors
/// There is none.
pub(crate) fn count<P: Any + Send, E>(count: impl FnOnce(usize) -> Result<Option<P>, E>) -> Result<(), E> {
    let Some(served) = kept() else { return Ok(()) };
    let mut counted = locked(&served.counted);
    if counted.is_none() {
        *counted = count(served.block.len())?.map(|place| Box::new(place) as Box<dyn Any + Send>);
    }
    Ok(())
}

/// Runs `procedure` as a part of the serving of a call with this metadata.
pub(crate) fn serving<R>(call: Option<Arc<CallMetadata>>, procedure: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<CallMetadata>>, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            set(GOES_ON, self.1);
            replace(self.0.take());
        }
    }
    let goes_on = call.as_ref().is_some_and(|call| call.goes_on);
    let _restore = Restore(replace(call), set(GOES_ON, goes_on));
    procedure()
}

/// Returns that of the call which the thread has served.
fn replace(call: Option<Arc<CallMetadata>>) -> Option<Arc<CallMetadata>> {
    ManuallyDrop::into_inner(SERVED.replace(ManuallyDrop::new(call)))
}

/// Runs a procedure that the procedure of the served call calls directly: it finds what goes on.
#[cold]
pub(crate) fn serving_nested<R>(procedure: impl FnOnce() -> R) -> R {
    let outer = kept();
    serving(outer.filter(|_| goes_on()).map(|outer| outer.inherited()), procedure)
}

/// The metadata of the call that this thread serves, for another thread that goes on with it.
pub(crate) fn kept() -> Option<Arc<CallMetadata>> {
    SERVED.with_borrow(|served| (**served).clone())
}

/// Sets a bit of `CARE`, and returns whether it was set.
fn set(bit: u8, is_set: bool) -> bool {
    let before = CARE.get();
    CARE.set(if is_set { before | bit } else { before & !bit });
    before & bit != 0
}

/// Whether calls of this thread carry pairs of the call that it serves.
#[inline(always)]
pub(crate) fn goes_on() -> bool {
    CARE.get() & GOES_ON != 0
}

/// Whether calls of this thread carry such pairs, or belong to a callback that it serves.
#[inline(always)]
pub(crate) fn needs_care() -> bool {
    CARE.get() != 0
}

/// Whether this thread serves a callback.
#[inline(always)]
pub(crate) fn is_in_callback() -> bool {
    CARE.get() & IN_CALLBACK != 0
}

/// Whether this thread serves a callback from now on. Returns whether it did before.
pub(crate) fn set_in_callback(serves: bool) -> bool {
    set(IN_CALLBACK, serves)
}

/// Passes the pairs that go on to `add`.
pub(crate) fn for_each_going_on(add: &mut dyn FnMut(Pair<'_>)) {
    kept().iter().flat_map(|served| served.going_on()).for_each(add);
}

/// What goes on of the metadata of the call that this thread serves.
pub(crate) fn going_on() -> Metadata {
    let mut all = Metadata::new();
    for_each_going_on(&mut |pair| all = mem::take(&mut all).and([pair].into_iter()));
    all
}

/// The metadata of the call that this thread serves.
pub(crate) fn current() -> Metadata {
    let served = kept();
    let block = served.as_ref().map(|served| served.block());
    block.map_or_else(Metadata::new, Metadata::of)
}

/// The span of the caller of the call that this thread serves, if that has sent it.
#[cfg(feature = "opentelemetry")]
pub(crate) fn trace_parent() -> Option<TraceParent> {
    let served = kept()?;
    let mut pairs = served.block().pairs();
    TraceParent::from_bytes(pairs.find(|pair| pair.key == Key::Traceparent)?.value)
}

/// The answer to the call that this thread serves has this metadata.
pub(crate) fn set_answer(metadata: Metadata) {
    if let Some(served) = kept() {
        served.set_answer(metadata);
    }
}

/// The metadata that the answer to the call which this thread serves has by now.
pub(crate) fn answer() -> Metadata {
    kept().map_or_else(Metadata::new, |served| locked(&served.answer).clone())
}
