//! Whether programs of an old and of a new form of an interface can call each other: the comparison of a bind, without a bind.
//!
//! [`Known`] has the forms of some interfaces: of a program's own, of a *lock file*, or of a running server. [`breaks`] compares two of
//! them in both directions, by the code that answers binds. [`locked`] is for a test: it compares the interfaces of a program with its lock
//! file, `interfaces.lock`, which is under version control. The command `stoop check` does the same for files and servers.
//!
//! A line of a lock file is a form of a procedure: its interface, the first and the last revision at which it holds, its fingerprint, its
//! signature.

use crate::forms::KnownForm;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::reflection::{self, AskError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::Path;
use stoop_exchange::{Interfaces, OlderForm, Procedure, fingerprint};

/// The forms of interfaces that a program knows.
///
/// ```
/// use stoop::compatibility::{Known, breaks};
///
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; }
/// let before = Known::parse("Test 0-0 c25a780961a0a498 null()\n")?;
/// let after = Known::of(&[AdderClient::interface()]);
/// assert_eq!(breaks(&before, &after).len(), 1, "there is no interface Test any more");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<KnownInterface>);

#[derive(Clone, Debug, Default)]
struct KnownInterface {
    compared: stoop_exchange::Interface,
    /// The first and the last revision of each form, those of the procedures first.
    revisions: Vec<(u32, u32)>,
}

/// A procedure that programs of two forms of an interface cannot call, so that they do not bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The interface.
    pub interface: String,
    /// The procedure; empty: the server does not have the interface.
    pub procedure: String,
    /// Whose callers no longer bind.
    pub callers: Callers,
    /// The newest form that the caller knows.
    pub caller: String,
    /// The newest form that the server knows; empty if it has none.
    pub server: String,
}

/// The callers for which something breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Those built with the old form, at a server of the new one.
    Old,
    /// Those built with the new form, at a server of the old one.
    New,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, procedure, callers, caller, server } = self;
        let (callers, at) = match callers {
            Callers::Old => ("old callers", "new"),
            Callers::New => ("new callers", "old"),
        };
        if procedure.is_empty() {
            return write!(f, "{interface}: breaks {callers}: {at} servers do not have the interface");
        }
        write!(f, "{interface}.{procedure}: breaks {callers}\n  caller: {caller}\n  server: ")?;
        match (server.as_str(), callers) {
            ("", "old callers") => {
                f.write_str("has no such procedure; keep it, and let no caller use it first")
            }
            ("", _) => f.write_str("has no such procedure; say since when it is there: #[since(N)]"),
            (server, _) => write!(
                f,
                "{server}\n  keep what was there, and add the new beside it: #[stoop(since = N)] on a field or variant, #[since(N)] on a \
                 parameter"
            ),
        }
    }
}

impl Known {
    /// Those of a program: of the interfaces of its clients, `StoreClient::interface()`.
    ///
    /// # Panics
    /// The types and the revisions of one do not fit together. The message says what to write.
    pub fn of(interfaces: &[&Interface]) -> Self {
        let known = |interface: &&Interface| {
            if let Err(why) = interface.check_forms() {
                panic!("the interface {}: {why}", interface.name);
            }
            interface.known_forms()
        };
        Self(interfaces.iter().map(known).map(KnownInterface::from).collect())
    }

    /// Those of the server at `uri`, as it tells them.
    ///
    /// # Errors
    /// The server cannot be reached or describes no interfaces, or a description does not parse.
    pub fn ask(uri: &str, options: &BindOptions) -> Result<Self, AskError> {
        let mut known = Vec::new();
        for name in reflection::interfaces(uri, options)? {
            let told = reflection::ask_forms(uri, &name, options)?;
            known.extend(told.into_iter().map(|form| (name.clone(), form.first, form.last, form.signature)));
        }
        Ok(Self::of_forms(known))
    }

    /// Those in a list: for each form its interface, the first and the last revision at which it holds, and its signature.
    pub fn of_forms(forms: impl IntoIterator<Item = (String, u32, u32, String)>) -> Self {
        let mut known: Vec<(String, Vec<KnownForm>)> = Vec::new();
        for (name, first, last, signature) in forms {
            let form = KnownForm { first, last, signature };
            match known.iter_mut().find(|(other, _)| *other == name) {
                Some((_, forms)) => forms.push(form),
                None => known.push((name, vec![form])),
            }
        }
        Self(known.into_iter().map(KnownInterface::from).collect())
    }

