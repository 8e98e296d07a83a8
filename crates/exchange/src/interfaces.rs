//! The interfaces that a server exports, and their comparison with the interface that a caller expects.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use stoop_wire::bind::{BindStatus, Describe, HostFacts, NO_PROCEDURE, SEAL_INTERFACE};
use stoop_wire::metadata::IN_PROCEDURE;

/// Hash of a signature without the names of its parameters, which caller and server compare. It guards against
/// mistakes, not against forgery.
pub fn fingerprint(signature: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(without_parameter_names(signature).as_bytes());
    hasher.finish()
}

/// A signature without the names of its parameters: `place(Point{x: f64, y: f64}, [u8])` for
/// `place(at: Point{x: f64, y: f64}, name: [u8])`.
fn without_parameter_names(signature: &str) -> String {
    let begin = signature.find('(').map_or(signature.len(), |open| open + 1);
    let (mut out, mut rest) = (String::from(&signature[..begin]), &signature[begin..]);
    loop {
        if let Some((name, behind)) = rest.split_once(": ")
            && name.chars().all(|each| each.is_alphanumeric() || each == '_')
        {
            rest = behind;
        }
        match end_of_type(rest) {
            Some(end) if rest[end..].starts_with(", ") => {
                let (of_this, behind) = rest.split_at(end + 2);
                out.push_str(of_this);
                rest = behind;
            }
            _ => {
                out.push_str(rest);
                return out;
            }
        }
    }
}

/// Offset at which the type of a parameter ends: at a comma, or at the end of the list.
fn end_of_type(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|byte| match byte {
        b'(' | b'[' | b'{' | b'<' => {
            depth += 1;
            false
        }
        b')' | b']' | b'}' | b'>' if depth > 0 => {
            depth -= 1;
            false
        }
        b')' => true,
        b',' => depth == 0,
        _ => false,
    })
}

/// A procedure as the two sides compare it.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: String,
    /// Its signature, with types spelled out down to their fields. The names of parameters are shown to people and not
    /// compared.
    pub signature: String,
}

/// An interface, of a server or as a caller expects it.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Its name, unique in the server.
    pub name: String,
    /// Its procedures. The position of a procedure is its number on the wire.
    pub procedures: Vec<Procedure>,
    /// The forms that its procedures had at older revisions, those of a procedure from the newest to the oldest. The number of a form is
    /// [`FORMS`] more than its position.
    pub older: Vec<OlderForm>,
    /// The positions of the procedures that a server may lack, in ascending order: they came with a later revision.
    pub later: Vec<u16>,
}

/// The form of a procedure at an older revision.
#[derive(Clone, Debug)]
pub struct OlderForm {
    /// The position of the procedure.
    pub procedure: u16,
    /// Its signature at that revision.
    pub signature: String,
}

/// What a server has of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The caller's number of the form that both know: its procedure, or one of its [older forms](FORMS); [`NO_PROCEDURE`] if the
    /// server lacks the procedure.
    pub form: u16,
    /// The server's number of that form.
    pub number: u16,
}

impl Found {
    /// Of a procedure that the server lacks.
    pub const NOTHING: Self = Self { form: NO_PROCEDURE, number: NO_PROCEDURE };
}

/// The number of the first older form of an interface; those of its procedures are below.
pub const FORMS: u16 = 0x4000;

/// Older forms that an interface may have, all its procedures together.
pub const FORMS_MAX: usize = 4096;

impl Interface {
    /// A line for each procedure: fingerprint, interface, the server's number, signature. A dissector reads such lines to show procedures
    /// by their names.
    pub fn names(&self) -> String {
        let line = |(number, signature): (u16, &str)| {
            format!("{:016x} {} {number} {signature}\n", fingerprint(signature), self.name)
        };
        self.numbered().map(line).collect()
    }

    /// The signatures of its procedures and of their older forms, each with its number.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u16, &str)> {
        let procedures = (0..).zip(self.procedures.iter().map(|procedure| procedure.signature.as_str()));
        procedures.chain((FORMS..).zip(self.older.iter().map(|form| form.signature.as_str())))
    }
}

/// All interfaces of a server.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    all: Vec<Numbered>,
    /// Other addresses at which the server can be reached.
    offers: String,
    /// Whether callers are told neither names nor signatures.
    is_silent: bool,
    /// Of interfaces of which a caller without a name may call nothing: why.
    denials: Vec<(usize, String)>,
    /// For each procedure of each interface: see [`returning_in_place`](Self::returning_in_place).
    in_place: Vec<Vec<Option<u8>>>,
}

/// An interface, and the numbers of its procedures and of their older forms by their fingerprints, in ascending order: a peer cannot make
/// it take longer to find one than the logarithm of their number.
#[derive(Clone, Debug)]
struct Numbered {
    interface: Interface,
    numbers: Vec<(u64, u16)>,
}

