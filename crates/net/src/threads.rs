//! Threads that are started only when there is address space for them.
//!
//! A new thread takes more than its stack: before it runs anything, the standard library maps a stack for signal handlers, and ends the
//! process if it cannot. So a process whose address space is used up (`RLIMIT_AS`) must not start the thread.

#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use std::{io, ptr};

/// Bytes of address space without which no thread starts: twice its stack, so that as much is left for other threads meanwhile.
const ROOM: usize = 4 << 20;

/// Starts a thread with this name, of at most 15 bytes as the system shows it.
///
/// # Errors
/// The system gives no thread, or the process has less than 4 MiB of address space left.
pub fn start<T, F>(name: &str, run: F) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    start_boxed(name, Box::new(run))
}

// The standard library's part is compiled once, and not for each of our threads.
#[inline(never)]
fn start_boxed<T: Send + 'static>(
    name: &str,
    run: Box<dyn FnOnce() -> T + Send>,
) -> io::Result<JoinHandle<T>> {
    find_room()?;
    Builder::new().name(name.into()).spawn(run)
}

/// Starts a thread with this name that ends before `scope` does.
///
/// # Errors
/// As of [`start`].
pub fn start_in<'scope, T, F>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: F,
) -> io::Result<ScopedJoinHandle<'scope, T>>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    find_room()?;
    Builder::new().name(name.into()).spawn_scoped(scope, run)
}

/// Gives the calling thread a tenth of the processor time of another thread where both want the same processor (nice 10), if the system
/// permits it.
pub fn give_way() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// The nice value of such a thread: each step is a quarter less (sched(7)).
const NICE: i32 = 10;

/// Maps as much as a thread needs, and unmaps it.
fn find_room() -> io::Result<()> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is a new one at an address that the system chooses, nothing has a reference to it, and it is unmapped whole.
    unsafe {
        let start = mmap_anonymous(ptr::null_mut(), ROOM, access, MapFlags::PRIVATE)?;
        munmap(start, ROOM)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const LIMITED: &str = "STOOP_TEST_LIMITED";

    #[test]
    fn no_thread_starts_without_address_space_for_it() {
        if std::env::var_os(LIMITED).is_some() {
            let pages: u64 = std::fs::read_to_string("/proc/self/statm")
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            // Enough for the stack of a thread, and not for a stack for its signal handlers.
            let limit = pages * 4096 + (2 << 20) + (8 << 10);
            rustix::process::setrlimit(
                rustix::process::Resource::As,
                rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) },
            )
            .unwrap();
            let refused = start("limited", || ()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
            return;
        }
        let name = "threads::tests::no_thread_starts_without_address_space_for_it";
        let this = std::env::current_exe().unwrap();
        // In a process of its own, for the limit stays.
        let ended = Command::new(this).args([name, "--exact"]).env(LIMITED, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        start("unlimited", || ()).unwrap().join().unwrap();
    }
}
