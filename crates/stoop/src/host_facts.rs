//! Conversion of a host's facts between bind messages and the form that this machine uses.

use stoop_net::host;
use stoop_wire::bind::HostFacts;

/// The facts of a host in the form that bind messages carry.
pub(crate) fn to_wire(facts: &host::HostFacts) -> HostFacts {
    HostFacts {
        boot_id: facts.boot_id,
        cpus: u16::try_from(facts.cpus).unwrap_or(u16::MAX),
        only_cpu: facts.only_cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(HostFacts::SEVERAL),
    }
}

/// The facts of a host from a bind message.
pub(crate) fn from_wire(facts: &HostFacts) -> host::HostFacts {
    host::HostFacts {
        boot_id: facts.boot_id,
        cpus: facts.cpus.into(),
        only_cpu: (facts.only_cpu != HostFacts::SEVERAL).then_some(facts.only_cpu.into()),
    }
}