    /// Those of a lock file with that text.
    ///
    /// # Errors
    /// A line is none of a lock file, or was changed by hand.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines =
            (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let parsed = lines.map(|(number, line)| {
            let (name, form) = KnownForm::parse(line).map_err(|why| format!("line {number}: {why}"))?;
            Ok((name.to_owned(), form.first, form.last, form.signature))
        });
        parsed.collect::<Result<Vec<_>, String>>().map(Self::of_forms)
    }
}

/// The text of a lock file.
impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# Forms of interfaces: interface, revisions, fingerprint, signature. STOOP_LOCK=update writes this file.\n")?;
        for KnownInterface { compared, revisions } in &self.0 {
            let older = compared.older.iter().map(|form| &form.signature);
            let signatures = compared.procedures.iter().map(|procedure| &procedure.signature).chain(older);
            for (signature, &(first, last)) in signatures.zip(revisions) {
                f.write_str(&KnownForm { first, last, signature: signature.clone() }.line(&compared.name))?;
            }
        }
        Ok(())
    }
}

impl KnownForm {
    fn line(&self, interface: &str) -> String {
        let Self { first, last, signature } = self;
        format!("{interface} {first}-{last} {:016x} {signature}\n", fingerprint(signature))
    }

    fn parse(line: &str) -> Result<(&str, Self), String> {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let [interface, revisions, told, signature] = parts[..] else {
            return Err("expected interface, revisions, fingerprint and signature".into());
        };
        let parsed = revisions
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let Some((first, last)) = parsed else {
            return Err(format!("`{revisions}` is no range of revisions"));
        };
        if format!("{:016x}", fingerprint(signature)) != told {
            return Err("the fingerprint is not that of the signature; do not edit lock files by hand".into());
        }
        Ok((interface, Self { first, last, signature: signature.into() }))
    }

    /// The name of the procedure.
    fn procedure(&self) -> &str {
        name_of(&self.signature)
    }
}

fn name_of(signature: &str) -> &str {
    let signature = signature.strip_prefix("one_way ").unwrap_or(signature);
    signature.split('(').next().unwrap_or(signature)
}

impl From<(String, Vec<KnownForm>)> for KnownInterface {
    fn from((name, forms): (String, Vec<KnownForm>)) -> Self {
        let newest = forms.iter().map(|form| form.last).max().unwrap_or(0);
        let oldest = forms.iter().map(|form| form.first).min().unwrap_or(0);
        let mut known = Self {
            compared: stoop_exchange::Interface { name, ..Default::default() },
            revisions: Vec::new(),
        };
        let present = forms.iter().filter(|form| form.last == newest);
        for form in present.clone() {
            let (name, signature) = (form.procedure().into(), form.signature.clone());
            known.compared.procedures.push(Procedure { name, signature });
            known.revisions.push((form.first, form.last));
        }
        for (number, newest_form) in (0..).zip(present) {
            let is_older =
                |form: &&KnownForm| form.last < newest && form.procedure() == newest_form.procedure();
            let mut older: Vec<&KnownForm> = forms.iter().filter(is_older).collect();
            older.sort_by_key(|form| std::cmp::Reverse(form.last));
            let first = older.last().map_or(newest_form.first, |form| form.first);
            if first > oldest {
                known.compared.later.push(number);
            }
            for form in older {
                known.compared.older.push(OlderForm { procedure: number, signature: form.signature.clone() });
                known.revisions.push((form.first, form.last));
            }
        }
        known
    }
}

/// What breaks when programs that know `old` and programs that know `new` call each other: nothing, if each binds to each. Interfaces
/// that only the new ones have are no break.
pub fn breaks(old: &Known, new: &Known) -> Vec<Break> {
    let mut breaks = Vec::new();
    for before in &old.0 {
        match new.0.iter().find(|after| after.compared.name == before.compared.name) {
            Some(after) => {
                breaks.extend(before.breaks_at(after, Callers::Old));
                breaks.extend(after.breaks_at(before, Callers::New));
            }
            None => breaks.push(Break {
                interface: before.compared.name.clone(),
                procedure: String::new(),
                callers: Callers::Old,
                caller: String::new(),
                server: String::new(),
            }),
        }
    }
    breaks
}

