//! The account of a binding's calls and of a server's procedures.

use crate::harness::{eventually, transports};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stoop::account::{AccountOptions, Part, StoopAccountClient};
use stoop::{BindOptions, Deferred, Reply, RunningServer, Server};

#[stoop::interface]
trait Work {
    fn nothing(&self);
    fn last_for(&self, us: u64);
    fn long(&self, bytes: Vec<u8>) -> Vec<u8>;
    fn panic(&self);
    /// Its answer comes when the other is called.
    fn later(&self) -> Deferred<()>;
    fn answer(&self);
}

#[derive(Default)]
struct Worker(Mutex<Vec<Reply<()>>>);

impl Work for Worker {
    fn nothing(&self) {}

    fn last_for(&self, us: u64) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    }

    fn long(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn panic(&self) {
        std::panic::panic_any("it ran and failed");
    }

    fn later(&self) -> Deferred<()> {
        let (reply, deferred) = stoop::deferred();
        self.0.lock().unwrap().push(reply);
        deferred
    }

    fn answer(&self) {
        let replies = std::mem::take(&mut *self.0.lock().unwrap());
        replies.into_iter().for_each(|reply| reply.send(()).unwrap());
    }
}

/// Over networks and byte streams: every call is recorded there.
const NETWORKS: [&str; 3] = ["udp", "tcp", "unix"];

fn serve(transport: &str, account: Option<AccountOptions>) -> (RunningServer, String) {
    let server = Server::new()
        .export(WorkServer::new(Worker::default()))
        .listen(&transports::address(transport))
        .unwrap();
    let server = match account {
        Some(options) => server.account(options),
        None => server,
    };
    let server = server.start().unwrap();
    let uri = server.uris()[0].clone();
    (server, uri)
}

fn bind(uri: &str, options: AccountOptions) -> WorkClient {
    WorkClient::bind_with(uri, &BindOptions::new().account(options)).unwrap()
}

#[test]
fn each_call_over_a_network_is_in_the_account_with_its_time_at_the_server() {
    for transport in NETWORKS {
        let (_server, uri) = serve(transport, None);
        let client = bind(&uri, AccountOptions::new());
        (0..100).for_each(|_| client.nothing().unwrap());
        (0..5).for_each(|_| client.last_for(2_000).unwrap());
        client.panic().unwrap_err();
        let account = client.binding().account();
        assert_eq!(account.interface, "Work");
        let nothing = account.procedure("nothing").expect("it was called");
        assert_eq!(
            [&nothing.whole, &nothing.server, &nothing.rest].map(|part| part.count()),
            [100; 3],
            "{transport}"
        );
        let sums = nothing.server.sum() + nothing.rest.sum();
        assert_eq!(nothing.whole.sum(), sums, "{transport}");
        let lasting = account.procedure("last_for").expect("it was called");
        let shortest = lasting.server.quantile(0.0).unwrap();
        assert!(shortest >= Duration::from_micros(1_900), "{transport}: {shortest:?}");
        assert!(lasting.whole.sum() >= lasting.server.sum());
        assert_eq!((lasting.failed, account.procedure("panic").unwrap().failed), (0, 1));
        assert!(account.procedure("long").is_none(), "it was not called");
    }
}

#[test]
fn begun_and_long_calls_are_in_the_account_too() {
    for transport in NETWORKS {
        let (_server, uri) = serve(transport, None);
        let client = bind(&uri, AccountOptions::new());
        let begin = client.begin();
        let begun: Vec<_> = (0..50).map(|_| begin.nothing()).collect();
        let fails = begin.panic();
        let long = begin.long(vec![1; 100_000]);
        drop(begin);
        begun.into_iter().for_each(|call| call.wait().unwrap());
        fails.wait().unwrap_err();
        assert_eq!(long.wait().unwrap().len(), 100_000);
        assert_eq!(client.long(vec![2; 100_000]).unwrap().len(), 100_000);
        let account = client.binding().account();
        assert_eq!(account.procedure("nothing").unwrap().whole.count(), 50, "{transport}");
        assert_eq!(account.procedure("nothing").unwrap().server.count(), 50, "{transport}");
        assert_eq!(account.procedure("long").unwrap().whole.count(), 2, "{transport}");
        assert_eq!(account.procedure("panic").unwrap().failed, 1, "{transport}");
    }
}

