use super::*;
use stoop_exchange::Instant;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::server::{Limits, Peer, Server};
use stoop_wire::bind::HostFacts;

#[derive(Clone, Copy, Debug)]
struct Host;

impl Peer for Host {
    fn host(&self) -> [u8; 16] {
        [1; 16]
    }
    fn port(&self) -> u16 {
        7
    }
}

/// Random numbers by xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(end)) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// The history of a procedure: its name, with which revision it came, and the revisions at which it changed.
#[derive(Clone, Debug)]
struct History {
    name: String,
    since: u32,
    changes: Vec<u32>,
    /// Another text for what has not been declared as a change.
    retyped: bool,
}

impl History {
    fn random(number: u32, random: &mut Random) -> Self {
        let since = if random.one_in(3) { random.below(4) } else { 0 };
        let changes = (1..5).filter(|_| random.one_in(3)).filter(|change| *change > since).collect();
        Self { name: format!("p{number}"), since, changes, retyped: false }
    }

    fn signature(&self, revision: u32) -> String {
        let changes = self.changes.iter().filter(|change| **change <= revision);
        let types: Vec<String> = changes.map(|change| format!("T{change}")).collect();
        let retyped = if self.retyped { " -> u64" } else { "" };
        format!("{}({}){retyped}", self.name, types.join(", "))
    }

    /// Its forms between two revisions.
    fn forms(&self, oldest: u32, newest: u32) -> Vec<KnownForm> {
        let mut forms: Vec<KnownForm> = Vec::new();
        for revision in self.since.max(oldest)..=newest {
            let signature = self.signature(revision);
            match forms.last_mut().filter(|form| form.signature == signature) {
                Some(form) => form.last = revision,
                None => forms.push(KnownForm { first: revision, last: revision, signature }),
            }
        }
        forms
    }
}

/// What a program of a revision knows, through the text of its lock file.
fn known(histories: &[History], oldest: u32, newest: u32) -> Known {
    let forms = histories.iter().flat_map(|history| history.forms(oldest, newest));
    let text: String = forms.map(|form| form.line("Random")).collect();
    let known = Known::parse(&text).unwrap();
    let again = Known::parse(&known.to_string()).unwrap();
    assert_eq!(known.to_string(), again.to_string());
    known
}

/// Whether a caller binds to a server, both with the exchange that ships.
fn binds(caller: &Known, server: &Known) -> bool {
    let now = Instant::from_nanos(1);
    let exported = server.0.iter().map(|interface| interface.compared.clone());
    let interfaces = Interfaces::new(exported);
    let mut server = Server::new(now, interfaces, Limits::default(), HostFacts::default(), [1, 2]);
    let deadline = now + std::time::Duration::from_secs(1);
    let interface = caller.0[0].compared.clone();
    let mut binder = Binder::new(now, deadline, interface, HostFacts::default(), 99);
    let mut reply = Vec::new();
    for _ in 0..100 {
        let packet = binder.transmit(now).expect("something to ask");
        server.handle_packet(now, &Host, &packet, &mut reply);
        match binder.handle_packet(now, &reply) {
            BindStep::Continue => {}
            BindStep::Bound(_) => return true,
            BindStep::Mismatch { .. } => return false,
            step => panic!("{step:?}"),
        }
    }
    panic!("no end");
}

#[test]
fn what_is_found_to_break_is_what_a_bind_refuses() {
    let (mut broken, mut whole) = (0, 0);
    for seed in 1..=10_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let count = 1 + random.below(5);
        let histories: Vec<History> = (0..count).map(|number| History::random(number, &mut random)).collect();
        let mut other = histories.clone();
        if random.one_in(4) {
            let index = random.below(count) as usize;
            other[index].retyped = true;
        }
        if random.one_in(6) {
            let index = random.below(count) as usize;
            other[index].changes.pop();
        }
        if count > 1 && random.one_in(8) {
            other.remove(random.below(count) as usize);
        }
        if random.one_in(3) {
            other.reverse();
        }
        let range = |random: &mut Random| {
            let newest = random.below(5);
            (if random.one_in(4) { random.below(newest + 1) } else { 0 }, newest)
        };
        let ((oldest, newest), (other_oldest, other_newest)) = (range(&mut random), range(&mut random));
        let (old, new) = (known(&histories, oldest, newest), known(&other, other_oldest, other_newest));
        if old.0.is_empty() || new.0.is_empty() {
            continue;
        }
        let found = breaks(&old, &new);
        let of = |callers| found.iter().any(|each| each.callers == callers);
        assert_eq!(binds(&old, &new), !of(Callers::Old), "seed {seed}: {found:?}\n{old}\n{new}");
        assert_eq!(binds(&new, &old), !of(Callers::New), "seed {seed}: {found:?}\n{old}\n{new}");
        *(if found.is_empty() { &mut whole } else { &mut broken }) += 1;
    }
    assert!(broken > 1000 && whole > 1000, "{broken} pairs are broken, {whole} are not");
}

