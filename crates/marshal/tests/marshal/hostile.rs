//! No bytes make a receiver panic or take more memory than its budget.

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{Colour, Fixed, List, Mixed, Node, Shape, Tree, encoded};
use proptest::collection::vec;
use proptest::prelude::*;
use stoop_marshal::limits::allocation_budget;
use stoop_marshal::{Data, DecodeError, Reader};

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

/// Reads a `T` from `payload`; the most memory that was held meanwhile is within the budget.
fn read<T: Data>(payload: &[u8]) -> Result<(), DecodeError> {
    HELD.set(0);
    MOST.set(0);
    let mut reader = Reader::new(payload);
    let decoded = reader.value::<T>().map(drop).and_then(|()| reader.finish());
    let most = MOST.get();
    assert!(
        most <= allocation_budget(payload.len()),
        "{most} bytes of memory for {} bytes of {}",
        payload.len(),
        std::any::type_name::<T>()
    );
    decoded
}

/// Calls a function with every type.
macro_rules! with_every_type {
    ($function:ident($($argument:expr),*)) => {
        $function::<u8>($($argument),*);
        $function::<u128>($($argument),*);
        $function::<bool>($($argument),*);
        $function::<char>($($argument),*);
        $function::<String>($($argument),*);
        $function::<Vec<u8>>($($argument),*);
        $function::<Vec<u64>>($($argument),*);
        $function::<Vec<()>>($($argument),*);
        $function::<Vec<Arc<()>>>($($argument),*);
        $function::<Vec<String>>($($argument),*);
        $function::<Vec<Option<[u64; 8]>>>($($argument),*);
        $function::<Vec<Vec<Vec<u16>>>>($($argument),*);
        $function::<VecDeque<Fixed>>($($argument),*);
        $function::<LinkedList<u8>>($($argument),*);
        $function::<LinkedList<()>>($($argument),*);
        $function::<BTreeMap<u8, Vec<u8>>>($($argument),*);
        $function::<Vec<BTreeMap<u8, [u64; 4]>>>($($argument),*);
        $function::<BTreeSet<String>>($($argument),*);
        $function::<HashMap<u16, String>>($($argument),*);
        $function::<Vec<HashMap<u8, u64>>>($($argument),*);
        $function::<HashSet<u8>>($($argument),*);
        $function::<HashSet<()>>($($argument),*);
        $function::<Option<Box<[Shape]>>>($($argument),*);
        $function::<Result<Rc<Tree>, Arc<List>>>($($argument),*);
        $function::<(Colour, Duration, SystemTime, SocketAddr)>($($argument),*);
        $function::<Mixed<Vec<Colour>>>($($argument),*);
        $function::<Shape>($($argument),*);
        $function::<Tree>($($argument),*);
        $function::<List>($($argument),*);
        $function::<Node>($($argument),*);
        $function::<[Option<Box<str>>; 4]>($($argument),*);
    };
}

fn any_end<T: Data>(payload: &[u8]) {
    // Either way is right; panicking or taking too much is not.
    let _ = read::<T>(payload);
}

/// The count of a sequence that lies, followed by this many bytes.
fn lie<T: Data>(count: u32, filler: u8, len: usize) {
    let mut payload = count.to_le_bytes().to_vec();
    payload.resize(4 + len, filler);
    any_end::<T>(&payload);
}

/// Random bytes rarely are counts that fit; small numbers are.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![8 => Just(0u8), 4 => Just(1u8), 2 => 2u8..6, 1 => any::<u8>()];
    vec(byte, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_neither_panic_nor_cost_much(payload in vec(any::<u8>(), 0..300)) {
        with_every_type!(any_end(&payload));
    }

    #[test]
    fn plausible_bytes_neither_panic_nor_cost_much(payload in plausible()) {
        with_every_type!(any_end(&payload));
    }

    #[test]
    fn flipped_bits_neither_panic_nor_cost_much(flips in vec((any::<u16>(), 0u8..8), 1..6)) {
        let tree = Tree { value: 1, branches: Vec::new(), named: BTreeMap::from([("name".to_owned(), Tree {
            value: 2,
            branches: vec![Tree { value: 3, branches: Vec::new(), named: BTreeMap::new() }; 3],
            named: BTreeMap::new(),
        })]) };
        let mut payload = encoded(&tree, 0, 1 << 20).unwrap();
        for (at, bit) in flips {
            let at = usize::from(at) % payload.len();
            payload[at] ^= 1 << bit;
        }
        any_end::<Tree>(&payload);
    }
}

#[test]
fn false_counts_cost_no_memory() {
    for count in [1, 2, 100, 1000, 4000, 65_000, 1 << 20, u32::MAX / 2, u32::MAX] {
        for filler in [0, 1] {
            for len in [0, 1, 8, 64, 4096, 40_000] {
                with_every_type!(lie(count, filler, len));
            }
        }
    }
}

#[test]
fn the_error_names_a_count_beyond_the_payload() {
    let payload = [255, 255, 255, 255, 0, 0];
    assert_eq!(read::<Vec<u16>>(&payload), Err(DecodeError::CountTooLarge { count: u32::MAX }));
    assert_eq!(read::<Vec<()>>(&payload), Err(DecodeError::OverBudget));
}

#[test]
fn the_error_names_an_invalid_value() {
    assert_eq!(read::<bool>(&[2]), Err(DecodeError::BadFlag { found: 2 }));
    assert_eq!(read::<Option<u8>>(&[3, 0]), Err(DecodeError::BadFlag { found: 3 }));
    assert_eq!(read::<char>(&0xd800u32.to_le_bytes()), Err(DecodeError::BadChar { found: 0xd800 }));
    assert_eq!(read::<String>(&[1, 0, 0, 0, 0xff]), Err(DecodeError::BadText));
    assert_eq!(read::<Colour>(&[3, 0, 0, 0]), Err(DecodeError::BadVariant { name: "Colour", found: 3 }));
    assert_eq!(read::<Shape>(&[4, 0, 0, 0]), Err(DecodeError::BadVariant { name: "Shape", found: 4 }));
    assert_eq!(read::<std::num::NonZero<u8>>(&[0]), Err(DecodeError::OutOfRange { name: "NonZero<u8>" }));
    let too_many_nanos = encoded(&(1u64, 1_000_000_000u32), 0, 16).unwrap();
    assert_eq!(read::<Duration>(&too_many_nanos), Err(DecodeError::OutOfRange { name: "Duration" }));
    assert_eq!(read::<u8>(&[1, 2, 3]), Err(DecodeError::TrailingBytes { count: 2 }));
    assert_eq!(read::<BTreeSet<u8>>(&[2, 0, 0, 0, 7, 7]), Err(DecodeError::Duplicate));
    assert_eq!(read::<HashMap<u8, u8>>(&[2, 0, 0, 0, 7, 1, 7, 2]), Err(DecodeError::Duplicate));
}

#[test]
fn a_reference_to_nothing_or_to_itself_is_refused() {
    // A node with one next, which refers to a value that is not there yet: itself.
    let payload: Vec<u8> = [5u32, 1, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(read::<Node>(&payload), Err(DecodeError::BadReference { found: 1 }));
}
