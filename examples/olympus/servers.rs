//! The servers that interpret nodes: bound as soon as they are there, also while the graph runs, and again when they have died.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Thread};
use std::time::Duration;
use stoop::BindOptions;
use stoop_examples::olympus::{InterpreterClient, Offer};

/// Where a server is, and how many nodes it is given at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) uri: String,
    pub(crate) limit: usize,
}

/// A bound server.
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) client: InterpreterClient,
    /// For each procedure of the graph the server's number of it, and whether it is idempotent; `None` if it has no such offer.
    pub(crate) offers: Vec<Option<(u32, bool)>>,
    /// Nodes that it interprets now.
    pub(crate) in_flight: usize,
    /// Whether it is given nodes. A server that has not answered gets none until it is bound again.
    pub(crate) is_up: bool,
}

/// All servers that were ever bound; a server keeps its number.
pub(crate) struct Servers {
    pub(crate) all: Vec<Server>,
    procedures: Vec<String>,
    bound: Receiver<(Address, InterpreterClient, Vec<Offer>)>,
    binder: Binder,
}

/// Binds servers in threads of their own, and wakes the thread that wants them.
#[derive(Clone)]
struct Binder {
    bound: Sender<(Address, InterpreterClient, Vec<Offer>)>,
    wakes: Thread,
}

/// Nodes that a server is given at a time, unless its address says another number.
const LIMIT: usize = 64;

/// How often a server that is not there is looked for, and the file of servers is read.
const PAUSE: Duration = Duration::from_millis(100);

impl Address {
    /// The address in a word or line `URI [LIMIT]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let (uri, limit) = (words.next().unwrap_or_default(), words.next());
        let limit = match limit.map(str::parse) {
            None => LIMIT,
            Some(Ok(limit)) if limit > 0 => limit,
            Some(_) => return Err(format!("`{line}`: a limit is a number above 0")),
        };
        match words.next() {
            Some(_) => Err(format!("`{line}` is not `URI [LIMIT]`")),
            None => Ok(Self { uri: uri.to_owned(), limit }),
        }
    }
}

impl Servers {
    /// Begins to bind these servers, and those that the file names, now or later. The calling thread is unparked when there is one.
    pub(crate) fn new(procedures: &[String], addresses: Vec<Address>, file: Option<PathBuf>) -> Self {
        let (sender, bound) = channel();
        let binder = Binder { bound: sender, wakes: thread::current() };
        addresses.into_iter().for_each(|address| binder.bind(address));
        if let Some(file) = file {
            binder.clone().watch(file);
        }
        Self { all: Vec::new(), procedures: procedures.to_vec(), bound, binder }
    }

    /// Takes those that were bound since. Returns whether there were any.
    pub(crate) fn join_new(&mut self) -> bool {
        let mut any = false;
        while let Ok((address, client, offers)) = self.bound.try_recv() {
            any = true;
            let server = Server {
                offers: self.procedures.iter().map(|name| number_of(&offers, name)).collect(),
                in_flight: 0,
                is_up: true,
                address,
                client,
            };
            // A server that was bound before has a new life; nodes of the old one may still be on their way.
            match self.all.iter_mut().find(|known| known.address.uri == server.address.uri) {
                Some(known) => *known = Server { in_flight: known.in_flight, ..server },
                None => self.all.push(server),
            }
        }
        any
    }

    /// A server has not answered: looks for it until it is there again.
    pub(crate) fn is_gone(&mut self, number: usize) {
        let server = &mut self.all[number];
        if std::mem::replace(&mut server.is_up, false) {
            self.binder.bind(server.address.clone());
        }
    }
}

fn number_of(offers: &[Offer], name: &str) -> Option<(u32, bool)> {
    let number = offers.iter().position(|offer| offer.name == name)?;
    Some((number as u32, offers[number].idempotent))
}

impl Binder {
    fn bind(&self, address: Address) {
        let binder = self.clone();
        thread::spawn(move || {
            loop {
                if let Some((client, offers)) = ask(&address.uri) {
                    // Nobody receives it when the graph has ended.
                    let _ = binder.bound.send((address, client, offers));
                    return binder.wakes.unpark();
                }
                thread::sleep(PAUSE);
            }
        });
    }

    /// Binds each server that a line of the file names, when it first does.
    fn watch(self, file: PathBuf) {
        thread::spawn(move || {
            let mut known = HashSet::new();
            loop {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
                    match Address::parse(line) {
                        Ok(address) if known.insert(address.uri.clone()) => self.bind(address),
                        Ok(_) => {}
                        Err(what) if known.insert(line.to_owned()) => eprintln!("{}: {what}", file.display()),
                        Err(_) => {}
                    }
                }
                thread::sleep(PAUSE);
            }
        });
    }
}

/// A client of the server and all that it offers, if it is there.
fn ask(uri: &str) -> Option<(InterpreterClient, Vec<Offer>)> {
    let client = InterpreterClient::bind_with(uri, &BindOptions::new()).ok()?;
    let offers = client.offers().ok()?;
    Some((client, offers))
}