#[test]
fn a_line_that_was_changed_by_hand_is_refused() {
    let form = KnownForm { first: 0, last: 2, signature: "get(name: String) -> u32".into() };
    let line = form.line("Store");
    assert_eq!(KnownForm::parse(line.trim_end()), Ok(("Store", form)));
    let changed = line.replace("u32", "u64");
    assert!(Known::parse(&changed).unwrap_err().contains("line 1: the fingerprint"));
    for no_line in ["Store", "Store 0-1 12", "Store x-1 12 f()", "Store 1 12 f()"] {
        assert!(Known::parse(no_line).is_err(), "{no_line}");
    }
}

#[test]
fn what_breaks_is_said_with_what_to_write() {
    let known = |lines: &[(u32, u32, &str)]| {
        let form = |(first, last, signature): &(u32, u32, &str)| KnownForm {
            first: *first,
            last: *last,
            signature: (*signature).into(),
        };
        Known::parse(&lines.iter().map(|each| form(each).line("Store")).collect::<String>()).unwrap()
    };
    let old = known(&[(0, 0, "get(name: String) -> E{a: u32}"), (0, 0, "put(e: E{a: u32})")]);
    let new = known(&[(0, 0, "get(name: String) -> E{a: u64}"), (0, 0, "put(e: E{a: u32})")]);
    let found = breaks(&old, &new);
    assert_eq!(found.len(), 2);
    let text = found[0].to_string();
    assert!(
        text.starts_with("Store.get: breaks old callers\n  caller: get(name: String) -> E{a: u32}\n"),
        "{text}"
    );
    assert!(text.contains("#[stoop(since = N)]"), "{text}");
    // A procedure more, without `since`: only new callers at old servers.
    let more = known(&[
        (0, 0, "get(name: String) -> E{a: u32}"),
        (0, 0, "put(e: E{a: u32})"),
        (0, 0, "count() -> u32"),
    ]);
    let found = breaks(&old, &more);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].callers, Callers::New);
    assert!(found[0].to_string().contains("#[since(N)]"), "{}", found[0]);
    let since = known(&[
        (0, 1, "get(name: String) -> E{a: u32}"),
        (0, 1, "put(e: E{a: u32})"),
        (1, 1, "count() -> u32"),
    ]);
    assert_eq!(breaks(&old, &since), []);
    assert_eq!(breaks(&old, &Known::default()).len(), 1);
}

#[test]
fn a_variant_that_an_enum_has_gained_is_told_though_nothing_breaks() {
    let known = |kind: &str, last: u32, first: Option<&str>| {
        let form = |first: u32, last: u32, kind: &str| {
            ("Store".into(), first, last, format!("get(name: String, at: Place{{x: u8}}) -> [{kind}]"))
        };
        let older = first.map(|kind| form(0, 0, kind));
        Known::of_forms(older.into_iter().chain([form(last, last, kind)]))
    };
    let before = "Kind{File | Link{to: Kind2{A | B(u8)}}}";
    let after = "Kind{File | Link{to: Kind2{A | B(u8)}} | Dir(u8)}";
    let (old, new) = (known(before, 0, None), known(after, 1, Some(before)));
    assert!(breaks(&old, &new).is_empty());
    let told = new_variants(&old, &new);
    assert!(
        matches!(&told[..], [one] if one.starts_with("Store: older ends cannot read Kind::Dir: ")),
        "{told:?}"
    );
    assert!(new_variants(&new, &new).is_empty() && new_variants(&new, &old).is_empty());
}
