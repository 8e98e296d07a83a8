//! The process of the attacker, as its parent sees it.

use crate::args::{Attack, Transport, name_of};
use crate::child::Child;
use crate::greedy::{ATTACKING_USER, SHORTER};
use crate::network::Network;
use std::io;
use std::thread;
use std::time::Duration;

/// A process that attacks until this is dropped.
pub(super) struct Attacker(#[expect(dead_code, reason = "it lives as long as this")] Child);

/// Time in which it has made its bindings, at the lowest priority beside other work of the machine.
const PREPARATION: Duration = Duration::from_secs(120);
/// Time for an attack to take what it can, before a process that is to be stopped is stopped.
const BEGINNING: Duration = Duration::from_millis(1500);

impl Attacker {
    /// Starts an attack, and returns when the attacker has made its bindings.
    pub(super) fn start(
        attack: Attack,
        (transport, uri): (Transport, &str),
        network: &Network,
        is_short: bool,
    ) -> io::Result<Self> {
        let mut arguments = vec![
            "bench-greedy-attacker".into(),
            format!("--attack={}", name_of(attack)),
            format!("--uri={uri}"),
        ];
        let has_users = matches!(transport, Transport::Unix | Transport::Shm);
        arguments.extend(has_users.then(|| format!("--user={ATTACKING_USER}")));
        let mut child = match has_users {
            true => Child::start("attacker", &arguments, network)?,
            false => Child::start_on_third_host("attacker", &arguments, network)?,
        };
        child.expect_within("attacking", PREPARATION)?;
        thread::sleep(if is_short { BEGINNING / SHORTER } else { BEGINNING });
        if attack.stops() {
            child.stop()?;
        }
        Ok(Self(child))
    }
}
