//! Buffers that are used where they lie, by the caller and by the procedure.

#![allow(unsafe_code)]

use crate::arena::{Full, Range};
use crate::{Arena, Number, bytes};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A buffer of numbers that a procedure uses where its caller has filled it: over shared memory, nothing of it is copied.
///
/// An argument `frame: &InPlace<f32>` is read by the procedure, `&mut InPlace<f32>` is read and written, and `#[out] frame: &mut
/// InPlace<f32>` is only written: where buffers are copied, its contents come back and are not sent. The caller gets the buffer
/// from its client (`client.in_place(len)`), fills it, and can pass it to any number of calls, one after the other or at once. Over
/// `shm:` it lies in memory that both processes have mapped, and a call says where. Over every other transport the same interface
/// works, and the contents travel as those of a slice do; so they do when a buffer is passed to another server than it was made
/// for, and in calls that are begun (`client.begin()`). In a `local:` call the procedure uses the same buffer.
///
/// # Only for programs that trust their peer
/// The peer can write to the memory at any time, also while this process reads it. Two reads of an element may differ, a value may
/// change after it was checked, and a procedure's result can depend on values that its caller never saw. So no reference leads to
/// the elements; they are copied out and in by [`get`](Self::get), [`set`](Self::set), [`read`](Self::read) and
/// [`write`](Self::write). That is sound at any time, because every bit pattern is a value. A program that knows that the peer does
/// not write meanwhile can have a slice by [`as_slice`](Self::as_slice), at the price of `unsafe`.
///
/// When a call has failed and may have run (`CallError::ran`), the procedure may still be at it, and so may
/// its writing. The memory of the buffer is not used for another before it has ended; the buffer itself can be read, and passed on.
///
/// A child that is forked has the buffers of its parent, and shares their memory with it: each sees what the other writes.
///
/// # Elements
/// A new buffer has any contents. Elements lie as they do in an array of this machine, the first at a multiple of 64 bytes when the
/// memory is shared.
///
/// ```
/// # use stoop_shm as stoop;
/// use stoop::InPlace;
///
/// let mut samples = InPlace::from(vec![1.0_f32, 2.0, 3.0]);
/// samples.set(1, 5.0);
/// samples.write(2, &[7.0]);
/// let mut two = [0.0; 2];
/// samples.read(1, &mut two);
/// assert_eq!((samples.get(0), two), (1.0, [5.0, 7.0]));
/// ```
pub struct InPlace<T: Number> {
    /// `len` numbers from here on are within the memory that `home` keeps, and aligned. No reference leads there that safe
    /// code has made.
    start: NonNull<T>,
    len: usize,
    home: Home,
    elements: PhantomData<T>,
}

/// The owner of a buffer's memory.
enum Home {
    /// The buffer alone: a slice in a box.
    Private,
    /// An arena, and at the end that has taken it there, its range.
    Arena(Arc<Arena>, Option<Arc<Range>>),
}

// SAFETY: the memory is the value's own, or shared with a peer, and in both cases the same for all threads. Numbers are `Send`.
unsafe impl<T: Number> Send for InPlace<T> {}
// SAFETY: what takes a shared reference only reads, by copies that may race with the peer's writes; numbers are `Sync`.
unsafe impl<T: Number> Sync for InPlace<T> {}

impl<T: Number> InPlace<T> {
    /// A buffer of `len` zeros in memory of this process alone. It can be passed to any call, and is copied.
    pub fn private(len: usize) -> Self {
        Self::from(vec![T::default(); len])
    }

    /// Elements of it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it lies in memory that a peer has mapped too.
    pub fn is_shared(&self) -> bool {
        matches!(self.home, Home::Arena(..))
    }

    /// Where the first element is. What is read there while the peer writes is undefined to Rust, unless it is read by atomics or
    /// outside of Rust.
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self.start.as_ptr()
    }

    /// The same, for writing: by a device, by a library in another language, or under the conditions of
    /// [`as_mut_slice`](Self::as_mut_slice).
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.start.as_ptr()
    }

    /// The element at `index`, as it is at this moment.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn get(&self, index: usize) -> T {
        assert!(index < self.len, "element {index} of {}", self.len);
        let mut value = T::default();
        // SAFETY: the element is within the buffer, whose memory `self` keeps, and `value` is a private number of that size, of which
        // all bytes are values. Only the peer can write the element meanwhile.
        unsafe { bytes::load(self.start.add(index).as_ptr().cast(), (&raw mut value).cast(), size_of::<T>()) }
        value
    }

    /// Sets the element at `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < self.len, "element {index} of {}", self.len);
        // SAFETY: as for `get`, the other way; in this process `self` is borrowed nowhere else.
        unsafe {
            bytes::store((&raw const value).cast(), self.start.add(index).as_ptr().cast(), size_of::<T>())
        }
    }

    /// Copies the elements from `at` on into `values`, as many as those are.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn read(&self, at: usize, values: &mut [T]) {
        let from = self.part(at, values.len());
        // SAFETY: `part` has checked that so many elements are there, and `values` has room for them. They do not overlap: a reference
        // leads to the buffer only where its maker has vouched that nothing else uses the memory.
        unsafe { bytes::copy_out(from.as_ptr().cast(), values.as_mut_ptr().cast(), size_of_val(values)) }
    }

    /// Copies `values` over the elements from `at` on.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn write(&mut self, at: usize, values: &[T]) {
        let to = self.part(at, values.len());
        // SAFETY: as for `read`, the other way; in this process `self` is borrowed nowhere else.
        unsafe { bytes::copy_in(values.as_ptr().cast(), to.as_ptr().cast(), size_of_val(values)) }
    }

    /// A copy of all elements.
    pub fn to_vec(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.len];
        self.read(0, &mut values);
        values
    }

    /// The elements where they lie.
    ///
    /// # Safety
    /// Nothing writes to them as long as the slice is borrowed: neither the peer nor another view of the same
    /// memory in this process. While a call is outstanding that has the buffer as a `&mut` argument, or that may still run, the peer
    /// is writing.
    #[inline]
    pub unsafe fn as_slice(&self) -> &[T] {
        // SAFETY: so many aligned elements are there as long as `self` is, all their bytes are values, and nothing writes them, which
        // the caller vouches for.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// Nothing else reads or writes them as long as the slice is borrowed, as for [`as_slice`](Self::as_slice).
    #[inline]
    pub unsafe fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above; nothing else uses them, which the caller vouches for.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Where the elements from `at` on are, `len` of them.
    #[inline]
    fn part(&self, at: usize, len: usize) -> NonNull<T> {
        assert!(at <= self.len && len <= self.len - at, "{len} elements from {at} on, of {}", self.len);
        // SAFETY: within the buffer, or at its end.
        unsafe { self.start.add(at) }
    }
}

