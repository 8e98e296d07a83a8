//! A process forks while it calls: its calls go on, and its child, which has all its clients, harms none and binds anew.

use crate::harness::child::Child;
use crate::harness::eventually;
use crate::harness::processes;
use crate::harness::processes::{Process, TargetClient, client, name};
use crate::harness::runtime::block_on;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use stoop::error::{SendError, UnknownCause};
use stoop::{CallError, Pending, Ran, Server};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "fork" => fork_while_calling(uri),
        "fork-server" => fork_while_serving(uri),
        "serve-all-ways" => {
            let server =
                Server::new().listen("udp://127.0.0.1:0").unwrap().listen("tcp://127.0.0.1:0").unwrap();
            let server = server.listen(&format!("unix:@{uri}")).unwrap();
            let server = processes::started(server, uri);
            server.uris().iter().for_each(|uri| println!("at {uri}"));
            println!("ready");
            server.wait();
        }
        _ => return false,
    }
    true
}

/// Tells threads that go on until they are told: also when a claim fails meanwhile, or they would keep the failure to themselves.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The calls that a process makes with a client of its own.
fn use_it(client: &TargetClient) {
    // In a child, the first call: it waits until another thread has bound.
    assert_eq!(block_on(client.to_async().next(7)).unwrap(), 8);
    for len in [0, 100, 3000, 200_000] {
        let bytes = vec![len as u8; len];
        assert_eq!(client.echo(&bytes).unwrap(), bytes);
    }
    let calls = client.begin();
    let pending: Vec<_> = (0..100).map(|number| calls.next(number)).collect();
    drop(calls);
    (0..).zip(pending).for_each(|(number, next)| assert_eq!(next.wait().unwrap(), number + 1));
}

/// Outcomes of calls that the parent has begun, as its child sees them.
fn see_of_the_parents(pending: Vec<Pending<Result<(), CallError>>>) {
    let mut pending = pending;
    assert!(pending.iter().all(Pending::is_ready));
    assert!(stoop::wait_any(&mut pending).is_some());
    drop(pending.pop());
    pending.pop().unwrap().detach();
    for pending in pending {
        let error = pending.wait().unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::Forked, .. }), "{error}");
    }
}

fn fork_while_calling(uri: &str) {
    let client = client(uri);
    use_it(&client);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _finish = Finish(&done);
        for _ in 0..2 {
            // It asks for no memory, of which a child may find the locks taken otherwise.
            scope.spawn(|| {
                for number in 0.. {
                    assert_eq!(client.next(number).unwrap(), number + 1);
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        for _ in 0..10 {
            let hanging: Vec<_> = (0..4).map(|_| client.begin().hang()).collect();
            let filling = client.begin().hang_and_fill(100);
            let mut slot = Some((hanging, filling));
            let before_fork = client.begin();
            let child = Child::fork(|| {
                let (hanging, filling) = slot.take().unwrap();
                see_of_the_parents(hanging);
                let error = filling.wait().unwrap_err();
                assert!(matches!(error, CallError::Unknown { cause: UnknownCause::Forked, .. }), "{error}");
                let error = before_fork.next(1).wait().unwrap_err();
                assert!(matches!(error, CallError::NotSent(SendError::Io(_), ..)), "{error}");
                use_it(&client);
                // The child's own child is another process again.
                Child::fork(|| use_it(&client)).ends_well();
                use_it(&client);
                assert!(client.binding().describe().contains(uri));
            });
            // Both at once.
            use_it(&client);
            child.ends_well();
            use_it(&client);
            assert_eq!(before_fork.next(1).wait().unwrap(), 2);
            assert!(!slot.as_ref().unwrap().0[0].is_ready() && !slot.as_ref().unwrap().1.is_ready());
        }
        // A child that only drops what it has.
        let copy = client.clone();
        let mut slot = Some((copy, client.begin().hang()));
        Child::fork(|| drop(slot.take())).ends_well();
        use_it(&client);
    });
    // The watch that notices the end of the server is still there.
    let name = std::process::id();
    let hanging = client.begin().hang_as(name);
    // A call that the server has not taken when it ends goes to the next, and is told of that one.
    eventually(|| client.hangs(name).unwrap());
    println!("forked");
    let error = hanging.wait().unwrap_err();
    assert_eq!(error.ran(), Ran::Perhaps, "{error}");
    println!("told");
}

#[test]
fn a_child_binds_again_over_every_transport_and_its_parent_continues() {
    let uri = name();
    let mut server = Process::start("serve-all-ways", &uri);
    let mut uris = Vec::new();
    loop {
        let line = server.next_line();
        match line.strip_prefix("at ") {
            Some(uri) => uris.push(uri.to_string()),
            None if line == "ready" => break,
            None => {}
        }
    }
    assert_eq!(uris.len(), 4);
    let mut parents: Vec<_> = uris.iter().map(|uri| Process::start("fork", uri)).collect();
    parents.iter_mut().for_each(|parent| parent.await_line("forked"));
    server.kill();
    // Over UDP no event ends the call before its deadline.
    for (uri, mut parent) in uris.iter().zip(parents) {
        if !uri.starts_with("udp:") {
            parent.await_line("told");
        }
    }
}

fn fork_while_serving(uri: &str) {
    let path = format!("{}/stoop-fork-{}", std::env::temp_dir().display(), std::process::id());
    let server = Server::new().listen(&format!("shm:{path}")).unwrap();
    // A name alone: also for callers of this process.
    let name = uri.strip_prefix("shm:").unwrap();
    let mut slot = Some(processes::started(server, name));
    let local = client(name);
    Child::fork(|| {
        // A procedure that runs on the thread of its caller runs here, too.
        assert_eq!(local.next(1).unwrap(), 2);
        let error = local.begin().next(1).wait().unwrap_err().to_string();
        assert!(error.contains("forked"), "{error}");
        let server = slot.take().unwrap();
        server.shut_down();
        server.wait();
        drop(server);
    })
    .ends_well();
    assert_eq!(client(&format!("shm:{path}")).next(1).unwrap(), 2);
    println!("ready");
    std::io::stdin().lock().lines().next();
    slot.unwrap().shut_down();
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn a_server_continues_after_its_child_has_dropped_it() {
    let uri = name();
    let mut server = Process::start("fork-server", &uri);
    server.await_line("ready");
    use_it(&client(&uri));
    server.tell("end");
    server.ends_well();
}

#[test]
fn the_bindings_of_a_child_end_with_it() {
    let uri = name();
    let server = processes::started(Server::new(), &uri);
    let mut parent = Process::start("fork", &uri);
    parent.await_line("forked");
    eventually(|| server.counters().bindings == 1);
    assert_eq!(server.counters().malformed, 0);
    assert_eq!(server.counters().shm.given_up, 0);
}
