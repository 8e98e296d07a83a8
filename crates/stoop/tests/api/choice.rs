//! Which transport a binding gets, and what it says of that.

use crate::harness::lab::{Bench, LabClient, LabServer};
use crate::harness::processes::{NOBODY, Process};
use std::sync::atomic::{AtomicU32, Ordering};
use stoop::{BindOptions, ListenError, PacketOptions, RunningServer, Server, ShmOptions, UnixOptions};

/// A name that no other test uses.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("choice-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn serve(uris: &[&str]) -> RunningServer {
    let server = Server::new().export(LabServer::new(Bench::default()));
    uris.iter().try_fold(server, |server, uri| server.listen(uri)).unwrap().start().unwrap()
}

/// Calls, and tells what the binding says of itself.
fn described(client: &LabClient) -> String {
    assert_eq!(client.next(41).unwrap(), 42);
    client.binding().describe()
}

#[test]
fn a_name_is_bound_to_the_server_of_this_process_if_there_is_one() {
    let name = name();
    let server = serve(&[&name]);
    assert_eq!(server.uris(), [format!("shm:{name}"), format!("local:{name}")]);
    let described = described(&LabClient::bind(&name).unwrap());
    assert!(described.contains("through the trait"), "{described}");
}

#[test]
fn a_name_is_bound_over_shared_memory_to_another_process() {
    let name = name();
    let _server = serve(&["udp://127.0.0.1:0", &format!("shm:{name}")]);
    let described = described(&LabClient::bind(&name).unwrap());
    assert!(described.contains("shared memory with process"), "{described}");
    assert!(described.contains("because it is the best"), "{described}");
}

#[test]
fn an_address_forces_its_transport() {
    let name = name();
    let server = serve(&["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &name]);
    for (uri, says) in server.uris().iter().zip(["UDP", "TCP", "shared memory", "through the trait"]) {
        let described = described(&LabClient::bind(uri).unwrap());
        assert!(described.contains(says), "{described}");
    }
}

#[test]
fn a_network_binding_is_upgraded_if_caller_and_server_allow_it() {
    let server = serve(&["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &format!("shm:{}", name())]);
    for uri in &server.uris()[..2] {
        let client = LabClient::bind_with(uri, &BindOptions::new().upgrade()).unwrap();
        let described = described(&client);
        assert!(described.contains("shared memory with process"), "{described}");
        assert!(
            described.contains(&format!("because the server at {uri} is on this machine")),
            "{described}"
        );
    }
    let server = serve(&["udp://127.0.0.1:0"]);
    let client = LabClient::bind_with(&server.uris()[0], &BindOptions::new().upgrade()).unwrap();
    let described = described(&client);
    assert!(described.contains("UDP"), "{described}");
}

#[test]
fn the_error_for_an_unknown_name_explains_it() {
    let error = LabClient::bind(&name()).unwrap_err().to_string();
    assert!(error.contains("no server of that name") && error.contains("udp://HOST:PORT"), "{error}");
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, name: &str) -> bool {
    if role != "describe" {
        return false;
    }
    println!("DESCRIBED {}", described(&LabClient::bind(name).unwrap()));
    true
}

#[test]
fn a_caller_that_may_not_share_memory_gets_the_next_best_transport_and_the_reason() {
    let is_root = std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own));
    if is_root.unwrap() != 0 {
        return println!("SKIPPED: only root can call as another user");
    }
    let name = name();
    let _server = serve(&["tcp://127.0.0.1:0", "udp://127.0.0.1:0", &name]);
    let called = Process::as_user(&mut Process::command("describe", &name), NOBODY, NOBODY).output();
    // Other users may not run the programs that root has built here: the test cannot run.
    let Ok(called) = called else { return println!("SKIPPED: others may not run this program") };
    let said = String::from_utf8_lossy(&called.stdout).into_owned();
    let described = said.lines().find(|line| line.starts_with("DESCRIBED")).expect(&said);
    assert!(described.contains("packet exchange over UDP"), "{described}");
    assert!(described.contains("because shared memory could not be used"), "{described}");
    assert!(described.contains("allow_user"), "{described}");
}

#[test]
fn a_server_does_not_start_with_options_that_apply_to_none_of_its_addresses() {
    let server = || Server::new().export(LabServer::new(Bench::default()));
    let unused = |server: Result<Server, ListenError>| match server.unwrap().start() {
        Err(ListenError::UnusedOptions { option, .. }) => Some(option),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    let (packets, unix, shm) = (PacketOptions::new(), UnixOptions::new(), ShmOptions::new());
    assert_eq!(unused(server().with(unix).listen("udp://127.0.0.1:0")), Some("UnixOptions"));
    let late = server().listen("udp://127.0.0.1:0").map(|server| server.with(packets.clone()));
    assert_eq!(unused(late), Some("PacketOptions"));
    let two = server().with(packets).with(shm.clone()).listen("udp://127.0.0.1:0");
    assert_eq!(unused(two.and_then(|server| server.listen(&format!("shm:{}", name())))), None);
    assert_eq!(unused(server().with(shm).listen(&name())), None);
}

#[test]
fn a_binding_claims_no_checksums_that_its_transport_does_not_have() {
    let name = name();
    let server = serve(&[&format!("shm:{name}"), "udp://127.0.0.1:0"]);
    let options = BindOptions::new().with(PacketOptions::new().checksum());
    let claims = |uri: &str| described(&LabClient::bind_with(uri, &options).unwrap());
    // A name may lead to UDP; this one leads to shared memory.
    let (shm, udp) = (claims(&name), claims(&server.uris()[1]));
    assert!(shm.contains("no checksums"), "{shm}");
    assert!(udp.contains("checksum") && !udp.contains("no checksums"), "{udp}");
}
