//! A call ends with an error, and its process goes on, whichever allocation of more than 64 KiB fails while it is made.
//!
//! A process is server and caller at once. Its allocator fails the first such allocation of a call, then the second, until a call has no
//! more; and then all from the first on, from the second on, as if there were no memory left.

#[path = "harness/mod.rs"]
mod harness;

use crate::harness::LIMIT;
use crate::harness::processes::Process;
use crate::harness::{processes, transports};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use stoop::{BindOptions, CallError, InPlace, RunningServer, Server};

/// Allocations of at most so many bytes do not fail. A worker has a receive buffer of that size, which no peer and no result decides.
const SMALL: usize = (64 << 10) + 16;
/// Bytes of a long message.
const LEN: usize = 512 << 10;
/// Elements of a collection of numbers.
const COUNT: u32 = 5_000;

struct Failing;

/// Large allocations since the count began.
static LARGE: AtomicU64 = AtomicU64::new(0);
/// The one to fail; 0: none.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// All that follow it fail, too.
static AND_ALL_LATER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Allocations of this thread are the test's.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: everything is handed on to the system's allocator as it came, or fails.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > SMALL && fails() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about `layout` is handed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about `memory` and `layout` is handed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static FAILING: Failing = Failing;

fn fails() -> bool {
    let failed = FAILED.load(Ordering::SeqCst);
    if failed == 0 || EXEMPT.get() {
        return false;
    }
    let number = LARGE.fetch_add(1, Ordering::SeqCst) + 1;
    number == failed || number > failed && AND_ALL_LATER.load(Ordering::SeqCst)
}

/// Runs code of the test, whose allocations do not fail.
fn exempt<R>(run: impl FnOnce() -> R) -> R {
    EXEMPT.set(true);
    let result = run();
    EXEMPT.set(false);
    result
}

