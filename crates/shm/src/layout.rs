//! The layout of a segment. Both sides are built with the same numbers, and compare [`VERSION`] when they bind.
//!
//! | bytes from | what | written by |
//! |------------|------|------------|
//! | 0          | attention: whether the server looks for requests | server |
//! | 128        | taken: how many requests it has taken | server |
//! | 136        | the server's clock when it handed the memory over | server |
//! | 256        | for each channel a line with how many chunks are filled, and one with how many are emptied | its two ends |
//! | 3968       | listening: whether threads of the caller sleep until anything happens | both |
//! | 3976       | cancels: how many of the requests have been cancels | callers |
//! | 4096       | requests: a ring of lines | callers |
//! | …          | answers: a line for each lane | server, but for the bit that says that the caller sleeps |
//! | …          | slots: for each lane one for its call and one for its result | caller, server |
//! | …          | channels: for calls and for results, each a ring of chunks | caller, server |
//! | …          | ready: a bit for each lane with a pipe at which the server is to look | both |
//! | …          | pipes: for each lane and way a line of the end that writes, and one of the end that reads | the ends |
//! | …          | rings: the bytes of each pipe | the end that writes |
//! | …          | the arena: buffers of arguments in place, if the server gives any memory for them | caller, procedures |

/// Tells this layout from others.
pub const VERSION: u32 = 8;

/// Bytes that processors hand over together.
pub const LINE: usize = 64;
/// Distance between words that two threads write: some processors fetch two lines at once.
const APART: usize = 2 * LINE;

/// Lanes of a segment: calls that one process can have outstanding at its server.
pub const LANES: usize = or_in_models(1024, 2);
/// Requests that the ring holds. A lane has up to three there (see `requests`); in models it has one, for they cancel nothing while
/// others call.
pub const RING: usize = or_in_models(4, 1) * LANES;
/// Bytes of the longest message that is not sent through a channel.
pub const SLOT: usize = or_in_models(4096, 64);

/// Channels each way: long messages that travel at the same time.
pub const CHANNELS: usize = or_in_models(4, 1);
/// Bytes of a chunk.
pub const CHUNK: usize = or_in_models(16 * 1024, 8);
/// Chunks of a channel.
pub const CHUNKS: usize = or_in_models(16, 2);

/// Bytes of a pipe that have been written and not taken, at most. A power of two.
pub const PIPE: usize = or_in_models(16 * 1024, 16);

pub(crate) const ATTENTION: usize = 0;
pub(crate) const TAKEN: usize = APART;
/// Behind it: written once.
pub(crate) const CLOCK: usize = TAKEN + 8;
const COUNTS: usize = 2 * APART;
pub(crate) const LISTENING: usize = REQUESTS - APART;
/// Beside it: a server that looks at either has both.
pub(crate) const CANCELS: usize = LISTENING + 8;
const REQUESTS: usize = 4096;
const ANSWERS: usize = REQUESTS + RING * LINE;
const SLOTS: usize = ANSWERS + LANES * LINE;
const CHANNELS_AT: usize = SLOTS + 2 * LANES * SLOT;

const PIPES_READY: usize = CHANNELS_AT + 2 * CHANNELS * CHUNKS * CHUNK;
const PIPES_AT: usize = PIPES_READY + (LANES / 8).next_multiple_of(PAGE);
const RINGS: usize = PIPES_AT + (2 * LANES * 2 * APART).next_multiple_of(PAGE);
/// The smallest page.
const PAGE: usize = 4096;

/// Bytes of a segment without its arena. Most of them are never touched, and then there is no memory behind them.
pub const LEN: usize = RINGS + 2 * LANES * PIPE;
/// Offset of the arena: a multiple of every page size in use.
pub const ARENA: usize = LEN.next_multiple_of(64 * 1024);

const _: () = assert!(
    RING.is_power_of_two() && CHUNKS.is_power_of_two() && PIPE.is_power_of_two(),
    "places follow one another when a count begins again"
);
const _: () =
    assert!(COUNTS + 2 * CHANNELS * 2 * APART <= LISTENING, "the counts lie before what follows them");

/// Models are of segments so small that all orders in which their threads can run are tried.
const fn or_in_models(size: usize, in_models: usize) -> usize {
    if cfg!(all(test, loom)) { in_models } else { size }
}

/// The line of the request with that ticket.
#[inline]
pub(crate) fn request(ticket: u64) -> usize {
    REQUESTS + (ticket % RING as u64) as usize * LINE
}

/// The line of a lane's answer.
#[inline]
pub(crate) fn answer(lane: u16) -> usize {
    ANSWERS + (usize::from(lane) % LANES) * LINE
}

/// Where a lane's call lies, if it is longer than a request line holds.
#[inline]
pub(crate) fn call_slot(lane: u16) -> usize {
    SLOTS + (usize::from(lane) % LANES) * 2 * SLOT
}

/// Where a lane's result lies, if it is longer than its answer line holds.
#[inline]
pub(crate) fn result_slot(lane: u16) -> usize {
    call_slot(lane) + SLOT
}

/// Where the number of filled chunks of channel `number` is; there are `2 * CHANNELS`.
pub(crate) fn filled(number: usize) -> usize {
    COUNTS + (number % (2 * CHANNELS)) * 2 * APART
}

/// Where the number of its emptied chunks is.
pub(crate) fn emptied(number: usize) -> usize {
    filled(number) + APART
}

/// Where the chunk that is counted as `count` lies.
pub(crate) fn chunk(number: usize, count: u32) -> usize {
    CHANNELS_AT + ((number % (2 * CHANNELS)) * CHUNKS + count as usize % CHUNKS) * CHUNK
}

/// Words of bits for lanes.
pub(crate) const READY_WORDS: usize = LANES.div_ceil(64);

/// The word with the bits of lanes from `64 * index` on.
pub(crate) fn pipes_ready(index: usize) -> usize {
    PIPES_READY + (index % READY_WORDS) * 8
}

/// The line of the end that writes into pipe `number`; there are `2 * LANES`.
#[inline]
pub(crate) fn pipe_writer(number: usize) -> usize {
    PIPES_AT + (number % (2 * LANES)) * 2 * APART
}

/// The line of the end that reads it.
#[inline]
pub(crate) fn pipe_reader(number: usize) -> usize {
    pipe_writer(number) + APART
}

/// The place in the ring of pipe `number` that is `offset` behind its beginning.
#[inline]
pub(crate) fn pipe_byte(number: usize, offset: u32) -> usize {
    RINGS + (number % (2 * LANES)) * PIPE + offset as usize % PIPE
}
