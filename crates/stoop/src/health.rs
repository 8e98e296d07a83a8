//! The health of a server, which every server tells by an interface of its own.

use crate::locked::locked;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stoop_net::host;

/// Whether a server, or one of its interfaces, serves calls.
///
/// ```
/// use stoop::health::Health;
///
/// /// The status that a load balancer is told over HTTP.
/// fn status(health: Health) -> u16 {
///     match health {
///         Health::Serving => 200,
///         _ => 503, // not serving, shutting down, and what later versions may add
///     }
/// }
/// # assert_eq!(status(Health::Serving), 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, stoop_macros::Data)]
#[non_exhaustive]
pub enum Health {
    /// Calls are served.
    Serving,
    /// The program says that it cannot serve calls well now, because something that they need is missing. The server does not refuse
    /// them for that.
    NotServing,
    /// The server shuts down: it finishes what runs, and refuses new calls.
    ShuttingDown,
}

/// The health that a server reports.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// use stoop::health::StoopHealthClient;
///
/// let about = StoopHealthClient::bind(&uri)?.about()?;
/// // Another number later: the server was started again meanwhile.
/// println!("server {:x}, up for {:?}", about.incarnation, about.up);
/// for (interface, health) in &about.interfaces {
///     println!("{interface}: {health:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, stoop_macros::Data)]
pub struct About {
    /// A number drawn at the start of the server.
    pub incarnation: u64,
    /// Time since its start.
    pub up: Duration,
    /// The health of the server as a whole.
    pub health: Health,
    /// The health of each interface, by name.
    pub interfaces: Vec<(String, Health)>,
}

/// The interface that every server exports, on every transport, beside those of its program.
///
/// It does not depend on these: a caller needs to know no more than the address. `stoop ping` uses it.
///
/// ```
/// use stoop::health::{Health, StoopHealthClient};
/// # #[stoop::interface] trait Store { fn get(&self, key: u32) -> u32; }
/// # struct Disk;
/// # impl Store for Disk { fn get(&self, key: u32) -> u32 { key } }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = stoop::Server::new().export(StoreServer::new(Disk)).listen("tcp://127.0.0.1:0")?.start()?;
/// let health = StoopHealthClient::bind(&server.uris()[0])?;
/// assert_eq!(health.check("Store")?, Some(Health::Serving));
///
/// server.health().set("Store", Health::NotServing);
/// assert_eq!(health.check("Store")?, Some(Health::NotServing));
/// assert_eq!(health.check("Unknown")?, None);
/// # Ok(())
/// # }
/// ```
#[stoop_macros::interface]
pub trait StoopHealth {
    /// Does nothing: for the time that a call takes.
    #[idempotent]
    fn ping(&self);
    /// The health of the interface of that name, or with an empty name of the server as a whole. `None`: it exports no such
    /// interface.
    #[idempotent]
    fn check(&self, interface: &str) -> Option<Health>;
    /// The health that the server reports.
    #[idempotent]
    fn about(&self) -> About;
}

/// Name of the interface; no other can be exported under it.
pub(crate) const NAME: &str = "StoopHealth";

/// The health of a server, for its program to set: [`Server::health`](crate::Server::health),
/// [`RunningServer::health`](crate::RunningServer::health).
///
/// Everything is [`Serving`](Health::Serving) until it is set, and [`ShuttingDown`](Health::ShuttingDown) when the server shuts
/// down.
///
/// ```
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:health-board")?.start()?;
/// # let client = AdderClient::bind("local:health-board")?;
/// use stoop::health::Health;
///
/// server.health().set("Adder", Health::NotServing); // one interface
/// server.health().set_all(Health::Serving);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HealthBoard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    incarnation: u64,
    started: Instant,
    /// By interface; the server as a whole under the empty name.
    states: Mutex<BTreeMap<String, Health>>,
}

impl HealthBoard {
    /// The health of a server without interfaces.
    pub(crate) fn new() -> Self {
        let incarnation = u64::from_le_bytes(host::random_bytes());
        let states = Mutex::new(BTreeMap::new());
        let board = Self(Arc::new(Shared { incarnation, started: Instant::now(), states }));
        board.add("");
        board
    }

    /// The server exports that interface.
    pub(crate) fn add(&self, interface: &str) {
        locked(&self.0.states).insert(interface.into(), Health::Serving);
    }

    /// Sets the health of the interface of that name, or with an empty name of the server as a whole.
    ///
    /// # Panics
    /// The server exports no such interface.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// use stoop::health::Health;
    ///
    /// // A thread of the server that notices that the database behind `Adder` is gone.
    /// server.health().set("Adder", Health::NotServing); // `stoop ping --interface Adder` fails now
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, interface: &str, health: Health) {
        let mut states = locked(&self.0.states);
        let state = states.get_mut(interface);
        assert!(state.is_some(), "no interface of the name {interface} is exported");
        state.into_iter().for_each(|state| *state = health);
    }

    /// Sets the health of the server as a whole and of all interfaces.
    pub fn set_all(&self, health: Health) {
        locked(&self.0.states).values_mut().for_each(|state| *state = health);
    }
}

impl StoopHealth for HealthBoard {
    fn ping(&self) {}

    fn check(&self, interface: &str) -> Option<Health> {
        locked(&self.0.states).get(interface).copied()
    }

    fn about(&self) -> About {
        let mut states = locked(&self.0.states).clone();
        let health = states.remove("").unwrap_or(Health::Serving);
        let Shared { incarnation, started, .. } = *self.0;
        About { incarnation, up: started.elapsed(), health, interfaces: states.into_iter().collect() }
    }
}