/// The functions that stubs use.
#[doc(hidden)]
impl<T: Number> InPlace<T> {
    /// The elements, if they are in memory of this process alone.
    pub fn private_elements(&self) -> Option<&[T]> {
        match self.home {
            // SAFETY: the memory is the value's own, and it is borrowed.
            Home::Private => Some(unsafe { self.as_slice() }),
            Home::Arena(..) => None,
        }
    }

    /// The same, to be written.
    pub fn private_elements_mut(&mut self) -> Option<&mut [T]> {
        match self.home {
            // SAFETY: the memory is the value's own, and it is borrowed nowhere else.
            Home::Private => Some(unsafe { self.as_mut_slice() }),
            Home::Arena(..) => None,
        }
    }

    /// Where it lies in an arena, and the range that keeps it there, if this end has taken it there.
    pub fn place_in(&self, arena: &Arc<Arena>) -> Option<(u64, &Arc<Range>)> {
        match &self.home {
            Home::Arena(own, Some(range)) if Arc::ptr_eq(own, arena) => {
                Some((arena.offset_of(self.start.cast()) as u64, range))
            }
            _ => None,
        }
    }

    /// Copies all elements to `chunk`, as they lie on this machine.
    ///
    /// # Panics
    /// When it is of another size.
    pub fn copy_to(&self, chunk: &mut [u8]) {
        assert_eq!(chunk.len(), self.len * size_of::<T>());
        // SAFETY: both have so many bytes; as for `read`.
        unsafe { bytes::copy_out(self.start.as_ptr().cast(), chunk.as_mut_ptr(), chunk.len()) }
    }

    /// Copies over all elements what `chunk` has, as they lie on this machine.
    ///
    /// # Panics
    /// When it is of another size.
    pub fn copy_from(&mut self, chunk: &[u8]) {
        assert_eq!(chunk.len(), self.len * size_of::<T>());
        // SAFETY: both have so many bytes; as for `write`.
        unsafe { bytes::copy_in(chunk.as_ptr(), self.start.as_ptr().cast(), chunk.len()) }
    }
}

impl Arena {
    /// The caller's end: a new buffer of `len` numbers, which are anything.
    ///
    /// # Errors
    /// When no part that is free is long enough.
    pub fn allocate<T: Number>(self: &Arc<Self>, len: usize) -> Result<InPlace<T>, Full> {
        let range = self.take(len.saturating_mul(size_of::<T>()))?;
        let start = self.numbers(range.start(), len).expect("what is taken is within the arena, and aligned");
        let home = Home::Arena(Arc::clone(self), Some(Arc::new(range)));
        Ok(InPlace { start, len, home, elements: PhantomData })
    }

    /// The buffer of `len` numbers at byte `at`, as the other process says; `None` when that is not inside, or not aligned.
    pub fn view<T: Number>(self: &Arc<Self>, at: u64, len: usize) -> Option<InPlace<T>> {
        let start = self.numbers(at, len)?;
        Some(InPlace { start, len, home: Home::Arena(Arc::clone(self), None), elements: PhantomData })
    }
}

/// A buffer in memory of this process alone. It can be passed to any call, and is copied.
impl<T: Number> From<Vec<T>> for InPlace<T> {
    fn from(values: Vec<T>) -> Self {
        let len = values.len();
        let start = NonNull::from(Box::leak(values.into_boxed_slice())).cast();
        Self { start, len, home: Home::Private, elements: PhantomData }
    }
}

impl<T: Number> Drop for InPlace<T> {
    fn drop(&mut self) {
        if let Home::Private = self.home {
            let values = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
            // SAFETY: it was a box, of this length, when the buffer was made, and has been the buffer's alone since.
            drop(unsafe { Box::from_raw(values) });
        }
    }
}

impl<T: Number> fmt::Debug for InPlace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InPlace").field("len", &self.len).field("is_shared", &self.is_shared()).finish()
    }
}

#[cfg(test)]
mod tests;