impl Numbered {
    fn new(interface: Interface) -> Self {
        let mut numbers: Vec<_> =
            interface.numbered().map(|(number, signature)| (fingerprint(signature), number)).collect();
        numbers.sort_unstable();
        Self { interface, numbers }
    }

    /// The number of the procedure or form with that fingerprint; the lowest, should there be several.
    fn number(&self, theirs: u64) -> Option<u16> {
        let at = self.numbers.partition_point(|(ours, _)| *ours < theirs);
        self.numbers.get(at).filter(|(ours, _)| *ours == theirs).map(|(_, number)| *number)
    }
}

/// Most bytes of a call's payload before an argument that comes back in place.
pub(crate) const LEADING_MAX: usize = 16;

impl Interfaces {
    /// Makes the list. An interface's position is its number.
    ///
    /// # Panics
    /// If an interface has more than 16,384 procedures, or more than 4096 older forms.
    pub fn new(interfaces: impl IntoIterator<Item = Interface>) -> Self {
        let numbered = |interface: Interface| {
            assert!(interface.procedures.len() <= usize::from(FORMS), "procedures are numbered by 14 bits");
            assert!(interface.older.len() <= FORMS_MAX, "older forms are numbered by 12 bits");
            Numbered::new(interface)
        };
        let all: Vec<_> = interfaces.into_iter().map(numbered).collect();
        let in_place = all.iter().map(|each| alloc::vec![None; each.interface.procedures.len()]).collect();
        Self { all, in_place, denials: Vec::new(), offers: String::new(), is_silent: false }
    }

    /// Declares that the only argument of a procedure comes back as the beginning of its result, and that `leading`
    /// bytes of a call's payload precede it. A long result can then use the memory into which its call was received:
    /// [`Assignment::argument_as_result`](crate::server::Assignment::argument_as_result).
    ///
    /// # Panics
    /// If there is no such procedure, or `leading` is more than 16.
    #[must_use]
    pub fn returning_in_place(mut self, interface: usize, procedure: usize, leading: u8) -> Self {
        assert!(usize::from(leading) <= LEADING_MAX, "a count, and padding to the largest alignment");
        self.in_place[interface][procedure] = Some(leading);
        self
    }

    /// Number of bytes before the argument that comes back in place; `None` if the procedure has no such argument.
    pub(crate) fn in_place(&self, interface: u16, procedure: u16) -> Option<u8> {
        *self.in_place.get(usize::from(interface))?.get(usize::from(procedure))?
    }

    /// Adds the other addresses of this server, for callers on its machine. The caller's driver interprets the text.
    #[must_use]
    pub fn with_offers(self, offers: String) -> Self {
        Self { offers, ..self }
    }

