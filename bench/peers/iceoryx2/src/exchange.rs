//! Both ends of a call by iceoryx2: its request-response, and for ends that sleep its events.

use end::{MARK, Procedure, Slice};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::request_response::PortFactory;
use std::collections::HashMap;
use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;

pub(crate) type Anyhow<T> = Result<T, Box<dyn Error>>;

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Spin,
    Yield,
    Event,
}

/// The header of a call.
#[derive(Clone, Copy, Debug, Default, ZeroCopySend)]
#[repr(C)]
pub(crate) struct Wanted {
    /// Bytes of the result.
    result: u64,
    /// The caller, by which the server finds its event.
    caller: u64,
}

type Test = PortFactory<ipc::Service, [u8], Wanted, [u8], ()>;
type Node = iceoryx2::prelude::Node<ipc::Service>;

fn open(node: &Node, name: &str) -> Anyhow<Test> {
    let service = node.service_builder(&name.try_into()?);
    Ok(service.request_response::<[u8], [u8]>().request_user_header::<Wanted>().open_or_create()?)
}

fn listener(node: &Node, name: &str) -> Anyhow<Listener<ipc::Service>> {
    Ok(node.service_builder(&name.try_into()?).event().open_or_create()?.listener_builder().create()?)
}

fn notifier(node: &Node, name: &str) -> Anyhow<Notifier<ipc::Service>> {
    Ok(node.service_builder(&name.try_into()?).event().open_or_create()?.notifier_builder().create()?)
}

/// Waits once: for an event if the end sleeps until there is one.
#[inline(always)]
fn wait(waiting: Waiting, event: Option<&Listener<ipc::Service>>) -> Anyhow<()> {
    match (waiting, event) {
        (Waiting::Event, Some(event)) => event.blocking_wait(|_| ()).map(drop)?,
        (Waiting::Spin, _) => spin_loop(),
        _ => yield_now(),
    }
    Ok(())
}

/// Serves calls for ever. Calls `listening` as soon as callers can connect.
pub(crate) fn serve(name: &str, waiting: Waiting, listening: impl FnOnce()) -> Anyhow<()> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = open(&node, name)?;
    let server = service.server_builder().initial_max_slice_len(end::LONGEST).create()?;
    let calls = (waiting == Waiting::Event).then(|| listener(&node, &format!("{name}/calls"))).transpose()?;
    let mut answers: HashMap<u64, Notifier<ipc::Service>> = HashMap::new();
    listening();
    loop {
        let Some(call) = server.receive()? else {
            wait(waiting, calls.as_ref())?;
            continue;
        };
        black_box(call.payload());
        let Wanted { result, caller } = *call.user_header();
        call.loan_slice_uninit(result as usize)?.write_from_fn(|_| MARK).send()?;
        if waiting == Waiting::Event {
            if !answers.contains_key(&caller) {
                answers.insert(caller, notifier(&node, &format!("{name}/answers/{caller}"))?);
            }
            answers[&caller].notify()?;
        }
    }
}

/// Returns a function that calls the slice's procedure once.
pub(crate) fn caller(name: &str, waiting: Waiting, slice: Slice) -> Anyhow<impl FnMut() -> Anyhow<()>> {
    static CALLERS: AtomicU64 = AtomicU64::new(0);
    let caller = CALLERS.fetch_add(1, Ordering::Relaxed);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let client = open(&node, name)?.client_builder().initial_max_slice_len(end::LONGEST).create()?;
    let (answers, calls) = if waiting == Waiting::Event {
        let answers = listener(&node, &format!("{name}/answers/{caller}"))?;
        (Some(answers), Some(notifier(&node, &format!("{name}/calls"))?))
    } else {
        (None, None)
    };
    let (argument, mut result) = match slice.procedure {
        Procedure::Get(length) => (Vec::new(), vec![0; length]),
        _ => (slice.bytes(), Vec::new()),
    };
    Ok(move || {
        let _alive = &node;
        let mut call = client.loan_slice_uninit(argument.len())?;
        *call.user_header_mut() = Wanted { result: result.len() as u64, caller };
        let pending = call.write_from_slice(&argument).send()?;
        if let Some(calls) = &calls {
            calls.notify()?;
        }
        loop {
            if let Some(answer) = pending.receive()? {
                // A call returns its result in the caller's own memory, as the other peers do.
                result.copy_from_slice(answer.payload());
                black_box(&result);
                return Ok(());
            }
            wait(waiting, answers.as_ref())?;
        }
    })
}
