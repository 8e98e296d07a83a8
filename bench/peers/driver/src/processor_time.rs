//! The processor time that a process has used.

use std::mem::MaybeUninit;
use std::time::Duration;
use std::{io, process};

/// The time of all threads of the process, those that have ended too, in nanoseconds as the scheduler counts them.
///
/// # Errors
///
/// The process has ended.
pub(crate) fn of(process: &process::Child) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(process.id()).expect("Linux has no such process number");
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a variable that the call may write.
    match unsafe { libc::clock_getcpuclockid(pid, &mut clock) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is memory that the call may write.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, and has therefore written all of it.
    let time = unsafe { time.assume_init() };
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn time_of_a_process_grows_while_it_runs_and_ends_with_it() {
        let mut child =
            Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        while super::of(&child).unwrap() < Duration::from_millis(20) {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(super::of(&child).is_err());
    }
}
