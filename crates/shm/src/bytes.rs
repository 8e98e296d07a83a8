//! Copying between private memory and memory that another process may be writing at the same moment.
//!
//! To Rust, a plain copy that races with a write is undefined. These copies are made of instructions that the compiler
//! does not look into, or of atomic loads and stores: whatever the peer does meanwhile, some bytes are copied, and nothing
//! else happens.

#![allow(unsafe_code)]

/// Copies `len` bytes of this process's memory to memory that is shared.
///
/// # Safety
/// `private` is readable and `shared` writable for `len` bytes for the duration of the call, and they do not overlap. Nothing writes
/// `private` meanwhile, and no reference leads to `shared`.
#[inline]
pub(crate) unsafe fn copy_in(private: *const u8, shared: *mut u8, len: usize) {
    // SAFETY: what the caller vouches for.
    unsafe { imp::copy_in(private, shared, len) }
}

/// Copies `len` bytes of memory that is shared to this process's.
///
/// # Safety
/// `shared` is readable and `private` writable for `len` bytes for the duration of the call, and they do not overlap. Nothing else
/// uses `private` meanwhile, and no reference leads to `shared`.
#[inline]
pub(crate) unsafe fn copy_out(shared: *mut u8, private: *mut u8, len: usize) {
    // SAFETY: what the caller vouches for.
    unsafe { imp::copy_out(shared, private, len) }
}

/// The processor may fetch the line at `shared`, to write it. Nothing else happens, whatever is there.
#[inline]
pub(crate) fn will_write(shared: *mut u8) {
    imp::will_write(shared);
}

/// As [`will_write`], to read it.
#[inline]
pub(crate) fn will_read(shared: *mut u8) {
    imp::will_read(shared);
}

/// As [`copy_out`], for a few bytes: those of a number at a multiple of their count by one instruction, or two.
///
/// # Safety
/// As `copy_out`.
#[inline(always)]
pub(crate) unsafe fn load(shared: *mut u8, private: *mut u8, len: usize) {
    // SAFETY: what the caller vouches for.
    unsafe { imp::load(shared, private, len) }
}