    /// The same, but a caller of another interface is not told which there are, and a caller of another signature not which it is.
    #[must_use]
    pub fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }

    /// Declares that a caller that has proved no name may call nothing of an interface, and what it is told.
    #[must_use]
    pub fn denying(mut self, interface: usize, why: String) -> Self {
        self.denials.push((interface, why));
        self
    }

    /// Why a caller that has proved no name may call nothing of an interface; `None`: it may call something.
    pub(crate) fn denial(&self, interface: usize) -> Option<String> {
        self.denials.iter().find(|(of, _)| *of == interface).map(|(_, why)| why.clone())
    }

    /// Text of a bind reply to a caller on the machine `there`: the names of the interfaces if it asked for an unknown
    /// one; the other addresses of the server if both are on one machine.
    pub fn reply_text(&self, status: BindStatus, here: &HostFacts, there: &HostFacts) -> String {
        match status {
            BindStatus::NoSuchInterface if !self.is_silent => self.names(),
            BindStatus::Bound | BindStatus::NotAllowed if here.shares_kernel_with(there) => {
                self.offers.clone()
            }
            _ => String::new(),
        }
    }

    /// Adds an interface, which the driver itself serves. Returns its number.
    pub fn add(&mut self, interface: Interface) -> usize {
        let added = Self::new([interface]);
        self.all.extend(added.all);
        self.in_place.extend(added.in_place);
        self.all.len() - 1
    }

    /// Number of the interface called `name`.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|each| each.interface.name == name)
    }

    /// Number of procedures of an interface; 0 if there is no such interface.
    #[inline]
    pub fn procedure_count(&self, interface: usize) -> usize {
        self.all.get(interface).map_or(0, |each| each.interface.procedures.len())
    }

    /// Whether a call with that number is of a procedure of the interface: the number of one of its older forms, or a number with the bit
    /// [`IN_PROCEDURE`], is, too.
    #[cold]
    pub fn has_procedure(&self, interface: usize, number: u16) -> bool {
        let Some(Numbered { interface, .. }) = self.all.get(interface) else { return false };
        let number = number & !IN_PROCEDURE;
        match number.checked_sub(FORMS) {
            Some(form) => usize::from(form) < interface.older.len(),
            None => usize::from(number) < interface.procedures.len(),
        }
    }

    /// This server's numbers for the procedures with these fingerprints.
    ///
    /// # Errors
    /// The reason why nothing can be bound: no such interface, or a procedure without a match, which the numbers mark
    /// by [`NO_PROCEDURE`].
    pub fn compare(
        &self,
        interface: &str,
        theirs: &[u64],
    ) -> Result<(usize, Vec<u16>), (BindStatus, Vec<u16>)> {
        let number = self.number_of(interface).ok_or((BindStatus::NoSuchInterface, Vec::new()))?;
        let ours = &self.all[number];
        let procedures: Vec<u16> =
            theirs.iter().map(|theirs| ours.number(*theirs).unwrap_or(NO_PROCEDURE)).collect();
        match procedures.contains(&NO_PROCEDURE) {
            false => Ok((number, procedures)),
            true => Err((BindStatus::Mismatch, procedures)),
        }
    }

    /// What this server has of the procedures of a caller's interface: what a bind between the two comes to.
    ///
    /// # Errors
    /// There is no such interface (`None`), or the server knows this procedure in no form that the caller knows.
    pub fn agree(&self, theirs: &Interface) -> Result<Vec<Found>, Option<usize>> {
        let ours = &self.all[self.number_of(&theirs.name).ok_or(None)?];
        let number = |signature: &str| ours.number(fingerprint(signature));
        let agreed = |(procedure, newest): (u16, &Procedure)| {
            if let Some(number) = number(&newest.signature) {
                return Ok(Found { form: procedure, number });
            }
            let older = (FORMS..).zip(&theirs.older).filter(|(_, older)| older.procedure == procedure);
            let mut known =
                older.filter_map(|(form, older)| Some(Found { form, number: number(&older.signature)? }));
            match known.next() {
                Some(found) => Ok(found),
                None if theirs.later.binary_search(&procedure).is_ok() => Ok(Found::NOTHING),
                None => Err(Some(usize::from(procedure))),
            }
        };
        (0..).zip(&theirs.procedures).map(agreed).collect()
    }

    /// Signature of a procedure; empty if there is none of that name.
    pub fn signature(&self, asked: &Describe) -> &str {
        let mut interfaces = self.all.iter().map(|each| &each.interface);
        let of_interface = interfaces.find(|interface| interface.name == asked.interface && !self.is_silent);
        of_interface
            .and_then(|interface| interface.procedures.iter().find(|p| p.name == asked.procedure))
            .map_or("", |procedure| &procedure.signature)
    }

    /// Names of all interfaces, for a caller that asked for an unknown one.
    pub fn names(&self) -> String {
        let names = self.all.iter().map(|each| each.interface.name.as_str());
        let names: Vec<&str> = names.filter(|name| *name != SEAL_INTERFACE).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn server() -> Interfaces {
        let procedure = |name: &str| Procedure { name: name.into(), signature: alloc::format!("{name}()") };
        Interfaces::new([
            Interface {
                name: "A".into(),
                procedures: vec![procedure("x"), procedure("new"), procedure("y")],
                ..Interface::default()
            },
            Interface { name: "B".into(), ..Interface::default() },
        ])
    }

    #[test]
    fn parameters_are_compared_without_their_names() {
        for (signature, compared) in [
            ("null()", "null()"),
            ("divide(by: i32) -> Result<i32, String>", "divide(i32) -> Result<i32, String>"),
            ("max_result(buf: out [u8; 1440])", "max_result(out [u8; 1440])"),
            (
                "f(at: P{x: f64, y: (u8, u16)}, by: HashMap<u8, (u8, u16)>, é_1: Option<[u8]>) -> P",
                "f(P{x: f64, y: (u8, u16)}, HashMap<u8, (u8, u16)>, Option<[u8]>) -> P",
            ),
            ("one_way g(a: (u8, u8))", "one_way g((u8, u8))"),
            ("h(P{x: u8}) -> Q{a: u8, b: u8}", "h(P{x: u8}) -> Q{a: u8, b: u8}"),
            ("cut(off: P{x: u8", "cut(P{x: u8"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_parameter_names(signature), compared);
        }
        assert_eq!(fingerprint("f(a: u8, b: u16)"), fingerprint("f(b: u8, a: u16)"));
        for other in
            ["f(a: u8, b: u8)", "f(a: u8)", "g(a: u8, b: u16)", "f(a: u8, b: u16) -> u8", "f(a: (u8, u16))"]
        {
            assert_ne!(fingerprint("f(a: u8, b: u16)"), fingerprint(other), "{other}");
        }
    }

    #[test]
    fn a_line_of_names_has_fingerprint_interface_number_and_signature() {
        let procedure = |signature: &str| Procedure { name: String::new(), signature: signature.into() };
        let procedures = vec![procedure("null()"), procedure("max_result(buf: out [u8; 1440])")];
        let names = Interface { name: "Test".into(), procedures, ..Interface::default() }.names();
        let lines =
            ["c25a780961a0a498 Test 0 null()", "2b956a5b37223ad4 Test 1 max_result(buf: out [u8; 1440])"];
        assert!(names.lines().eq(lines), "{names}");
    }

    #[test]
    fn a_server_may_have_gained_procedures() {
        let theirs = [fingerprint("x()"), fingerprint("y()")];
        assert_eq!(server().compare("A", &theirs), Ok((0, vec![0, 2])));
    }

    #[test]
    fn a_procedure_with_another_signature_is_marked() {
        let theirs = [fingerprint("x()"), fingerprint("y(u32)")];
        assert_eq!(server().compare("A", &theirs), Err((BindStatus::Mismatch, vec![0, NO_PROCEDURE])));
        let asked = Describe { nonce: 0, interface: "A".into(), procedure: "y".into() };
        assert_eq!(server().signature(&asked), "y()");
    }

    #[test]
    fn other_addresses_are_told_only_to_callers_on_the_same_machine() {
        let on = |boot_id| HostFacts { boot_id: [boot_id; 16], ..HostFacts::default() };
        let server = server().with_offers("shm:x".into());
        assert_eq!(server.reply_text(BindStatus::Bound, &on(1), &on(1)), "shm:x");
        assert_eq!(server.reply_text(BindStatus::Bound, &on(1), &on(2)), "");
        assert_eq!(server.reply_text(BindStatus::Bound, &on(0), &on(0)), "");
        assert_eq!(server.reply_text(BindStatus::NoSuchInterface, &on(1), &on(2)), "A, B");
        assert_eq!(server.reply_text(BindStatus::Full, &on(1), &on(1)), "");
    }

    #[test]
    fn a_silent_server_tells_neither_names_nor_signatures() {
        let server = server().silent();
        let host = HostFacts::default();
        assert_eq!(server.reply_text(BindStatus::NoSuchInterface, &host, &host), "");
        let asked = Describe { nonce: 0, interface: "A".into(), procedure: "y".into() };
        assert_eq!(server.signature(&asked), "");
        assert_eq!(server.compare("A", &[fingerprint("x()")]), Ok((0, vec![0])));
    }

    #[test]
    fn a_caller_of_an_unknown_interface_gets_the_names_of_all() {
        assert_eq!(server().compare("C", &[]), Err((BindStatus::NoSuchInterface, vec![])));
        assert_eq!(server().names(), "A, B");
    }

    #[test]
    fn older_forms_have_numbers_behind_the_procedures_and_equal_ones_the_lowest() {
        let older = |number: usize| OlderForm { procedure: 0, signature: alloc::format!("x(u{number})") };
        let interface =
            Interface { older: (0..FORMS_MAX).map(older).collect(), ..server().all[0].interface.clone() };
        let mut twice = interface.clone();
        twice.older[7].signature = "y()".into();
        for (interfaces, of_y) in [(Interfaces::new([interface]), 2), (Interfaces::new([twice]), 2)] {
            let theirs = ["x()", "x(u0)", "x(u4095)", "y()"].map(fingerprint);
            assert_eq!(interfaces.compare("A", &theirs), Ok((0, vec![0, FORMS, FORMS + 4095, of_y])));
            assert_eq!(interfaces.procedure_count(0), 3);
            for (number, is_known) in [(2, true), (3, false), (FORMS - 1, false), (FORMS + 4095, true)] {
                assert_eq!(interfaces.has_procedure(0, number), is_known, "{number}");
                assert_eq!(interfaces.has_procedure(0, number | IN_PROCEDURE), is_known, "{number}");
            }
            for number in [FORMS + 4096, 0x7fff, 0xffff] {
                assert!(!interfaces.has_procedure(0, number) && !interfaces.has_procedure(1, number));
            }
            assert_eq!(interfaces.in_place(0, FORMS), None);
        }
    }

    #[test]
    #[should_panic(expected = "older forms are numbered by 12 bits")]
    fn more_than_4096_older_forms_are_refused() {
        let older = |number: usize| OlderForm { procedure: 0, signature: alloc::format!("x(u{number})") };
        Interfaces::new([Interface { older: (0..=FORMS_MAX).map(older).collect(), ..Interface::default() }]);
    }
}
