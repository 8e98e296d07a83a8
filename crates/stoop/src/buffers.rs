//! `InPlace` buffers as arguments: in shared memory a call names their position, over other transports it carries their contents.

use crate::later::unserved::Unserved;
use std::sync::Arc;
use stoop_marshal::{Data, DecodeError, Reader, Scalar, Writer, zeros};
use stoop_shm::{Arena, InPlace, Number, Range};

/// Writes the buffer arguments of one call, at the caller.
pub struct SharedBuffers<'a> {
    /// The memory that the server shares, if there is one.
    arena: Option<&'a Arc<Arena>>,
    named: &'a mut NamedRanges,
}

/// Writes the arguments of a call that has buffers.
pub(crate) type WriteArguments<'a> = dyn FnMut(&mut Writer<'_>, &mut SharedBuffers<'_>) + 'a;

/// The ranges of shared memory that a call names.
#[derive(Default)]
pub(crate) struct NamedRanges {
    /// Keeps the ranges allocated while the server may use them.
    pub(crate) ranges: Vec<Arc<Range>>,
    /// The procedure may change some of them, so that the call cannot be made again with the same contents.
    pub(crate) is_changed: bool,
}

impl<'a> SharedBuffers<'a> {
    /// For a call to a server that shares `arena`. Empties `named`.
    pub(crate) fn new(arena: Option<&'a Arc<Arena>>, named: &'a mut NamedRanges) -> Self {
        named.clear();
        Self { arena, named }
    }

    /// Writes the position of `buffer` if it lies in the shared memory, and its contents otherwise.
    pub fn put<T: Number + Scalar>(
        &mut self,
        buffer: &InPlace<T>,
        is_changed: bool,
        writer: &mut Writer<'_>,
    ) {
        if self.put_place(buffer, writer) {
            self.named.is_changed |= is_changed;
        } else {
            put_contents(buffer, writer);
        }
    }

    /// Writes the position of a `buffer` that the procedure fills if it lies in the shared memory, and its length otherwise.
    // The bytes that a lost server has written there do not matter: a procedure that runs again does not see them.
    pub fn put_capacity<T: Number + Scalar>(&mut self, buffer: &InPlace<T>, writer: &mut Writer<'_>) {
        if !self.put_place(buffer, writer) {
            put_capacity(buffer.len(), writer);
        }
    }

    /// Writes the position of `buffer` if it lies in the shared memory; returns whether it does.
    fn put_place<T: Number + Scalar>(&mut self, buffer: &InPlace<T>, writer: &mut Writer<'_>) -> bool {
        let Some((at, range)) = self.arena.and_then(|arena| buffer.place_in(arena)) else { return false };
        writer.value(&true);
        writer.value(&at);
        writer.count(buffer.len());
        self.named.ranges.push(Arc::clone(range));
        true
    }
}

impl NamedRanges {
    /// Releases all ranges.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.is_changed = false;
    }
}

/// Writes a buffer into a call by its contents.
pub fn put_contents<T: Number + Scalar>(buffer: &InPlace<T>, writer: &mut Writer<'_>) {
    writer.value(&false);
    writer.count(buffer.len());
    put_elements(buffer, writer);
}

/// Writes into a call the length of a buffer that the procedure fills, and whose elements return with the result.
pub fn put_capacity(len: usize, writer: &mut Writer<'_>) {
    writer.value(&false);
    writer.count(len);
}

fn put_elements<T: Number + Scalar>(buffer: &InPlace<T>, writer: &mut Writer<'_>) {
    match buffer.private_elements() {
        Some(elements) => writer.scalars(elements),
        None if buffer.is_empty() => {}
        None if cfg!(target_endian = "little") => {
            if let Some(chunk) = writer.chunk(align::<T>(), bytes(buffer)) {
                buffer.copy_to(chunk);
            }
        }
        None => writer.scalars(&copy_of(buffer)),
    }
}

/// Reads a buffer's elements from a result.
pub(crate) fn take_elements<T: Number + Scalar>(
    reader: &mut Reader<'_>,
    buffer: &mut InPlace<T>,
) -> Result<(), DecodeError> {
    if let Some(elements) = buffer.private_elements_mut() {
        return reader.scalars(elements);
    }
    if cfg!(target_endian = "little") && !buffer.is_empty() {
        buffer.copy_from(reader.chunk(align::<T>(), bytes(buffer))?);
        return Ok(());
    }
    buffer.write(0, &reader.elements::<T>(buffer.len())?);
    Ok(())
}

/// A copy of the elements.
///
/// # Panics
/// There is no memory for it. That ends the call, and not the process.
fn copy_of<T: Number + Scalar>(buffer: &InPlace<T>) -> Vec<T> {
    let mut values = zeros(buffer.len()).expect("the process has memory for a copy of a buffer");
    buffer.read(0, &mut values);
    values
}