#[test]
fn a_slow_call_is_kept_and_says_that_the_server_was_slow() {
    for transport in NETWORKS {
        let (_server, uri) = serve(transport, None);
        let client = bind(&uri, AccountOptions::new().slow_after(Duration::from_millis(30)).slow_kept(2));
        (0..200).for_each(|_| client.last_for(1).unwrap());
        client.last_for(60_000).unwrap();
        let slow = client.binding().account().slow;
        let last = slow.last().expect("a call took longer than 30 ms");
        assert_eq!((last.procedure, last.slow), ("last_for", Part::Procedure), "{transport}: {last}");
        assert!(
            last.whole >= last.server.unwrap() && last.server.unwrap() >= Duration::from_millis(60),
            "{last}"
        );
        (0..3).for_each(|_| client.last_for(31_000).unwrap());
        assert_eq!(client.binding().account().slow.len(), 2, "as many as are kept");
    }
}

#[test]
fn a_slow_call_that_waited_for_a_worker_says_that_the_queue_was_slow() {
    for transport in ["tcp", "unix"] {
        let server = Server::new().export(WorkServer::new(Worker::default())).workers(1);
        let server = server.listen(&transports::address(transport)).unwrap().start().unwrap();
        let client = bind(&server.uris()[0], AccountOptions::new().slow_after(Duration::from_millis(30)));
        // Usually the two arrive together. If not, the second waits in the kernel, of which the server knows nothing.
        let parts = (0..50).map(|_| {
            let begin = client.begin();
            let calls = (begin.last_for(60_000), begin.nothing());
            drop(begin);
            calls.0.wait().unwrap();
            calls.1.wait().unwrap();
            let slow = client.binding().account().slow;
            slow.iter().map(|call| (call.procedure, call.slow)).collect::<Vec<_>>()
        });
        let told = |parts: &Vec<_>| parts.contains(&("nothing", Part::ServerQueue));
        let parts = parts.into_iter().find(told).expect("a call waited for the worker");
        assert!(!parts.contains(&("last_for", Part::ServerQueue)), "{transport}: {parts:?}");
    }
}

#[test]
fn a_stated_share_of_the_calls_over_shared_memory_is_recorded_and_stands_for_the_others() {
    let (_server, uri) = serve("shm", None);
    let client = bind(&uri, AccountOptions::new().shm_share(10));
    (0..1000).for_each(|_| client.nothing().unwrap());
    let account = client.binding().account();
    assert_eq!(account.procedure("nothing").unwrap().whole.count(), 1000);
    assert_eq!(
        account.procedure("nothing").unwrap().server.count(),
        1000,
        "those that are recorded asked for the time at the server"
    );
    // Three more are not recorded yet.
    (0..3).for_each(|_| client.nothing().unwrap());
    assert_eq!(client.binding().account().procedure("nothing").unwrap().whole.count(), 1000);
}