/// As [`copy_in`], for a few bytes: those of a number at a multiple of their count by one instruction, or two.
///
/// # Safety
/// As `copy_in`.
#[inline(always)]
pub(crate) unsafe fn store(private: *const u8, shared: *mut u8, len: usize) {
    // SAFETY: what the caller vouches for.
    unsafe { imp::store(private, shared, len) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    #[inline]
    pub(super) fn will_write(shared: *mut u8) {
        // SAFETY: a prefetch never faults and changes neither memory nor registers, whatever the address; a processor that does
        // not have this one does nothing (it has been reserved for this from the first ones of 64 bits on).
        unsafe {
            core::arch::asm!(
                "prefetchw [{shared}]",
                shared = in(reg) shared,
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    #[inline]
    pub(super) fn will_read(shared: *mut u8) {
        // SAFETY: as above; this one all processors of 64 bits have.
        unsafe {
            core::arch::asm!(
                "prefetcht0 [{shared}]",
                shared = in(reg) shared,
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    /// Bytes that are copied together.
    const BLOCK: usize = 64;
    /// Up to so many bytes, blocks are copied faster.
    const SHORT: usize = 512;
    /// Some processors (AMD Zen 3 and 4) take 25 times as long for a copy by one instruction if `to` lies less than 16 bytes behind `from`
    /// within a page, and twice as long if it is less than 32.
    const SLOW_DISTANCES: core::ops::Range<usize> = 1..32;
    const PAGE: usize = 4096;

    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
    #[inline]
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let is_slow = SLOW_DISTANCES.contains(&(to.addr().wrapping_sub(from.addr()) % PAGE));
        if len < BLOCK && len.is_multiple_of(size_of::<u64>()) {
            for at in (0..len).step_by(size_of::<u64>()) {
                // SAFETY: the word at `at` is within `len`.
                unsafe { copy_word(from.add(at), to.add(at)) };
            }
            return;
        }
        if len < BLOCK || len > SHORT && !is_slow {
            // SAFETY: as the caller vouches.
            return unsafe { copy_by_one_instruction(from, to, len) };
        }
        let mut done = 0;
        while done <= len - BLOCK {
            // SAFETY: a block from `done` on is within `len`.
            unsafe { copy_block(from.add(done), to.add(done)) };
            done += BLOCK;
        }
        if done < len {
            // SAFETY: so is the last one, a part of which may be copied again.
            unsafe { copy_block(from.add(len - BLOCK), to.add(len - BLOCK)) };
        }
    }

    /// # Safety
    /// `from` is readable and `to` writable for a block, and they do not overlap.
    #[inline(always)]
    unsafe fn copy_block(from: *const u8, to: *mut u8) {
        // SAFETY: it reads 64 bytes at `from` and writes as many at `to`, which the caller vouches for; every processor of 64 bits has these
        // registers.
        unsafe {
            core::arch::asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                from = in(reg) from,
                to = in(reg) to,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// # Safety
    /// `from` is readable and `to` writable for eight bytes.
    #[inline(always)]
    unsafe fn copy_word(from: *const u8, to: *mut u8) {
        // SAFETY: it reads eight bytes at `from` and writes as many at `to`, which the caller vouches for.
        unsafe {
            core::arch::asm!(
                "mov {word}, [{from}]",
                "mov [{to}], {word}",
                from = in(reg) from,
                to = in(reg) to,
                word = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// # Safety
    /// As [`copy`].
    #[inline]
    unsafe fn copy_by_one_instruction(from: *const u8, to: *mut u8, len: usize) {
        // As fast as memcpy for long copies, on processors of the last ten years (ERMS, FSRM). Its stores may be seen in any order, but
        // before every later one.
        // SAFETY: it reads `len` bytes at `from` and writes as many at `to`, which the caller vouches for; the direction flag is
        // clear at every call and return (System V ABI), and no other flag is changed.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline]
    pub(super) unsafe fn copy_in(private: *const u8, shared: *mut u8, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe { copy(private, shared, len) }
    }

    #[inline]
    pub(super) unsafe fn copy_out(shared: *mut u8, private: *mut u8, len: usize) {
        // SAFETY: as the caller vouches.
        unsafe { copy(shared, private, len) }
    }

    /// Loads a word of type `$word` from shared memory, and stores it to private memory.
    macro_rules! load {
        ($shared:expr, $private:expr, $word:ty, $register:ident, $template:literal) => {{
            let word: $word;
            core::arch::asm!(
                concat!("mov ", $template, ", [{from}]"),
                word = out($register) word,
                from = in(reg) $shared,
                options(nostack, preserves_flags, readonly)
            );
            $private.cast::<$word>().write_unaligned(word);
        }};
    }

    /// The other way.
    macro_rules! store {
        ($private:expr, $shared:expr, $word:ty, $register:ident, $template:literal) => {{
            core::arch::asm!(
                concat!("mov [{to}], ", $template),
                word = in($register) $private.cast::<$word>().read_unaligned(),
                to = in(reg) $shared,
                options(nostack, preserves_flags)
            );
        }};
    }

    #[inline(always)]
    pub(super) unsafe fn load(shared: *mut u8, private: *mut u8, len: usize) {
        // SAFETY: each arm reads at `shared` and writes at `private` as many bytes as `len` says, which the caller vouches for.
        unsafe {
            match len {
                1 => load!(shared, private, u8, reg_byte, "{word}"),
                2 => load!(shared, private, u16, reg, "{word:x}"),
                4 => load!(shared, private, u32, reg, "{word:e}"),
                8 => load!(shared, private, u64, reg, "{word}"),
                16 => {
                    load!(shared, private, u64, reg, "{word}");
                    load!(shared.add(8), private.add(8), u64, reg, "{word}");
                }
                _ => copy_by_one_instruction(shared, private, len),
            }
        }
    }

    #[inline(always)]
    pub(super) unsafe fn store(private: *const u8, shared: *mut u8, len: usize) {
        // SAFETY: each arm reads at `private` and writes at `shared` as many bytes as `len` says, which the caller vouches for.
        unsafe {
            match len {
                1 => store!(private, shared, u8, reg_byte, "{word}"),
                2 => store!(private, shared, u16, reg, "{word:x}"),
                4 => store!(private, shared, u32, reg, "{word:e}"),
                8 => store!(private, shared, u64, reg, "{word}"),
                16 => {
                    store!(private, shared, u64, reg, "{word}");
                    store!(private.add(8), shared.add(8), u64, reg, "{word}");
                }
                _ => copy_by_one_instruction(private, shared, len),
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

    const WORD: usize = size_of::<u64>();

    #[inline]
    pub(super) fn will_write(_shared: *mut u8) {}

    #[inline]
    pub(super) fn will_read(_shared: *mut u8) {}

    /// Goes through shared memory, word by word where there are whole ones.
    ///
    /// # Safety
    /// `shared` is readable and writable for `len` bytes, and no reference leads there.
    unsafe fn for_each(
        shared: *mut u8,
        len: usize,
        mut word: impl FnMut(usize, &AtomicU64),
        mut byte: impl FnMut(usize, &AtomicU8),
    ) {
        let mut done = 0;
        while done < len {
            let place = shared.wrapping_add(done);
            if len - done >= WORD && place.addr().is_multiple_of(WORD) {
                // SAFETY: a whole word from `done` on is within `len`, and is aligned.
                word(done, unsafe { AtomicU64::from_ptr(place.cast()) });
                done += WORD;
            } else {
                // SAFETY: `done < len`, and a byte has no alignment.
                byte(done, unsafe { AtomicU8::from_ptr(place) });
                done += 1;
            }
        }
    }

    pub(super) unsafe fn copy_in(private: *const u8, shared: *mut u8, len: usize) {
        // SAFETY: a word, or a byte, from `at` on is within `len`; both are readable, as the caller vouches.
        let word = |at, place: &AtomicU64| unsafe {
            place.store(private.add(at).cast::<u64>().read_unaligned(), Relaxed)
        };
        // SAFETY: as above.
        let byte = |at, place: &AtomicU8| unsafe { place.store(private.add(at).read(), Relaxed) };
        // SAFETY: as the caller vouches.
        unsafe { for_each(shared, len, word, byte) }
    }

    pub(super) unsafe fn copy_out(shared: *mut u8, private: *mut u8, len: usize) {
        // SAFETY: a word, or a byte, from `at` on is within `len`; both are writable, as the caller vouches.
        let word = |at, place: &AtomicU64| unsafe {
            private.add(at).cast::<u64>().write_unaligned(place.load(Relaxed))
        };
        // SAFETY: as above.
        let byte = |at, place: &AtomicU8| unsafe { private.add(at).write(place.load(Relaxed)) };
        // SAFETY: as the caller vouches.
        unsafe { for_each(shared, len, word, byte) }
    }

    pub(super) use copy_in as store;
    pub(super) use copy_out as load;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_and_nothing_more() {
        let bytes: Vec<u8> = (0..64_u32).map(|n| n as u8 ^ 0x5a).collect();
        for start in 0..9 {
            for at in 0..9 {
                for len in (0..40).step_by(if cfg!(miri) { 7 } else { 1 }) {
                    let (mut shared, mut private) = ([0; 64], [0; 64]);
                    // SAFETY: all have 64 bytes, of which at most 8 + 39 are used, and they are three.
                    unsafe {
                        copy_in(bytes[start..].as_ptr(), shared[at..].as_mut_ptr(), len);
                        copy_out(shared[at..].as_mut_ptr(), private[start..].as_mut_ptr(), len);
                    }
                    assert_eq!(shared[at..at + len], bytes[start..start + len]);
                    assert!(shared[..at].iter().chain(&shared[at + len..]).all(|&byte| byte == 0));
                    assert_eq!(private[start..start + len], bytes[start..start + len]);
                    assert!(private[..start].iter().chain(&private[start + len..]).all(|&byte| byte == 0));
                }
            }
        }
    }

    #[test]
    fn long_copies_are_whole_wherever_their_ends_lie_in_a_page() {
        let bytes: Vec<u8> = (0..8192_u32).map(|n| (n / 3) as u8).collect();
        for len in [64, 100, 512, 513, 4000] {
            for behind in (0..40).chain([4090]).step_by(if cfg!(miri) { 9 } else { 1 }) {
                let mut copy = vec![0; 16 * 1024];
                let start = (bytes.as_ptr().addr().wrapping_sub(copy.as_ptr().addr()) + behind) % 4096;
                // SAFETY: both have more bytes behind these places, and they are two.
                unsafe { copy_in(bytes.as_ptr(), copy[start..].as_mut_ptr(), len) };
                assert_eq!(copy[start..start + len], bytes[..len]);
                assert!(copy[..start].iter().chain(&copy[start + len..]).all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn a_number_of_every_size_is_loaded_and_stored_and_nothing_more() {
        let bytes: Vec<u8> = (0..32_u32).map(|n| n as u8 ^ 0x5a).collect();
        for len in [1, 2, 3, 4, 8, 16] {
            let (mut shared, mut private) = ([0; 32], [0; 32]);
            // SAFETY: all have 32 bytes, of which 16 from the eighth on are used at most, and they are three.
            unsafe {
                store(bytes.as_ptr(), shared[8..].as_mut_ptr(), len);
                load(shared[8..].as_mut_ptr(), private[8..].as_mut_ptr(), len);
            }
            for copied in [shared, private] {
                assert_eq!(copied[8..8 + len], bytes[..len]);
                assert!(copied[..8].iter().chain(&copied[8 + len..]).all(|&byte| byte == 0), "{len}");
            }
        }
    }
}
