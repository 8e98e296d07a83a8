//! A process that forks.

/// A child, which does what it is given and ends.
pub(crate) struct Child(libc::pid_t);

impl Child {
    pub(crate) fn fork(does: impl FnOnce()) -> Self {
        // SAFETY: only the forking thread is in the child. No other of this process holds a lock of the allocator's or the
        // standard library's that the child needs: those of the C library are seen to by `fork`, and the others wait for calls.
        match unsafe { libc::fork() } {
            0 => {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(does));
                // SAFETY: it ends the process, without what the parent has left to do at its own end.
                unsafe { libc::_exit(if ended.is_ok() { 0 } else { 1 }) }
            }
            pid => {
                assert!(pid > 0);
                Self(pid)
            }
        }
    }

    pub(crate) fn ends_well(self) {
        let mut status = 0;
        // SAFETY: `status` is live and writable, and the child is waited for once.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
    }
}