fn align<T: Scalar>() -> usize {
    <T as Data>::LAYOUT.align()
}

fn bytes<T: Number>(buffer: &InPlace<T>) -> usize {
    // Cannot overflow: the buffer lies in the memory of this process.
    buffer.len() * size_of::<T>()
}

/// The memory that a server shares with the caller of a call, if any.
#[derive(Clone, Copy)]
pub struct Memory<'a>(Option<&'a Arc<Arena>>);

impl<'a> Memory<'a> {
    /// The memory of a binding.
    pub(crate) fn of(arena: Option<&'a Arc<Arena>>) -> Self {
        Self(arena)
    }

    /// No shared memory.
    pub fn none() -> Self {
        Self(None)
    }
}

/// A buffer argument at the server, for the time of a call.
pub struct Buffer<'a, T: Number> {
    buffer: InPlace<T>,
    len: usize,
    /// Position in shared memory. `None`: `buffer` is a copy, and its contents return with the result.
    place: Option<(&'a Arc<Arena>, u64)>,
}

impl<'a, T: Number + Scalar> Buffer<'a, T> {
    /// Reads a buffer argument.
    ///
    /// # Errors
    /// The position does not lie in `memory`, or the contents are incomplete.
    pub fn take(call: &mut Reader<'_>, memory: Memory<'a>) -> Result<Self, DecodeError> {
        if !call.value::<bool>()? {
            let buffer = InPlace::from(call.sequence::<T>()?);
            return Ok(Self { len: buffer.len(), buffer, place: None });
        }
        Self::take_place(call, memory)
    }

    /// Reads a buffer argument that the procedure fills. If its elements return with the result, makes room for them there.
    ///
    /// # Errors
    /// As [`take`](Self::take), or a result may not be that long.
    pub fn take_empty(
        call: &mut Reader<'_>,
        memory: Memory<'a>,
        result: &mut Writer<'_>,
    ) -> Result<Self, Unserved> {
        if call.value::<bool>().map_err(Unserved::BadArguments)? {
            return Self::take_place(call, memory).map_err(Unserved::BadArguments);
        }
        let len = call.capacity().map_err(Unserved::BadArguments)?;
        // The length is the caller's word: the limit of results also bounds the memory that it makes the server take.
        let extent = result.extent().and::<T>(len);
        if result.restarted().reserve(extent).is_none() {
            result.with_room(extent, |_| ()).ok_or(Unserved::ResultTooLarge)?;
        }
        Ok(Self { buffer: InPlace::from(zeros::<T>(len)?), len, place: None })
    }

    /// Reads the position and the length of a buffer in shared memory.
    fn take_place(call: &mut Reader<'_>, memory: Memory<'a>) -> Result<Self, DecodeError> {
        let at: u64 = call.value()?;
        let len = call.value::<u32>()? as usize;
        // Position and length come from a private copy of the call, which the peer cannot change.
        let place = memory.0.and_then(|arena| Some((arena, arena.view(at, len)?)));
        let (arena, buffer) = place.ok_or(DecodeError::OutOfRange { name: "InPlace" })?;
        Ok(Self { buffer, len, place: Some((arena, at)) })
    }

    /// The argument for a procedure that reads it.
    pub fn get(&self) -> &InPlace<T> {
        &self.buffer
    }

    /// The argument for a procedure that may change it.
    pub fn get_mut(&mut self) -> &mut InPlace<T> {
        &mut self.buffer
    }

    /// Detaches this argument from the memory of others. A procedure may have exchanged two of its buffer arguments; each one's contents
    /// must be copied before [`finish`](Self::finish) overwrites the other's memory. Call it for all buffers before the first `finish`.
    pub fn settle(&mut self) {
        let own = self.place.and_then(|(arena, at)| arena.view::<T>(at, self.len));
        let is_anothers = match own {
            Some(own) => own.as_ptr() != self.buffer.as_ptr(),
            None => self.buffer.is_shared(),
        };
        if is_anothers {
            self.buffer = InPlace::from(copy_of(&self.buffer));
        }
    }

    /// Writes the contents into the result, unless the caller finds them in shared memory.
    ///
    /// # Panics
    /// The procedure replaced the argument by a buffer of another length.
    pub fn finish(self, writer: &mut Writer<'_>) {
        let (returned, len) = (self.buffer.len(), self.len);
        assert!(
            returned == len,
            "a procedure has put a buffer of {returned} elements in the place of one of {len}; its caller has room for so many"
        );
        let Some((arena, at)) = self.place else { return put_elements(&self.buffer, writer) };
        let mut own = arena.view::<T>(at, len).expect("`take` has checked the range");
        if own.as_ptr() != self.buffer.as_ptr() {
            // The procedure put another buffer here. The caller looks at the range that it named.
            own.write(0, &copy_of(&self.buffer));
        }
    }
}
