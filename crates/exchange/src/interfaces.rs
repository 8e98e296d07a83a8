//! The interfaces that a server exports, and how a caller's idea of one is compared with them.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::Hasher;
use siphasher::sip::SipHasher13;
use stoop_wire::bind::{BindStatus, Describe, HostFacts, NO_PROCEDURE};

/// What travels of a signature: enough to tell two apart, whatever their parameters are called. It guards against mistakes, not
/// against forgers.
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

/// Where the type of a parameter ends: at a comma, or at the end of the list.
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
    /// Its signature, types spelled out down to their fields. The names of its parameters are for people: they are shown,
    /// and not compared.
    pub signature: String,
}

/// An exported interface.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name, unique in the server.
    pub name: String,
    /// Its procedures; the position is the number that travels.
    pub procedures: Vec<Procedure>,
}

/// All interfaces of a server.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    all: Vec<(Interface, Vec<u64>)>,
    /// Where the server can be reached otherwise.
    offers: String,
    /// For each procedure of each, see [`returning_in_place`](Self::returning_in_place).
    in_place: Vec<Vec<Option<u8>>>,
}

/// Bytes of a call's payload before an argument that comes back in place, at most.
pub(crate) const LEADING_MAX: usize = 16;

impl Interfaces {
    /// Takes interfaces in the order of their numbers.
    ///
    /// # Panics
    /// When one has more procedures than can be numbered (65,535).
    pub fn new(interfaces: impl IntoIterator<Item = Interface>) -> Self {
        let with_fingerprints = |interface: Interface| {
            assert!(
                interface.procedures.len() < usize::from(NO_PROCEDURE),
                "procedures are numbered by 16 bits"
            );
            let fingerprints: Vec<u64> =
                interface.procedures.iter().map(|p| fingerprint(&p.signature)).collect();
            (interface, fingerprints)
        };
        let all: Vec<_> = interfaces.into_iter().map(with_fingerprints).collect();
        let in_place = all.iter().map(|(_, fingerprints)| alloc::vec![None; fingerprints.len()]).collect();
        Self { all, in_place, offers: String::new() }
    }

    /// Tells of a procedure that its only argument comes back and is the beginning of its result, and how many bytes of a
    /// call's payload come before it. The memory into which a long call of it was received can then be that of its result:
    /// [`Assignment::argument_as_result`](crate::server::Assignment::argument_as_result).
    ///
    /// # Panics
    /// When there is no such procedure, or `leading` is more than 16.
    #[must_use]
    pub fn returning_in_place(mut self, interface: usize, procedure: usize, leading: u8) -> Self {
        assert!(usize::from(leading) <= LEADING_MAX, "a count, and padding to the largest alignment");
        self.in_place[interface][procedure] = Some(leading);
        self
    }

    /// How many bytes of a call come before the argument that comes back in place, if one does.
    pub(crate) fn in_place(&self, interface: u16, procedure: u16) -> Option<u8> {
        *self.in_place.get(usize::from(interface))?.get(usize::from(procedure))?
    }

    /// The server can be reached otherwise, by callers on its machine. The text is for whoever drives the callers.
    #[must_use]
    pub fn with_offers(self, offers: String) -> Self {
        Self { offers, ..self }
    }

    /// The text of a reply to a caller there: which interfaces there are, if it asked for another; where the server can be
    /// reached otherwise, if it is on the same machine.
    pub fn reply_text(&self, status: BindStatus, here: &HostFacts, there: &HostFacts) -> String {
        match status {
            BindStatus::NoSuchInterface => self.names(),
            BindStatus::Bound | BindStatus::NotAllowed if here.shares_kernel_with(there) => {
                self.offers.clone()
            }
            _ => String::new(),
        }
    }

    /// Number of the interface called `name`.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|(interface, _)| interface.name == name)
    }

    /// How many procedures an interface has; none if there is no such interface.
    #[inline]
    pub fn procedure_count(&self, interface: usize) -> usize {
        self.all.get(interface).map_or(0, |(_, fingerprints)| fingerprints.len())
    }

    /// This server's numbers for the procedures with these fingerprints.
    ///
    /// # Errors
    /// Why nothing can be bound: no such interface, or a procedure without match, which the numbers mark by
    /// [`NO_PROCEDURE`].
    pub fn compare(
        &self,
        interface: &str,
        theirs: &[u64],
    ) -> Result<(usize, Vec<u16>), (BindStatus, Vec<u16>)> {
        let number = self.number_of(interface).ok_or((BindStatus::NoSuchInterface, Vec::new()))?;
        let ours = &self.all[number].1;
        let position =
            |theirs| ours.iter().position(|ours| ours == theirs).map_or(NO_PROCEDURE, |p| p as u16);
        let procedures: Vec<u16> = theirs.iter().map(position).collect();
        match procedures.contains(&NO_PROCEDURE) {
            false => Ok((number, procedures)),
            true => Err((BindStatus::Mismatch, procedures)),
        }
    }

    /// The signature of a procedure, empty if there is none of that name.
    pub fn signature(&self, asked: &Describe) -> &str {
        let of_interface = self.all.iter().find(|(interface, _)| interface.name == asked.interface);
        of_interface
            .and_then(|(interface, _)| interface.procedures.iter().find(|p| p.name == asked.procedure))
            .map_or("", |procedure| &procedure.signature)
    }

    /// Names of all interfaces, for whoever asked for one that is not here.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.all.iter().map(|(interface, _)| interface.name.as_str()).collect();
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
            },
            Interface { name: "B".into(), procedures: vec![] },
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
    fn a_server_may_have_gained_procedures() {
        let theirs = [fingerprint("x()"), fingerprint("y()")];
        assert_eq!(server().compare("A", &theirs), Ok((0, vec![0, 2])));
    }

    #[test]
    fn a_procedure_that_differs_is_marked() {
        let theirs = [fingerprint("x()"), fingerprint("y(u32)")];
        assert_eq!(server().compare("A", &theirs), Err((BindStatus::Mismatch, vec![0, NO_PROCEDURE])));
        let asked = Describe { nonce: 0, interface: "A".into(), procedure: "y".into() };
        assert_eq!(server().signature(&asked), "y()");
    }

    #[test]
    fn what_is_offered_on_one_machine_is_told_there_only() {
        let on = |boot_id| HostFacts { boot_id: [boot_id; 16], ..HostFacts::default() };
        let server = server().with_offers("shm:x".into());
        assert_eq!(server.reply_text(BindStatus::Bound, &on(1), &on(1)), "shm:x");
        assert_eq!(server.reply_text(BindStatus::Bound, &on(1), &on(2)), "");
        assert_eq!(server.reply_text(BindStatus::Bound, &on(0), &on(0)), "");
        assert_eq!(server.reply_text(BindStatus::NoSuchInterface, &on(1), &on(2)), "A, B");
        assert_eq!(server.reply_text(BindStatus::Full, &on(1), &on(1)), "");
    }

    #[test]
    fn an_unknown_interface_is_told_which_there_are() {
        assert_eq!(server().compare("C", &[]), Err((BindStatus::NoSuchInterface, vec![])));
        assert_eq!(server().names(), "A, B");
    }
}
