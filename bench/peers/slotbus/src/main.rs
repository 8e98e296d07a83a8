//! The Test interface by slotbus: `peer-slotbus serve`, `peer-slotbus call ADDRESS`.
//!
//! In slotbus the caller creates the shared memory and the server opens it: the server tries until the memory exists.

use end::{MARK, Procedure, Role, slices, threads};
use slotbus::transport::Request;
use slotbus::types::RequestMeta;
use slotbus::{SlotBus, SlotBusConfig, SlotWorker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn config(name: &str) -> SlotBusConfig {
    SlotBusConfig::builder().name(name).build()
}

fn serve() {
    let name = format!("peer-{}", std::process::id());
    let opened = name.clone();
    std::thread::spawn(move || {
        let worker = loop {
            match SlotWorker::open(config(&opened)) {
                Ok(worker) => break Arc::new(worker),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        worker.start_receive_loop(|worker, slot, request| {
            worker.send_response(slot, 200, answer(&request), "", Vec::new()).expect("the response has room");
        });
    });
    end::ready(&name);
}

fn answer(request: &Request) -> Vec<u8> {
    match request.path.as_str() {
        "/get" => vec![MARK; request.query.as_ref().and_then(|length| length.parse().ok()).unwrap_or(0)],
        _ => Vec::new(),
    }
}

fn call(bus: &SlotBus, procedure: Procedure, bytes: &[u8]) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let id = CALLS.fetch_add(1, Ordering::Relaxed).to_string();
    let (path, query, body, result) = match procedure {
        Procedure::Null => ("/null", None, &[][..], 0),
        Procedure::Put(_) => ("/put", None, bytes, 0),
        Procedure::Get(length) => ("/get", Some(length.to_string()), &[][..], length),
    };
    let meta = RequestMeta {
        path: path.into(),
        route_pattern: path.into(),
        path_params: Vec::new(),
        query,
        headers: Vec::new(),
    };
    let response = bus.dispatch(&id, "POST", &meta, body).expect("a slot is free");
    assert_eq!(response.blocking_recv().expect("the server answers").body.len(), result);
}

fn main() {
    match end::role() {
        (Role::Serve, _) => serve(),
        (Role::Call(name), _) => {
            let bus = SlotBus::create(config(&name)).expect("shared memory of this name is new");
            bus.start_response_watcher();
            slices(|slice| {
                threads(slice, || {
                    let (bus, bytes) = (&bus, slice.bytes());
                    move || call(bus, slice.procedure, &bytes)
                })
            });
        }
    }
}
