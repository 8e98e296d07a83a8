//! The text form by the rules of its specification.

use crate::account::calls::{CallAccount, CalledProcedure};
use crate::account::histogram::{Histogram, LiveHistogram};
use crate::account::peers::CallingPeer;
use crate::account::piped::PipedItems;
use crate::account::prometheus::counters_for_prometheus;
use crate::account::served::{ServedProcedure, ServerAccount};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A sample: the name of the metric, its labels, and its value.
type Sample = (String, Vec<(String, String)>, f64);

/// The samples of a text, which has all that the specification asks of a text: each metric is described once, before its samples, which
/// stand together and differ in their labels.
fn samples(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "each line ends, and none is empty");
    let (mut kinds, mut helped, mut known) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let (mut present, mut all) = (String::new(), Vec::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a metric and its meaning");
            assert!(helped.insert(name.to_owned()), "{name} is described once");
            assert!(!words.is_empty() && !words.contains('\\'), "{words}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a metric and its kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} has one kind");
            present = name.into();
        } else {
            let (name, labels, value) = sample(line);
            let of = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
            let family = of.filter(|of| kinds.get(*of).is_some_and(|kind| kind == "histogram"));
            assert_eq!(family.unwrap_or(&name), present, "samples stand behind the kind of their metric");
            assert!(kinds[&present] != "counter" || name.ends_with("_total"), "{name}");
            assert!(known.insert((name.clone(), labels.clone())), "{line} is there twice");
            all.push((name, labels, value));
        }
    }
    assert_eq!(kinds.keys().collect::<BTreeSet<_>>(), helped.iter().collect());
    all
}

fn sample(line: &str) -> Sample {
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ').expect("a sample has a value");
        assert!(is_name(name), "{name}");
        return (name.to_owned(), Vec::new(), value.parse().expect("it is a number"));
    };
    assert!(is_name(name), "{name}");
    let (mut labels, mut rest) = (Vec::new(), rest);
    loop {
        let (label, value) = rest.split_once("=\"").expect("a label and its value");
        assert!(is_name(label) && !label.contains(':'), "{label}");
        let (value, behind) = unquoted(value);
        labels.push((label.to_owned(), value));
        let Some(next) = behind.strip_prefix(',') else {
            let value = behind.strip_prefix("} ").expect("the value of the sample");
            return (name.to_owned(), labels, value.parse().expect("it is a number"));
        };
        rest = next;
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |at: usize, byte: u8| {
        byte.is_ascii_alphabetic() || b"_:".contains(&byte) || at > 0 && byte.is_ascii_digit()
    };
    !name.is_empty() && name.bytes().enumerate().all(|(at, byte)| is_letter(at, byte))
}

/// The value of a label, and the text behind its closing quote.
fn unquoted(text: &str) -> (String, &str) {
    let (mut value, mut characters) = (String::new(), text.char_indices());
    loop {
        let (at, character) = characters.next().expect("the value ends");
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => {
                value.push(match characters.next().expect("a backslash stands before another character").1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    other => panic!("\\{other} has no meaning"),
                })
            }
            other => value.push(other),
        }
    }
}

/// Each histogram has buckets in the order of their bounds, none with fewer calls than the one before, the last without a bound and with
/// all calls.
fn check_histograms(samples: &[Sample], name: &str) -> usize {
    let mut buckets: BTreeMap<Vec<_>, Vec<(f64, f64)>> = BTreeMap::new();
    for (_, labels, calls) in samples.iter().filter(|sample| sample.0 == format!("{name}_bucket")) {
        let ((le, bound), others) = labels.split_last().expect("a bucket has a bound");
        assert_eq!(le, "le");
        buckets.entry(others.to_vec()).or_default().push((bound.parse().expect("a number"), *calls));
    }
    for (labels, buckets) in &buckets {
        assert!(buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1), "{buckets:?}");
        let of = |end: &str| {
            let is_it = |sample: &&Sample| sample.0 == format!("{name}{end}") && sample.1 == *labels;
            samples.iter().find(is_it).expect("a histogram has a sum and a count").2
        };
        let last = buckets.last().expect("there are buckets");
        assert_eq!((last.0, last.1), (f64::INFINITY, of("_count")));
        assert!(of("_sum") >= 0.0);
    }
    buckets.len()
}

fn histogram(times_ns: &[u64]) -> Histogram {
    let live = LiveHistogram::default();
    times_ns.iter().for_each(|ns| {
        live.add(1, *ns, true);
    });
    live.copy()
}

fn server_account() -> ServerAccount {
    let ran = histogram(&[500, 1_500, 1_500, 3_000_000_000_000]);
    let procedure = |name: &str| ServedProcedure {
        interface: "A".into(),
        name: name.into(),
        calls: 9,
        running: 2,
        ran: ran.clone(),
        pipes: PipedItems { sent: 7, waited_for_room: Duration::from_millis(500), ..PipedItems::default() },
        ..ServedProcedure::default()
    };
    let peer = |name: &str| CallingPeer { peer: name.into(), calls: 3, ran: Duration::from_millis(1500) };
    let peers = vec![peer("an \"odd\"\none\\"), peer("2001:db8::1"), peer("x} 1 # \u{e4}")];
    let procedures = vec![procedure("b"), procedure("c")];
    ServerAccount { is_kept: true, short_share: 1, procedures, peers }
}

