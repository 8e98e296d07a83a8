//! How many threads watch over the deadlines of calls in one process.

use crate::harness::eventually;
use crate::harness::gate::Gate;
use crate::harness::lab::{Bench, LabClient};
use crate::harness::processes::alone;
use std::future::Future;
use std::pin::Pin;
use std::sync::Barrier;
use std::task::{Context, Waker};
use std::thread;
use stoop::{Pending, Server};

/// The name of background threads, as far as the kernel keeps it.
const BACKGROUND: &str = "stoop-backgroun";
const CLIENTS: usize = 50;
const THREADS: usize = 4;

#[test]
fn concurrent_first_polls_start_one_background_thread() {
    alone(|| {
        let gate = Gate::default();
        let _server = Bench::with(&gate).serve(Server::new(), "local:watched");
        let clients: Vec<_> = (0..CLIENTS).map(|_| LabClient::bind("local:watched").unwrap()).collect();
        let others = threads_called(BACKGROUND);
        for client in &clients {
            let together = Barrier::new(THREADS);
            let handles: Vec<_> = (0..THREADS).map(|_| client.begin().wait()).collect();
            thread::scope(|scope| {
                for mut handle in handles {
                    let together = &together;
                    scope.spawn(move || {
                        together.wait();
                        poll(&mut handle);
                    });
                }
            });
        }
        // A thread gives itself its name: until then it has that of the one that has started it.
        let own = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        eventually(|| threads_called(own.trim_end()) <= 1);
        assert_eq!(threads_called(BACKGROUND) - others, CLIENTS);
        gate.open();
    });
}

fn poll<R>(handle: &mut Pending<R>) {
    let _ = Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()));
}

/// Threads of this process that have that name.
fn threads_called(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let name_of = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default()
    };
    threads.map(name_of).filter(|found| found.trim_end() == name).count()
}
