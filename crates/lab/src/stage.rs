//! What a measurement of one server with many callers needs: a processor for each side, many open files and a network.

use crate::args::{Processors, Transport};
use crate::network::Network;
use crate::placement::{Placement, Sides, pin};
use crate::{machine, screen, table};

/// The processors and the network of such a measurement.
pub(crate) struct Stage {
    pub(crate) sides: Sides,
    pub(crate) network: Network,
}

impl Stage {
    /// Describes the machine on standard output, and pins this thread to the callers' processor. The server has another one, if
    /// there are two.
    pub(crate) fn set() -> Result<Self, String> {
        let placement =
            Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
        let cpus = placement.sides(Processors::Two).or(placement.sides(Processors::One));
        let sides = cpus.ok_or("no processor may be used")?;
        machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
        let network = Network::prepare();
        screen::print(&table::headed("machine", &machine::describe()));
        screen::print(&table::headed("network", &network.describe()));
        pin(sides.caller).map_err(|error| format!("pinning the callers: {error}"))?;
        Ok(Self { sides, network })
    }
}

/// The transports that were chosen, or `all`.
pub(crate) fn chosen_or<'a>(chosen: &'a [Transport], all: &'a [Transport]) -> &'a [Transport] {
    if chosen.is_empty() { all } else { chosen }
}
