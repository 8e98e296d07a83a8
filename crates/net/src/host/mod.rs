//! Facts about the host, which two ends tell each other when they bind.
//!
//! Whether spinning can pay depends on whether both ends can run at the same time. They certainly cannot if both run on
//! the same kernel (its boot id) and are bound to the same processor.

mod arenas;
mod granted_memory;
mod groups;
mod quota;

pub use arenas::reserve_few_arenas;
pub use granted_memory::granted_memory;

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Facts about where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostFacts {
    /// Identifies one start of one kernel. All zero if the system does not tell; then nothing is concluded from it.
    pub boot_id: [u8; 16],
    /// How many processors' worth of time this process may use at once: the smaller of its affinity
    /// and its cgroups' quota rounded up. At least 1.
    pub cpus: u32,
    /// The processor it is bound to, when its affinity admits just one.
    pub only_cpu: Option<u32>,
}

impl HostFacts {
    /// Gathers the facts for the calling thread: affinity belongs to threads, and a new thread inherits its parent's.
    /// Reads a few small files: for binding, not for calling.
    pub fn gather() -> Self {
        let affinity = allowed_cpus();
        let cpus = match quota::own() {
            Some(quota) => quota.min(affinity.len() as u32),
            None => affinity.len() as u32,
        };
        let only_cpu = match affinity[..] {
            [cpu] => Some(cpu),
            _ => None,
        };
        Self { boot_id: boot_id(), cpus: cpus.max(1), only_cpu }
    }

    /// Whether both run on the same kernel, as far as is known.
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0; 16]
    }
}

/// Whether the two ends can run at the same time. `false` only when it is certain that they cannot:
/// same kernel, and both bound to the same single processor.
pub fn can_run_together(a: &HostFacts, b: &HostFacts) -> bool {
    let same_cpu = a.only_cpu.is_some() && a.only_cpu == b.only_cpu;
    !(same_cpu && a.shares_kernel_with(b))
}

/// The processors that the calling thread may run on, in ascending order; never empty.
pub fn allowed_cpus() -> Vec<u32> {
    let allowed: Vec<u32> = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect(),
        // More processors than fit in a `CpuSet` (1024): then it matters little which.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect(),
    };
    if allowed.is_empty() { vec![current_cpu()] } else { allowed }
}

/// Binds the calling thread, and the threads that it starts from now on, to processor `cpu`.
///
/// # Errors
///
/// `InvalidInput` when there is no such processor or this process may not use it.
pub fn pin_to(cpu: u32) -> io::Result<()> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("processor {cpu} is beyond 1023")));
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// The processor on which the calling thread runs at this moment.
#[inline]
pub fn current_cpu() -> u32 {
    sched_getcpu() as u32
}

/// The user as whom this process acts.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// How many descriptors this process may have open (`ulimit -n`).
pub fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Unpredictable bytes from the kernel, for bindings and cookies. Blocks only while the kernel has not
/// yet gathered randomness after its start.
///
/// # Panics
///
/// When the kernel has no `getrandom` (before Linux 3.17): there is no safe way to go on.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
    bytes
}

/// The processor time that this process has used so far, all threads, user and kernel together.
pub fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    parse_uuid(text.trim()).unwrap_or_default()
}

/// `"5c1fde70-…"` as bytes.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(boot_id: u8, only_cpu: Option<u32>) -> HostFacts {
        HostFacts { boot_id: [boot_id; 16], cpus: if only_cpu.is_some() { 1 } else { 2 }, only_cpu }
    }

    #[test]
    fn only_one_shared_processor_of_one_kernel_keeps_two_ends_from_running_together() {
        let cases = [
            (facts(1, Some(0)), facts(1, Some(0)), false),
            (facts(1, Some(0)), facts(1, Some(1)), true),
            (facts(1, Some(0)), facts(2, Some(0)), true),
            (facts(1, None), facts(1, Some(0)), true),
            (facts(1, None), facts(1, None), true),
            // Kernels that do not tell their boot id may be different ones.
            (facts(0, Some(0)), facts(0, Some(0)), true),
        ];
        for (a, b, together) in cases {
            assert_eq!(can_run_together(&a, &b), together, "{a:?} {b:?}");
            assert_eq!(can_run_together(&b, &a), together, "{b:?} {a:?}");
        }
    }

    #[test]
    fn pinned_thread_has_one_processor_and_stays_there() {
        std::thread::spawn(|| {
            let cpu = *allowed_cpus().last().unwrap();
            pin_to(cpu).unwrap();
            let facts = HostFacts::gather();
            assert_eq!((facts.cpus, facts.only_cpu), (1, Some(cpu)));
            assert_eq!(current_cpu(), cpu);
            assert!(!can_run_together(&facts, &facts) || facts.boot_id == [0; 16]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pinning_to_a_processor_that_is_not_there_is_an_error() {
        std::thread::spawn(|| {
            assert_eq!(pin_to(1023).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(pin_to(u32::MAX).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn boot_id_is_parsed_or_unknown() {
        let parsed = parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!((parsed[0], parsed[1], parsed[15]), (0x00, 0x11, 0xff));
        for wrong in
            ["", "00112233", "zz112233-4455-6677-8899-aabbccddeeff", "+0112233-4455-6677-8899-aabbccddeef"]
        {
            assert_eq!(parse_uuid(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random_bytes::<16>(), random_bytes::<16>());
    }

    #[test]
    fn processor_time_does_not_go_back() {
        let earlier = processor_time();
        assert!(processor_time() >= earlier);
    }
}
