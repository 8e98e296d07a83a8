//! A name of a test's own, which leads where the test says.

use rustix::thread::UnshareFlags;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// The name.
pub(crate) const NAME: &str = "server.stoop.test";

/// The calling thread's own names: an `/etc/hosts` that only this thread, and threads that it starts, see.
pub(crate) struct Names(PathBuf);

impl Names {
    /// `None`: that is not permitted, and the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoop-hosts-{}-{number}", std::process::id()));
        fs::write(&path, "").unwrap();
        // SAFETY: descriptors stay shared; only the working directory and mounts become the thread's own.
        let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) };
        let names = Self(path);
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).stdin(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let file = names.0.to_str().unwrap();
        if unshared.is_err() || !mount(&["--make-rprivate", "/"]) || !mount(&["--bind", file, "/etc/hosts"]) {
            println!("SKIPPED: no mount namespace for another /etc/hosts");
            return None;
        }
        Some(names)
    }

    /// The name stands for the servers of these numbers.
    pub(crate) fn lead_to(&self, numbers: &[u64]) {
        let line = |number: &u64| format!("127.0.7.{number} {NAME}\n");
        fs::write(&self.0, numbers.iter().map(line).collect::<String>()).unwrap();
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