/// What an older end cannot read although nothing breaks: variants that enums have gained since `old`, a sentence for each. A form does not
/// tell whether an enum has a variant under `#[stoop(otherwise)]`.
pub fn new_variants(old: &Known, new: &Known) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (before, after) in old.0.iter().flat_map(|before| new.0.iter().map(move |after| (before, after))) {
        if before.compared.name != after.compared.name {
            continue;
        }
        for (then, now) in before.compared.procedures.iter().flat_map(|then| {
            let is_same = |now: &&Procedure| now.name == then.name && now.signature != then.signature;
            after.compared.procedures.iter().find(is_same).map(|now| (then, now))
        }) {
            let known = enums(&then.signature);
            for (name, variants) in enums(&now.signature) {
                let Some(known) = known.get(name) else { continue };
                found.extend(variants.difference(known).map(|variant| {
                    format!(
                        "{}: older ends cannot read {name}::{variant}: their callers are told the variant under #[stoop(otherwise)] in its \
                         place, or the call fails if {name} has none",
                        before.compared.name
                    )
                }));
            }
        }
    }
    found.into_iter().collect()
}

/// The enums in a signature, and the names of their variants.
fn enums(signature: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let is_of_name = |each: char| each.is_alphanumeric() || each == '_';
    let mut enums = BTreeMap::<_, BTreeSet<_>>::new();
    for (at, _) in signature.match_indices('{') {
        let name = signature[..at].rsplit(|each| !is_of_name(each)).next().unwrap_or_default();
        let (mut rest, mut depth) = (&signature[at + 1..], 0);
        let mut variants = BTreeSet::new();
        // A struct has a `:` behind the first name.
        let first = rest.trim_start_matches(is_of_name);
        if first.starts_with(':') {
            continue;
        }
        variants.insert(&rest[..rest.len() - first.len()]);
        while let Some(next) = rest.find(['{', '(', '}', ')', '|']) {
            match rest.as_bytes()[next] {
                b'{' | b'(' => depth += 1,
                b'|' if depth == 0 => {
                    let variant = rest[next + 1..].trim_start();
                    variants
                        .insert(&variant[..variant.find(|each| !is_of_name(each)).unwrap_or(variant.len())]);
                }
                b'|' => {}
                _ if depth == 0 => break,
                _ => depth -= 1,
            }
            rest = &rest[next + 1..];
        }
        enums.entry(name).or_default().extend(variants);
    }
    enums
}

impl KnownInterface {
    /// What callers with this interface cannot call at a server with that one.
    fn breaks_at(&self, server: &Self, callers: Callers) -> Vec<Break> {
        let interfaces = Interfaces::new([server.compared.clone()]);
        let (mut caller, mut broken) = (self.compared.clone(), BTreeSet::new());
        // Each procedure that does not agree is left out in turn, as one that a server may lack.
        while let Err(Some(procedure)) = interfaces.agree(&caller) {
            broken.insert(procedure);
            caller.later.push(procedure as u16);
            caller.later.sort_unstable();
        }
        let of_server =
            |name: &str| server.compared.procedures.iter().find(|procedure| procedure.name == name);
        let broken = broken.into_iter().map(|number| {
            let Procedure { name, signature } = &self.compared.procedures[number];
            Break {
                interface: self.compared.name.clone(),
                procedure: name.clone(),
                callers,
                caller: signature.clone(),
                server: of_server(name).map_or_else(String::new, |procedure| procedure.signature.clone()),
            }
        });
        broken.collect()
    }
}

/// For a test: checks that the interfaces of a program are as they are locked in the file at `path`. With `STOOP_LOCK=update` in the
/// environment it writes the file.
///
/// ```no_run
/// # #[stoop::interface] trait Store { fn get(&self, name: &str) -> Option<u64>; }
/// #[test]
/// fn interfaces_are_as_locked() {
///     stoop::compatibility::locked("interfaces.lock", &[StoreClient::interface()]);
/// }
/// ```
///
/// # Panics
/// They are not. The message says what breaks for programs that are in use, and what to write instead.
#[track_caller]
pub fn locked(path: impl AsRef<Path>, interfaces: &[&Interface]) {
    let (path, now) = (path.as_ref(), Known::of(interfaces));
    let text = now.to_string();
    if std::env::var_os("STOOP_LOCK").is_some_and(|value| value == "update") {
        return std::fs::write(path, text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
    let update = "STOOP_LOCK=update cargo test";
    let locked = std::fs::read_to_string(path)
        .unwrap_or_else(|why| panic!("{}: {why}; `{update}` writes it", path.display()));
    if locked == text {
        return;
    }
    let before = Known::parse(&locked).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut message = format!("the interfaces are not as {} has them", path.display());
    let breaks = breaks(&before, &now);
    for each in breaks.iter().map(Break::to_string).chain(new_variants(&before, &now)) {
        let _ = write!(message, "\n{each}");
    }
    let safe =
        if breaks.is_empty() { "Old and new programs can call each other: " } else { "If that is meant: " };
    panic!("{message}\n{safe}`{update}` writes the file anew");
}

#[cfg(test)]
mod tests;
