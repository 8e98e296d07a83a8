//! The cycle counter of the processor.
#![allow(unsafe_code)]

/// The processor's cycle counter, which runs at a constant rate: the time stamp counter of x86-64, the virtual counter of
/// AArch64; elsewhere nanoseconds of the monotonic clock. The reading is not ordered with the instructions around it.
#[inline(always)]
#[must_use]
pub fn cycles() -> u64 {
    read()
}

/// The cycle counter when all instructions before have ended: a load that waits for another processor's cache line belongs to the step
/// that makes it.
#[cfg(feature = "stamps")]
#[inline(always)]
pub(crate) fn ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it changes nothing.
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    read()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it changes nothing but registers.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn read() -> u64 {
    let count: u64;
    // SAFETY: Linux lets every program read the virtual counter; the instruction changes nothing but the register.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
    }
    count
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn counter_goes_on() {
        let before = super::cycles();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(super::cycles() > before);
    }
}