/// The value of the sample that begins with that text.
fn sample(text: &str, begin: &str) -> f64 {
    let line =
        text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no {begin} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn the_text_for_prometheus_counts_calls_and_not_those_that_were_timed() {
    const CALLS: u32 = 10_000;
    for transport in ["udp", "tcp", "unix", "shm"] {
        let (server, uri) = serve(transport, Some(AccountOptions::new()));
        let client = bind(&uri, AccountOptions::new());
        (0..CALLS).for_each(|_| client.nothing().unwrap());
        let called = client.binding().account().prometheus().to_string();
        let served = server.prometheus();
        assert_eq!(sample(&served, "stoop_server_bindings "), 1.0, "{transport}");
        assert_eq!(sample(&served, "stoop_server_queue_waiting "), 0.0, "{transport}");
        assert!(sample(&served, "stoop_server_calls_total ") >= f64::from(CALLS), "{transport}");
        let of = r#"{interface="Work",procedure="nothing""#;
        let called = sample(&called, &format!("stoop_call_seconds_count{of},part=\"whole\""));
        let served_calls = sample(&served, &format!("stoop_served_calls_total{of}"));
        let served = sample(&served, &format!("stoop_served_seconds_count{of}"));
        assert_eq!(served_calls, f64::from(CALLS), "{transport}");
        // Of each thread fewer than 64 calls are not counted yet; one thread calls, and few serve.
        assert!((f64::from(CALLS) - 64.0..=f64::from(CALLS)).contains(&called), "{transport}: {called}");
        assert!((0.8 * f64::from(CALLS)..=f64::from(CALLS)).contains(&served), "{transport}: {served}");
    }
}

#[test]
fn recorded_calls_over_shared_memory_have_their_time_at_the_server() {
    let (_server, uri) = serve("shm", None);
    let client = bind(&uri, AccountOptions::new().shm_share(1));
    (0..5).for_each(|_| client.last_for(2_000).unwrap());
    (0..3).for_each(|_| drop(client.long(vec![1; 100_000]).unwrap()));
    client.panic().unwrap_err();
    client.nothing().unwrap();
    let account = client.binding().account();
    let lasting = account.procedure("last_for").unwrap();
    assert_eq!((lasting.whole.count(), lasting.server.count()), (5, 5));
    assert!(lasting.server.quantile(0.0).unwrap() >= Duration::from_micros(1_900));
    assert!(lasting.whole.sum() >= lasting.server.sum());
    assert_eq!(account.procedure("long").unwrap().server.count(), 3);
    assert_eq!(account.procedure("nothing").unwrap().server.count(), 1);
    assert_eq!(account.procedure("panic").unwrap().failed, 1);
}

#[test]
fn a_binding_without_the_option_keeps_no_account() {
    let (server, uri) = serve("udp", None);
    let client = WorkClient::bind(&uri).unwrap();
    client.nothing().unwrap();
    assert!(client.binding().account().procedures.is_empty());
    assert!(!server.account().is_kept);
}

#[test]
fn a_server_tells_any_caller_how_long_its_procedures_ran_and_for_whom() {
    for transport in ["udp", "tcp", "unix", "shm"] {
        let (server, uri) = serve(transport, Some(AccountOptions::new()));
        let client = WorkClient::bind(&uri).unwrap();
        (0..10).for_each(|_| client.nothing().unwrap());
        (0..3).for_each(|_| client.last_for(20_000).unwrap());
        client.panic().unwrap_err();
        let told = StoopAccountClient::bind(&uri).unwrap();
        let account = told.account(10).unwrap();
        assert!(account.is_kept);
        let of = |name| account.procedures.iter().find(|each| each.name == name).expect("it was called");
        assert_eq!((of("nothing").calls, of("nothing").running), (10, 0), "{transport}");
        assert_eq!((of("panic").calls, of("panic").running), (1, 0), "{transport}");
        let lasting = of("last_for");
        let longest = lasting.ran.quantile(1.0).expect("the first calls are timed");
        assert!(longest >= Duration::from_millis(19), "{transport}: {longest:?}");
        let [peer] = &account.peers[..] else { panic!("one peer: {:?}", account.peers) };
        let expected = if ["udp", "tcp"].contains(&transport) { "127." } else { "process " };
        assert!(peer.peer.starts_with(expected) && peer.ran >= Duration::from_millis(19), "{peer:?}");
        assert_eq!(told.account(0).unwrap().peers, []);
        let counters = told.counters().unwrap();
        assert!(counters.iter().any(|(name, value)| name == "calls" && *value >= 14), "{counters:?}");
        assert_eq!(server.account().procedures.len(), account.procedures.len());
    }
}

#[test]
fn a_call_that_runs_is_told_while_it_runs() {
    static MEETING: Barrier = Barrier::new(2);

    #[stoop::interface]
    trait Meet {
        fn meet(&self);
    }

    struct Meets;
    impl Meet for Meets {
        fn meet(&self) {
            MEETING.wait();
            MEETING.wait();
        }
    }

    let server = Server::new().export(MeetServer::new(Meets)).account(AccountOptions::new());
    let server = server.listen(&transports::address("tcp")).unwrap().start().unwrap();
    let client = MeetClient::bind(&server.uris()[0]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| client.meet().unwrap());
        MEETING.wait();
        assert_eq!(server.account().procedures[0].running, 1);
        MEETING.wait();
    });
    assert_eq!(server.account().procedures[0].running, 0);
}

#[test]
fn a_call_whose_answer_comes_later_runs_until_then_in_the_account() {
    for transport in ["udp", "tcp", "unix", "shm"] {
        let (server, uri) = serve(transport, Some(AccountOptions::new()));
        let client = bind(&uri, AccountOptions::new());
        let call = client.begin().later();
        let later = || server.account().procedures.into_iter().find(|it| it.name == "later");
        eventually(|| server.counters().open == 1);
        let running = later().expect("it was called");
        assert_eq!((running.calls, running.running, running.ran.count()), (1, 1, 0), "{transport}");
        assert!(server.prometheus().contains("\nstoop_server_open 1\n"));
        let open = Instant::now();
        eventually(|| open.elapsed() > Duration::from_millis(2));
        let least = open.elapsed();
        client.answer().unwrap();
        call.wait().unwrap();
        eventually(|| later().is_some_and(|it| it.running == 0));
        let ran = later().unwrap().ran;
        assert_eq!(ran.count(), 1, "{transport}");
        assert!(ran.sum() >= least, "{transport}: {:?} of {least:?}", ran.sum());
        assert!(server.prometheus().contains("\nstoop_server_open 0\n"));
    }
}
