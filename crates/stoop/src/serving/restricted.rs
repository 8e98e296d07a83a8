//! Lists of callers: which of them may call an interface or a procedure.
//!
//! A server exports an interface with a list through a [`Restricted`]. The others are exported as they are, so that nothing is added to
//! their calls.

#[cfg(feature = "onc")]
mod program;

use crate::buffers::Memory;
use crate::context::peer::Peer;
use crate::context::{Caller, served_call, serving_caller};
use crate::error::Refusal;
use crate::forms::base;
use crate::interface::{Exported, Interface};
use crate::later::unserved::Unserved;
use crate::program::Program;
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use stoop_marshal::{Reader, Writer};
use stoop_wire::BindingId;

/// The names in a list. One that ends with `*` stands for all that begin so.
#[derive(Clone, Debug)]
pub(crate) struct Names(Vec<String>);

impl Names {
    fn have(&self, name: &str) -> bool {
        self.0.iter().any(|listed| match listed.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => listed == name,
        })
    }
}

/// The lists of a server: of interfaces (`Admin`), and of procedures (`Admin.stop`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists(Vec<(String, Names)>);

impl Lists {
    /// Sets the list of an interface or procedure, in place of the one that it had.
    pub(crate) fn set(&mut self, of: &str, names: Vec<String>) {
        self.0.retain(|(other, _)| other != of);
        self.0.push((of.into(), Names(names)));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The exports; those with lists ask them before each call.
    ///
    /// # Errors
    /// The interface or procedure with a list that is not exported.
    pub(crate) fn restrict(&self, exports: &mut [Arc<dyn Exported>]) -> Result<(), String> {
        let mut unused: Vec<_> = self.0.iter().map(|(of, _)| of).collect();
        for export in exports {
            let interface = export.interface();
            let mut find = |of: &str| {
                unused.retain(|other| *other != of);
                self.0.iter().find(|(other, _)| other == of).map(|(_, names)| names)
            };
            let of_all = find(interface.name);
            let of_each = interface
                .procedures
                .iter()
                .map(|procedure| find(&format!("{}.{}", interface.name, procedure.name)).or(of_all).cloned());
            let lists: Vec<_> = of_each.collect();
            if lists.iter().any(Option::is_some) {
                *export = Arc::new(Restricted { inner: Arc::clone(export), lists });
            }
        }
        unused.first().map_or(Ok(()), |of| Err((*of).clone()))
    }

    /// Whether the caller that this thread serves may call a procedure of the interface.
    pub(crate) fn tell(&self, interface: &Interface) -> bool {
        let is_listed = |of: &str| {
            let list = self.0.iter().find(|(other, _)| other == of);
            list.map(|(_, names)| may_call(names))
        };
        let of_all = is_listed(interface.name).unwrap_or(true);
        let of_each = interface.procedures.iter();
        interface.procedures.is_empty() && of_all
            || of_each
                .map(|procedure| is_listed(&format!("{}.{}", interface.name, procedure.name)))
                .any(|is_listed| is_listed.unwrap_or(of_all))
    }
}

/// Whether the caller that this thread serves is in that list. The server's own process may call everything.
fn may_call(names: &Names) -> bool {
    let caller = serving_caller();
    caller == Caller::Local
        || Peer::of(&caller, served_call().id()).is_some_and(|peer| names.have(peer.name()))
}

/// The cure for a caller without a name.
const NAMELESS: &str =
    "bind with a key that the server knows (udp://KEY@HOST:PORT), or over a Unix socket or shared memory";

/// An interface of which only some callers may call some procedures.
struct Restricted {
    inner: Arc<dyn Exported>,
    /// For each procedure. `None`: all may call it.
    lists: Vec<Option<Names>>,
}

/// The procedures that the callers of a binding may call, as far as they have called: the binding, the address of the [`Restricted`],
/// and a bit for each of the first procedures.
type Known = (BindingId, usize, u64);

thread_local! {
    static KNOWN: Cell<Known> = const { Cell::new((BindingId::NONE, 0, 0)) };
}

impl Restricted {
    /// Refuses the call that this thread serves, if its caller may not make it.
    ///
    /// # Errors
    /// It may not.
    #[inline]
    fn check(&self, procedure: u16) -> Result<(), Unserved> {
        let procedure = base(&*self.inner, procedure);
        let Some(Some(names)) = self.lists.get(usize::from(procedure)) else { return Ok(()) };
        // The names of a binding's caller and those in a list never change.
        let binding = served_call().id().binding();
        let (own, bit) = (std::ptr::from_ref(self).addr(), 1_u64.checked_shl(procedure.into()).unwrap_or(0));
        let known = KNOWN.get();
        let is_same = (known.0, known.1) == (binding, own) && binding != BindingId::NONE;
        if is_same && known.2 & bit != 0 {
            return Ok(());
        }
        if !may_call(names) {
            return Err(self.denied(procedure));
        }
        KNOWN.set((binding, own, if is_same { known.2 | bit } else { bit }));
        Ok(())
    }

    #[cold]
    fn denied(&self, procedure: u16) -> Unserved {
        let why = match Peer::of(&serving_caller(), served_call().id()) {
            Some(peer) => format!(
                "its list of callers does not have `{peer}`; the server's administrator adds the name (Server::callers)"
            ),
            None => format!("only callers with names may call it; {NAMELESS}"),
        };
        let Interface { name, procedures, .. } = self.inner.interface();
        Unserved::Refused(Refusal::denied(format!(
            "{name}.{}: {why}",
            procedures[usize::from(procedure)].name
        )))
    }
}

impl Exported for Restricted {
    fn inner(&self) -> Option<&dyn Exported> {
        Some(&*self.inner)
    }

    fn interface(&self) -> &'static Interface {
        self.inner.interface()
    }

    fn denial(&self, name: Option<&str>) -> Option<String> {
        let may_call = |list: &Option<Names>| match (list, name) {
            (Some(names), Some(name)) => names.have(name),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if self.lists.iter().any(may_call) {
            return None;
        }
        let interface = self.interface().name;
        Some(match name {
            Some(name) => format!(
                "`{name}` is in no list of callers of {interface}; its administrator adds the name: \
                 .callers(\"{interface}\", [\"{name}\"])"
            ),
            None => format!("only callers with names may call {interface}; {NAMELESS}"),
        })
    }

    fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved> {
        self.check(procedure)?;
        self.inner.dispatch(procedure, call, result)
    }

    fn dispatch_with_memory(
        &self,
        procedure: u16,
        call: Reader<'_>,
        memory: Memory<'_>,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        self.check(procedure)?;
        self.inner.dispatch_with_memory(procedure, call, memory, result)
    }

    fn dispatch_in_place(
        &self,
        procedure: u16,
        leading: &[u8],
        len: usize,
        result: &mut Writer<'_>,
    ) -> Result<(), Unserved> {
        self.check(procedure)?;
        self.inner.dispatch_in_place(procedure, leading, len, result)
    }

    fn program(&self) -> Option<&dyn Program> {
        self.inner.program().map(|_| self as &dyn Program)
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        self.inner.local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_listed_by_itself_or_by_its_beginning() {
        let names = Names(["alice", "ops-*", "uid:1000"].map(String::from).into());
        for listed in ["alice", "ops-1", "ops-", "uid:1000"] {
            assert!(names.have(listed), "{listed}");
        }
        for other in ["", "alice2", "alic", "ops", "uid:100", "uid:10000", "*"] {
            assert!(!names.have(other), "{other}");
        }
        assert!(Names(vec!["*".into()]).have("anyone") && !Names(Vec::new()).have(""));
    }
}