#[test]
fn account_of_a_server_has_the_text_form() {
    let account = server_account();
    let samples = samples(&account.prometheus().to_string());
    assert_eq!(check_histograms(&samples, "stoop_served_seconds"), 2);
    let bucket = |bound: &str| {
        let is_it = |sample: &&Sample| sample.1.contains(&("le".into(), bound.into()));
        samples.iter().find(is_it).expect("the bucket is there").2
    };
    assert_eq!(["0.000001024", "0.000002048", "68.719476736", "+Inf"].map(bucket), [1.0, 3.0, 3.0, 4.0]);
    let of =
        |metric: &str| samples.iter().filter(|sample| sample.0 == metric).map(|it| it.2).collect::<Vec<_>>();
    assert_eq!(of("stoop_pipe_items_total"), [7.0, 0.0, 7.0, 0.0]);
    assert_eq!(of("stoop_pipe_wait_seconds_total"), [0.5, 0.0, 0.5, 0.0]);
    for peer in &account.peers {
        let labels = [("peer".to_owned(), peer.peer.clone())];
        let is_it = |sample: &&Sample| sample.0 == "stoop_peer_seconds_total" && sample.1 == labels;
        assert_eq!(samples.iter().find(is_it).expect("the caller is there").2, 1.5);
    }
}

#[test]
fn account_of_a_binding_has_the_text_form() {
    let called = |name| CalledProcedure {
        name,
        whole: histogram(&[5_000, 80_000]),
        server: histogram(&[]),
        rest: histogram(&[4_000, 70_000]),
        failed: 1,
        pipes: PipedItems::default(),
    };
    let account = CallAccount {
        interface: "A",
        procedures: vec![called("get"), called("put")],
        ..CallAccount::default()
    };
    let samples = samples(&account.prometheus().to_string());
    // A histogram without calls is left out.
    assert_eq!(check_histograms(&samples, "stoop_call_seconds"), 4);
    assert_eq!(samples.iter().filter(|sample| sample.0 == "stoop_calls_failed_total").count(), 2);
}

#[test]
fn account_without_calls_has_the_text_form() {
    assert!(samples(&CallAccount::default().prometheus().to_string()).is_empty());
    assert!(samples(&ServerAccount::default().prometheus().to_string()).is_empty());
}

#[test]
fn processes_of_a_user_are_one_caller() {
    let peer = |name: &str, calls| CallingPeer { peer: name.into(), calls, ran: Duration::from_secs(calls) };
    let peers = (1..=1000).map(|pid| peer(&format!("process {pid} of user 7"), 2));
    let peers =
        peers.chain([peer("process 5 of user 8", 1), peer("192.0.2.1", 4), peer("others", 3)]).collect();
    let account = ServerAccount { peers, ..server_account() };
    let samples = samples(&account.prometheus().to_string());
    let of = |metric: &str| {
        let peers = samples.iter().filter(|sample| sample.0 == metric);
        peers.map(|sample| (sample.1[0].1.clone(), sample.2)).collect::<Vec<_>>()
    };
    let expected = [("192.0.2.1", 4.0), ("others", 3.0), ("user 7", 2000.0), ("user 8", 1.0)];
    let expected = expected.map(|(peer, calls)| (peer.to_owned(), calls));
    assert_eq!(
        (of("stoop_peer_calls_total"), of("stoop_peer_seconds_total")),
        (expected.to_vec(), expected.to_vec())
    );
}

#[test]
fn counters_have_the_text_form_whatever_a_server_calls_them() {
    let counters = [
        ("bindings", 3),
        ("queue.waiting", 5),
        ("queue.full", 7),
        ("calls", 11),
        ("refused", 9),
        ("refused.overloaded", 7),
        ("refused.denied", 2),
        ("handshakes.bound", 6),
        ("handshakes_refused.unknown_caller", 8),
        ("bindings", 4),
        ("refused.odd\"} 1\n", 1),
        ("", 1),
        ("x y", 1),
        (".x", 1),
    ];
    let counters = counters.map(|(name, value)| (name.to_owned(), value));
    let samples = samples(&counters_for_prometheus(&counters).to_string());
    let of = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<_> = labels.iter().map(|(of, value)| (of.to_string(), value.to_string())).collect();
        samples.iter().find(|sample| sample.0 == name && sample.1 == labels).map(|sample| sample.2)
    };
    assert_eq!(of("stoop_server_bindings", &[]), Some(4.0));
    assert_eq!(of("stoop_server_queue_waiting", &[]), Some(5.0));
    assert_eq!(of("stoop_server_queue_full_total", &[]), Some(7.0));
    assert_eq!(of("stoop_server_calls_total", &[]), Some(11.0));
    assert_eq!(of("stoop_server_refused_total", &[]), Some(9.0));
    assert_eq!(of("stoop_server_handshakes_bound_total", &[]), Some(6.0));
    let strangers = [("reason", "unknown_caller")];
    assert_eq!(of("stoop_server_handshakes_refused_total", &strangers), Some(8.0));
    assert_eq!(of("stoop_server_refusals_total", &[("reason", "overloaded")]), Some(7.0));
    assert_eq!(of("stoop_server_refusals_total", &[("reason", "denied")]), Some(2.0));
    assert_eq!(samples.len(), 9);
}
