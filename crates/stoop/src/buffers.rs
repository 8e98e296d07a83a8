//! Buffers in calls: what stubs do with arguments that lie in shared memory, or may have to be copied after all.

use std::sync::Arc;
use stoop_marshal::{Data, DecodeError, Reader, Scalar, Writer};
use stoop_shm::{Arena, InPlace, Number, Range};

/// The caller's end: where the buffers of a call lie, and which of them its server is told of.
pub struct SharedBuffers<'a> {
    arena: Option<&'a Arc<Arena>>,
    lent: &'a mut Lent,
}

/// The buffers of which a server has been told where they lie.
#[derive(Default)]
pub(crate) struct Lent {
    /// What keeps their memory from being given to others.
    pub(crate) ranges: Vec<Arc<Range>>,
    /// The procedure changes some of them: it cannot find again what it has found.
    pub(crate) is_changed: bool,
}

impl<'a> SharedBuffers<'a> {
    /// Of a call to a server that shares this memory.
    pub(crate) fn new(arena: Option<&'a Arc<Arena>>, lent: &'a mut Lent) -> Self {
        lent.clear();
        Self { arena, lent }
    }

    /// Writes where `buffer` lies, if its server has that memory, and otherwise its contents.
    pub fn put<T: Number + Scalar>(
        &mut self,
        buffer: &InPlace<T>,
        is_changed: bool,
        writer: &mut Writer<'_>,
    ) {
        match self.arena.and_then(|arena| buffer.place_in(arena)) {
            Some((at, range)) => {
                writer.value(&true);
                writer.value(&at);
                writer.count(buffer.len());
                self.lent.ranges.push(Arc::clone(range));
                self.lent.is_changed |= is_changed;
            }
            None => put_contents(buffer, writer),
        }
    }
}

impl Lent {
    /// Lets them all go.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.is_changed = false;
    }
}

/// Writes the contents of a buffer into a call.
pub fn put_contents<T: Number + Scalar>(buffer: &InPlace<T>, writer: &mut Writer<'_>) {
    writer.value(&false);
    writer.count(buffer.len());
    put_elements(buffer, writer);
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
        None => writer.scalars(&buffer.to_vec()),
    }
}

/// Reads into a buffer the elements that came back with a result.
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
    let mut elements = vec![T::default(); buffer.len()];
    reader.scalars(&mut elements)?;
    buffer.write(0, &elements);
    Ok(())
}

fn align<T: Scalar>() -> usize {
    <T as Data>::LAYOUT.align()
}

fn bytes<T: Number>(buffer: &InPlace<T>) -> usize {
    // Not too many: they are in the memory of this process.
    buffer.len() * size_of::<T>()
}

/// The server's end: memory that it shares with the caller, if it does.
#[derive(Clone, Copy)]
pub struct Memory<'a>(Option<&'a Arc<Arena>>);

impl<'a> Memory<'a> {
    /// That of a binding.
    pub(crate) fn of(arena: Option<&'a Arc<Arena>>) -> Self {
        Self(arena)
    }

    /// There is none.
    pub fn none() -> Self {
        Self(None)
    }
}

/// A buffer that is lent to a procedure.
pub struct Buffer<'a, T: Number> {
    lent: InPlace<T>,
    len: usize,
    /// Where it lies in shared memory; otherwise it is a copy, and goes back as one.
    place: Option<(&'a Arc<Arena>, u64)>,
}

impl<'a, T: Number + Scalar> Buffer<'a, T> {
    /// Takes one out of a call.
    ///
    /// # Errors
    /// When it does not lie in `memory`, or the contents are not all there.
    pub fn take(call: &mut Reader<'_>, memory: Memory<'a>) -> Result<Self, DecodeError> {
        if !call.value::<bool>()? {
            let lent = InPlace::from(call.slice::<T>()?.to_vec());
            return Ok(Self { len: lent.len(), lent, place: None });
        }
        let at: u64 = call.value()?;
        let len = call.value::<u32>()? as usize;
        // From a copy of the call, that nobody can change any more.
        let place = memory.0.and_then(|arena| Some((arena, arena.view(at, len)?)));
        let (arena, lent) = place.ok_or(DecodeError::OutOfRange { name: "InPlace" })?;
        Ok(Self { lent, len, place: Some((arena, at)) })
    }

    /// What the procedure is lent.
    pub fn lent(&self) -> &InPlace<T> {
        &self.lent
    }

    /// The same, to be written.
    pub fn lent_mut(&mut self) -> &mut InPlace<T> {
        &mut self.lent
    }

    /// To be called for all buffers of a call before the first is [finished](Self::finish). A procedure may have put the buffer of another
    /// argument here: what is in it is copied before that argument's own place is written.
    pub fn settle(&mut self) {
        let own = self.place.and_then(|(arena, at)| arena.view::<T>(at, self.len));
        let is_anothers = match own {
            Some(own) => own.as_ptr() != self.lent.as_ptr(),
            None => self.lent.is_shared(),
        };
        if is_anothers {
            self.lent = InPlace::from(self.lent.to_vec());
        }
    }

    /// Writes into the result what the procedure has left there, unless its caller finds it where it lies.
    ///
    /// # Panics
    /// When the procedure has put a buffer of another length there.
    pub fn finish(self, writer: &mut Writer<'_>) {
        let (returned, len) = (self.lent.len(), self.len);
        assert!(
            returned == len,
            "a procedure has put a buffer of {returned} elements in the place of one of {len}; its caller has room for so many"
        );
        let Some((arena, at)) = self.place else { return put_elements(&self.lent, writer) };
        let mut own = arena.view::<T>(at, len).expect("it has been there already");
        if own.as_ptr() != self.lent.as_ptr() {
            // Another buffer is there now. The caller looks into its own.
            own.write(0, &self.lent.to_vec());
        }
    }
}
