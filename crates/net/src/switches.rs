//! How often a thread has slept in the kernel.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// How often the calling thread has given up its processor to wait: for a lock, a moment, an input (`ru_nvcsw` of
/// getrusage(2)). A thread that computes is only interrupted, which is not counted. `None` if the system does not say. Takes a
/// system call.
pub fn voluntary() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of that type; the call stores nothing else.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all bytes zero are a value of the type, which consists of integers; or the call has stored one.
    let usage = unsafe { usage.assume_init() };
    (result == 0).then_some(usage.ru_nvcsw as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sleep_is_counted() {
        let before = voluntary().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(voluntary().unwrap() > before);
    }
}