#[stoop::interface]
trait Store {
    fn len(&self, bytes: &[u8]) -> u32;
    fn fill(&self, #[out] bytes: &mut [u8]);
    fn fill_words(&self, #[out] words: &mut [u64], #[out] more: &mut [u8]);
    fn change(&self, bytes: &mut [u8]);
    fn change_both(&self, bytes: &mut [u8], words: &mut [u64]);
    fn give(&self) -> Arc<Vec<u8>>;
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
    fn text(&self, text: &str) -> Arc<String>;
    fn texts(&self, texts: Vec<String>) -> Arc<Vec<String>>;
    fn table(&self, table: HashMap<u32, u64>) -> Arc<HashMap<u32, u64>>;
    fn set(&self, set: HashSet<u64>) -> Arc<HashSet<u64>>;
    fn tree(&self, tree: BTreeMap<u32, u64>) -> Arc<BTreeMap<u32, u64>>;
    fn ordered(&self, set: BTreeSet<u32>) -> Arc<BTreeSet<u32>>;
    fn list(&self, list: LinkedList<u32>) -> Arc<LinkedList<u32>>;
    fn shared(&self, shared: Shared) -> Arc<Shared>;
    #[one_way]
    fn tell(&self, bytes: &[u8]);
    fn sum(&self, buffer: &InPlace<u8>) -> u64;
    fn fill_buffer(&self, #[out] buffer: &mut InPlace<u8>);
    fn change_buffer(&self, buffer: &mut InPlace<u8>);
}

#[derive(stoop::Data, Clone, Debug)]
struct Shared {
    #[stoop(shared)]
    all: Vec<Arc<u64>>,
}

/// The values that travel.
struct Values {
    bytes: Arc<Vec<u8>>,
    text: Arc<String>,
    texts: Arc<Vec<String>>,
    table: Arc<HashMap<u32, u64>>,
    set: Arc<HashSet<u64>>,
    tree: Arc<BTreeMap<u32, u64>>,
    ordered: Arc<BTreeSet<u32>>,
    list: Arc<LinkedList<u32>>,
    shared: Arc<Shared>,
}

fn values() -> &'static Values {
    static VALUES: OnceLock<Values> = OnceLock::new();
    VALUES.get_or_init(|| Values {
        bytes: Arc::new(vec![7; LEN]),
        text: Arc::new("text".repeat(LEN / 4)),
        texts: Arc::new((0..COUNT).map(|number| number.to_string()).collect()),
        table: Arc::new((0..COUNT).map(|number| (number, 1)).collect()),
        set: Arc::new((0..COUNT.into()).collect()),
        tree: Arc::new((0..COUNT).map(|number| (number, 1)).collect()),
        ordered: Arc::new((0..COUNT).collect()),
        list: Arc::new((0..COUNT).collect()),
        shared: Arc::new(Shared { all: (0..u64::from(COUNT)).map(Arc::new).collect() }),
    })
}

struct Plain;

impl Store for Plain {
    fn len(&self, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn fill_words(&self, words: &mut [u64], more: &mut [u8]) {
        words.fill(7);
        more.fill(7);
    }
    fn change(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn change_both(&self, bytes: &mut [u8], words: &mut [u64]) {
        bytes.fill(7);
        words.fill(7);
    }
    fn give(&self) -> Arc<Vec<u8>> {
        Arc::clone(&values().bytes)
    }
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
    fn text(&self, text: &str) -> Arc<String> {
        assert_eq!(text.len(), LEN);
        Arc::clone(&values().text)
    }
    fn texts(&self, texts: Vec<String>) -> Arc<Vec<String>> {
        assert_eq!(texts.len(), COUNT as usize);
        Arc::clone(&values().texts)
    }
    fn table(&self, table: HashMap<u32, u64>) -> Arc<HashMap<u32, u64>> {
        assert_eq!(table.len(), COUNT as usize);
        Arc::clone(&values().table)
    }
    fn set(&self, set: HashSet<u64>) -> Arc<HashSet<u64>> {
        assert_eq!(set.len(), COUNT as usize);
        Arc::clone(&values().set)
    }
    fn tree(&self, tree: BTreeMap<u32, u64>) -> Arc<BTreeMap<u32, u64>> {
        assert_eq!(tree.len(), COUNT as usize);
        Arc::clone(&values().tree)
    }
    fn ordered(&self, set: BTreeSet<u32>) -> Arc<BTreeSet<u32>> {
        assert_eq!(set.len(), COUNT as usize);
        Arc::clone(&values().ordered)
    }
    fn list(&self, list: LinkedList<u32>) -> Arc<LinkedList<u32>> {
        assert_eq!(list.len(), COUNT as usize);
        Arc::clone(&values().list)
    }
    fn shared(&self, shared: Shared) -> Arc<Shared> {
        assert_eq!(shared.all.len(), COUNT as usize);
        Arc::clone(&values().shared)
    }
    fn tell(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), LEN);
    }
    fn sum(&self, buffer: &InPlace<u8>) -> u64 {
        buffer.len() as u64
    }
    fn fill_buffer(&self, buffer: &mut InPlace<u8>) {
        assert_eq!(buffer.len(), LEN);
    }
    fn change_buffer(&self, buffer: &mut InPlace<u8>) {
        assert_eq!(buffer.len(), LEN);
    }
}

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    processes::play(&[play]);
}

/// Plays the role of a process of these tests; `false`: it is none of them.
fn play(role: &str, uri: &str) -> bool {
    match role {
        "fail" => fail_each(uri),
        _ => return false,
    }
    true
}

type Call = fn(&StoreClient) -> Result<(), CallError>;

/// All ways to pass long values.
const CALLS: &[(&str, Call)] = &[
    ("a slice", |client| client.len(&values().bytes).map(|_| ())),
    ("a slice, begun", |client| client.begin().len(&values().bytes).wait().map(|_| ())),
    ("a one-way call", |client| client.tell(&values().bytes)),
    ("a result", |client| client.give().map(|_| ())),
    ("a result, begun", |client| client.begin().give().wait().map(|_| ())),
    ("both", |client| client.echo(exempt(|| values().bytes.to_vec())).map(|_| ())),
    ("both, begun", |client| client.begin().echo(exempt(|| values().bytes.to_vec())).wait().map(|_| ())),
    ("an OUT argument", |client| client.fill(&mut exempt(|| vec![0; LEN]))),
    ("an OUT argument, begun", |client| client.begin().fill(LEN).wait().map(|_| ())),
    ("two OUT arguments", |client| {
        let (mut words, mut more) = exempt(|| (vec![0; LEN / 8], vec![0; LEN]));
        client.fill_words(&mut words, &mut more)
    }),
    ("two OUT arguments, begun", |client| client.begin().fill_words(LEN / 8, LEN).wait().map(|_| ())),
    ("an IN-OUT argument", |client| client.change(&mut exempt(|| vec![0; LEN]))),
    ("an IN-OUT argument, begun", |client| client.begin().change(&values().bytes).wait().map(|_| ())),
    ("two IN-OUT arguments", |client| {
        let (mut bytes, mut words) = exempt(|| (vec![0; LEN], vec![0; LEN / 8]));
        client.change_both(&mut bytes, &mut words)
    }),
    ("a text", |client| client.text(&values().text).map(|_| ())),
    ("a text, begun", |client| client.begin().text(&values().text).wait().map(|_| ())),
    ("texts", |client| client.texts(exempt(|| values().texts.to_vec())).map(|_| ())),
    ("texts, begun", |client| client.begin().texts(exempt(|| values().texts.to_vec())).wait().map(|_| ())),
    ("a hash map", |client| client.table(exempt(|| (*values().table).clone())).map(|_| ())),
    ("a hash set", |client| client.set(exempt(|| (*values().set).clone())).map(|_| ())),
    ("a tree", |client| client.tree(exempt(|| (*values().tree).clone())).map(|_| ())),
    ("an ordered set", |client| client.ordered(exempt(|| (*values().ordered).clone())).map(|_| ())),
    ("a list", |client| client.list(exempt(|| (*values().list).clone())).map(|_| ())),
    ("shared values", |client| client.shared(exempt(|| (*values().shared).clone())).map(|_| ())),
    ("a buffer", |client| client.sum(&exempt(|| InPlace::from(vec![1; LEN]))).map(|_| ())),
    ("an OUT buffer", |client| client.fill_buffer(&mut exempt(|| InPlace::from(vec![1; LEN])))),
    ("an IN-OUT buffer", |client| client.change_buffer(&mut exempt(|| InPlace::from(vec![1; LEN])))),
];

/// Makes each call while each of its large allocations fails.
fn fail_each(uri: &str) {
    let server = server(uri);
    values();
    for (name, call) in CALLS {
        for and_all_later in [false, true] {
            AND_ALL_LATER.store(and_all_later, Ordering::SeqCst);
            fail_each_of(&server, name, *call);
        }
    }
    server.shut_down();
}

fn server(uri: &str) -> RunningServer {
    Server::new().export(StoreServer::new(Plain)).listen(uri).unwrap().start().unwrap()
}

fn fail_each_of(server: &RunningServer, name: &str, call: Call) {
    // Over UDP, calls wait for memory until their deadline.
    let options = BindOptions::new().timeout(LIMIT);
    for failed in 1.. {
        eprintln!("{name}: allocation {failed} fails");
        let client = StoreClient::bind_with(&server.uris()[0], &options).unwrap();
        LARGE.store(0, Ordering::SeqCst);
        FAILED.store(failed, Ordering::SeqCst);
        let brief = client.with_timeout(Duration::from_millis(100));
        let ended = call(&brief);
        FAILED.store(0, Ordering::SeqCst);
        if let Err(why) = ended {
            let text = why.to_string();
            assert!(text.contains("memory") || why.is_timeout(), "{name}: {text}");
        }
        let made = LARGE.load(Ordering::SeqCst);
        call(&client).unwrap();
        if made < failed {
            return;
        }
    }
}

/// Has another process do that over a transport.
fn large_allocations_may_fail(transport: &str) {
    Process::start("fail", &transports::address(transport)).ends_well();
}

#[test]
fn large_allocations_may_fail_over_udp() {
    large_allocations_may_fail("udp");
}

#[test]
fn large_allocations_may_fail_over_tcp() {
    large_allocations_may_fail("tcp");
}

#[test]
fn large_allocations_may_fail_over_unix_sockets() {
    large_allocations_may_fail("unix");
}

#[test]
fn large_allocations_may_fail_over_shared_memory() {
    large_allocations_may_fail("shm");
}
