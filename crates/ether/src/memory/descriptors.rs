//! The rings of AF_XDP: one side writes descriptors and publishes how many, the other takes them in order and
//! says how far it is (Documentation/networking/af_xdp.rst, "Rings").
//!
//! Each side counts modulo 2³²; a descriptor's place is its count modulo the ring's size, a power of two.

#![allow(unsafe_code)]

use crate::memory::Mapping;
use rustix::net::xdp::{XdpDesc, XdpRingOffset};
use std::sync::atomic::Ordering;

/// A descriptor: plain numbers, of which any bytes are a value.
///
/// # Safety
///
/// The type is `repr(C)` without padding, and any bytes are a value of it.
pub(crate) unsafe trait Descriptor: Copy {}

// SAFETY: a number; the rings "fill" and "completion" hold addresses in the memory for frames.
unsafe impl Descriptor for u64 {}
// SAFETY: an address of eight bytes, a length of four and options of four, `repr(C)`.
unsafe impl Descriptor for XdpDesc {}

/// What both sides have in common.
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    first: usize,
    mask: u32,
    /// Our count: descriptors written, or taken.
    count: u32,
    descriptors: std::marker::PhantomData<T>,
}

impl<T: Descriptor> Ring<T> {
    fn new(mapping: Mapping, offsets: &XdpRingOffset, len: u32) -> Self {
        assert!(len.is_power_of_two(), "the size of a ring");
        let first = offsets.desc as usize;
        assert!(first.is_multiple_of(align_of::<T>()), "aligned descriptors");
        assert!(mapping.len() - first >= len as usize * size_of::<T>(), "descriptors inside of the mapping");
        Self {
            mapping,
            producer: offsets.producer as usize,
            consumer: offsets.consumer as usize,
            flags: offsets.flags.map(|flags| flags as usize),
            first,
            mask: len - 1,
            count: 0,
            descriptors: std::marker::PhantomData,
        }
    }

    #[inline]
    fn place(&self, count: u32) -> *mut T {
        let at = self.first + (count & self.mask) as usize * size_of::<T>();
        (self.mapping.address() as *mut u8).wrapping_add(at).cast()
    }

    /// Whether the kernel has to be told of new descriptors by a system call (XDP_RING_NEED_WAKEUP).
    #[inline]
    fn needs_wakeup(&self) -> bool {
        const XDP_RING_NEED_WAKEUP: u32 = 1;
        // A kernel without the flag always has to be told.
        self.flags
            .is_none_or(|at| self.mapping.number(at).load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0)
    }
}

/// Our side of a ring from which the kernel takes.
#[derive(Debug)]
pub(crate) struct Producer<T>(Ring<T>);

impl<T: Descriptor> Producer<T> {
    pub(crate) fn new(mapping: Mapping, offsets: &XdpRingOffset, len: u32) -> Self {
        Self(Ring::new(mapping, offsets, len))
    }

    /// Descriptors that the kernel has not taken yet.
    #[inline]
    pub(crate) fn untaken(&self) -> u32 {
        // Pairs with the kernel's release of the places.
        self.0.count.wrapping_sub(self.0.mapping.number(self.0.consumer).load(Ordering::Acquire))
    }

    /// Writes the next descriptor, for which there is room.
    #[inline]
    pub(crate) fn write(&mut self, descriptor: T) {
        let place = self.0.place(self.0.count);
        // SAFETY: inside of the mapping and aligned, as `Ring::new` has checked; the kernel reads places only
        // between its own count and the published one, and this place is behind that; `&mut self` excludes
        // other threads.
        unsafe { place.write_volatile(descriptor) };
        self.0.count = self.0.count.wrapping_add(1);
    }

    /// Lets the kernel see what has been written.
    #[inline]
    pub(crate) fn publish(&self) {
        // Publishes the descriptors; the kernel loads this count with acquire semantics.
        self.0.mapping.number(self.0.producer).store(self.0.count, Ordering::Release);
    }

    /// Whether the kernel has to be told of new descriptors by a system call.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.0.needs_wakeup()
    }
}

/// Our side of a ring into which the kernel writes.
#[derive(Debug)]
pub(crate) struct Consumer<T>(Ring<T>);

impl<T: Descriptor> Consumer<T> {
    pub(crate) fn new(mapping: Mapping, offsets: &XdpRingOffset, len: u32) -> Self {
        Self(Ring::new(mapping, offsets, len))
    }

    /// The next descriptor.
    #[inline]
    pub(crate) fn front(&self) -> Option<T> {
        // Pairs with the kernel's release of the descriptors.
        if self.0.mapping.number(self.0.producer).load(Ordering::Acquire) == self.0.count {
            return None;
        }
        let place = self.0.place(self.0.count);
        // SAFETY: inside of the mapping and aligned, as `Ring::new` has checked; any bytes are a value; the
        // kernel has published the descriptor and does not write there before `pop` gives the place back.
        Some(unsafe { place.read_volatile() })
    }

    /// Gives the place of the next descriptor back.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.0.count = self.0.count.wrapping_add(1);
        // The descriptor has been read; the kernel loads this count with acquire semantics.
        self.0.mapping.number(self.0.consumer).store(self.0.count, Ordering::Release);
    }
}
