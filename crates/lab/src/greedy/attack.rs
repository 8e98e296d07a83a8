//! The process that attacks.

use crate::args::{Attack, AttackArgs};
use crate::child;
use crate::greedy::means::{LONG, LOOK, tell};
use crate::greedy::{PlainBegin, PlainClient, packets};
use rustix::process::{Gid, Uid};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::thread;
use std::time::Duration;
use std::{any::Any, io};
use stoop::{BindOptions, CallError, Pending};

/// Bindings of an attack that is not about them.
const CLIENTS: usize = 16;
/// Outstanding calls of each.
const SHORT_CALLS: usize = 900;
const LONG_CALLS: usize = 6;
/// Connections held.
const CONNECTIONS: usize = 1000;
const DAY: Duration = Duration::from_secs(86_400);

/// Attacks until the parent ends it.
pub(crate) fn run(args: &AttackArgs) -> Result<(), String> {
    prepare(args).map_err(|error| format!("the attacker's process: {error}"))?;
    match args.attack {
        Attack::Bindings => take_bindings(&args.uri),
        Attack::Connections => take_connections(&args.uri),
        Attack::Calls => call(&args.uri, SHORT_CALLS, |begin| begin.null()),
        Attack::Workers => call(&args.uri, SHORT_CALLS, |begin| begin.hold()),
        Attack::Arguments => {
            let bytes = vec![1; LONG];
            call(&args.uri, LONG_CALLS, move |begin| begin.hold_bytes(&bytes))
        }
        Attack::HalfCalls => {
            let bytes = vec![1; LONG];
            call(&args.uri, LONG_CALLS, move |begin| begin.sum(&bytes))
        }
        Attack::SharedMemory => fill_shared_memory(&args.uri),
        Attack::HalfBinds => packets::half_bind(&args.uri),
        Attack::Announced => packets::announce(&args.uri),
        Attack::Cancels => packets::cancel(&args.uri),
        Attack::Retained => packets::retain(&args.uri),
        Attack::Results => call(&args.uri, LONG_CALLS, |begin| begin.make(LONG as u32)),
    }
    .map_err(|error| format!("the attacker's process: {error}"))
}

/// The least important process of its processor: the victim is to wait for the server, not for the processor. As that
/// user, if one is told.
fn prepare(args: &AttackArgs) -> io::Result<()> {
    rustix::process::setpriority_process(None, 19)?;
    if let Some(user) = args.user {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    // Last: the kernel forgets it when the user changes.
    child::end_with_parent()
}

fn bind(uri: &str) -> Result<PlainClient, String> {
    let options = BindOptions::new().bind_timeout(DAY).timeout(DAY);
    PlainClient::bind_with(uri, &options).map_err(|error| error.to_string())
}

/// Binds until the server takes no more, says so, and goes on asking.
fn take_bindings(uri: &str) -> Result<(), String> {
    let mut held = Vec::new();
    while let Ok(client) = bind(uri) {
        held.push(client);
    }
    tell()?;
    loop {
        held.extend(bind(uri));
        thread::sleep(LOOK);
    }
}

fn take_connections(uri: &str) -> Result<(), String> {
    let mut held = VecDeque::new();
    tell()?;
    loop {
        held.extend(connect(uri));
        if held.len() > CONNECTIONS {
            held.pop_front();
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// A connection to a server without any packet of ours.
fn connect(uri: &str) -> io::Result<Box<dyn Any>> {
    let (scheme, address) = uri.split_once(':').unwrap_or_default();
    match scheme {
        "tcp" => Ok(Box::new(TcpStream::connect(address.trim_start_matches('/'))?)),
        "shm" if !address.contains('/') => {
            let name = SocketAddr::from_abstract_name(format!("stoop-shm/{address}"))?;
            Ok(Box::new(UnixStream::connect_addr(&name)?))
        }
        _ => Ok(Box::new(UnixStream::connect(address)?)),
    }
}

/// Keeps so many calls outstanding over each of several bindings.
fn call<T>(
    uri: &str,
    most: usize,
    begin: impl Fn(&PlainBegin<'_>) -> Pending<Result<T, CallError>>,
) -> Result<(), String> {
    let clients = (0..CLIENTS).map(|_| bind(uri)).collect::<Result<Vec<_>, _>>()?;
    let mut pending: Vec<Vec<_>> = clients.iter().map(|_| Vec::new()).collect();
    tell()?;
    loop {
        for (client, pending) in clients.iter().zip(&mut pending) {
            pending.retain(|call: &Pending<_>| !call.is_ready());
            let together = client.begin();
            pending.extend((pending.len()..most).map(|_| begin(&together)));
        }
        thread::sleep(LOOK);
    }
}

/// Fills all memory for buffers of several bindings, and has the server read it again and again.
fn fill_shared_memory(uri: &str) -> Result<(), String> {
    let clients = (0..CLIENTS).map(|_| bind(uri)).collect::<Result<Vec<_>, _>>()?;
    let (mut held, bytes) = (Vec::new(), vec![1; LONG]);
    for client in &clients {
        while let Ok(mut buffer) = client.in_place::<u8>(LONG) {
            buffer.write(0, &bytes);
            held.push((client, buffer));
        }
    }
    tell()?;
    for (client, buffer) in held.iter().cycle() {
        // A server that refuses it is asked for the next.
        let _ = client.sum_in_place(buffer);
    }
    Ok(())
}
