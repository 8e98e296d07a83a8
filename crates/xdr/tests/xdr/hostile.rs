//! No bytes make a reader panic or take more memory than its budget.

use crate::common::Sample;
use proptest::collection::vec;
use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use stoop_xdr::limits::allocation_budget;
use stoop_xdr::{
    Chain, Decode, DecodeError, Fault, Opaque, OpaqueArray, Reader, UNBOUNDED, from_slice, to_vec,
};

/// Counts what each thread holds, and the most that it held.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn count(grown: usize, shrunk: usize) {
    HELD.set(HELD.get().wrapping_add(grown).wrapping_sub(shrunk));
    MOST.set(MOST.get().max(HELD.get()));
}

// SAFETY: every call is passed on to the system's allocator as it is; counting touches plain thread-local numbers only,
// which neither allocate nor have destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: MemoryLayout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: MemoryLayout) {
        count(0, layout.size());
        // SAFETY: `at` came from `alloc` above, and so from the system, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Reads a `T`; the most memory that was held meanwhile is within the budget, and opaque data within the message. A
/// vector that grows holds its old memory too while it moves.
fn read<T: for<'a> Decode<'a>>(message: &[u8]) -> Result<(), DecodeError> {
    HELD.set(0);
    MOST.set(0);
    let decoded = from_slice::<T>(message).map(drop);
    let most = MOST.get();
    let allowed = allocation_budget(message.len()) / 2 * 3 + message.len();
    assert!(
        most <= allowed,
        "{most} bytes of memory for {} of {}",
        message.len(),
        std::any::type_name::<T>()
    );
    decoded
}

/// An element that takes far more memory than bytes of a message.
type Large = Option<OpaqueArray<1024>>;

fn any_verdict<T: for<'a> Decode<'a>>(message: &[u8]) {
    // Either way is right; panicking or taking too much is not.
    let _ = read::<T>(message);
}

fn try_every_type(message: &[u8]) {
    with_every_type!(any_verdict(message));
    any_verdict::<Vec<()>>(message);
    any_verdict::<Vec<u64>>(message);
    any_verdict::<Vec<OpaqueArray<0>>>(message);
    any_verdict::<Vec<Large>>(message);
    any_verdict::<Chain<Large>>(message);
    any_verdict::<Chain<()>>(message);
    any_verdict::<Vec<Vec<Vec<u16>>>>(message);
    any_verdict::<Vec<Box<u32>>>(message);
    any_verdict::<Vec<String>>(message);
    any_verdict::<Chain<Opaque<Vec<u8>>>>(message);
    any_verdict::<[Option<Box<bool>>; 4]>(message);
}

/// Random words rarely are lengths that fit; small numbers are.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![8 => Just(0_u32), 8 => Just(1), 4 => 2..9_u32, 1 => any::<u32>()];
    vec(word, 0..300).prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_bytes_neither_panic_nor_cost_much(message in vec(any::<u8>(), 0..300)) {
        try_every_type(&message);
    }

    #[test]
    fn plausible_bytes_neither_panic_nor_cost_much(message in plausible()) {
        try_every_type(&message);
    }
}

fn mutated<T: Sample>() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(100));
    let outcome = runner.run(&(T::any(), any::<usize>(), any::<u8>()), |(value, at, byte)| {
        let mut message = to_vec(&value).expect("the value has a form");
        let len = message.len();
        if let Some(target) = message.get_mut(at % len.max(1)) {
            *target = byte;
        }
        any_verdict::<T>(&message);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_changed_byte_neither_panics_nor_costs_much() {
    with_every_type!(mutated());
}

#[test]
fn false_lengths_cost_no_memory() {
    for len in [1, 2, 100, 1000, 4000, 65_000, 1 << 20, u32::MAX / 2, u32::MAX - 3, u32::MAX] {
        for filler in [0, 1] {
            for rest in [0, 1, 8, 64, 4096, 40_000] {
                let mut message = len.to_be_bytes().to_vec();
                message.resize(4 + rest, filler);
                try_every_type(&message);
            }
        }
    }
}

/// 64 KiB of words.
fn words(word: u32) -> Vec<u8> {
    word.to_be_bytes().repeat(1 << 14)
}

#[test]
fn elements_larger_in_memory_than_in_the_message_exceed_the_budget() {
    let mut message = words(0);
    message[..4].copy_from_slice(&((1_u32 << 14) - 1).to_be_bytes());
    assert_eq!(read::<Vec<Large>>(&message).map_err(|error| error.fault), Err(Fault::OverBudget));
    let mut reader = Reader::with_budget(&message, usize::MAX);
    assert_eq!(reader.sequence::<Large>(UNBOUNDED).map(|values| values.len()), Ok((1 << 14) - 1));
}

#[test]
fn values_without_bytes_are_counted() {
    let message = u32::MAX.to_be_bytes();
    assert_eq!(read::<Vec<()>>(&message), Err(DecodeError { position: 4, fault: Fault::OverBudget }));
    assert_eq!(read::<Vec<()>>(&1000_u32.to_be_bytes()), Ok(()));
}
