//! Gather lists: large arguments that a blocking call borrows from the caller's memory, and large results that it scatters there.
//!
//! The stub of a blocking call puts references to its large scalar arguments on a list instead of copying them into the call packet.
//! The transport gathers the message from the packet and the list, and scatters the result to the arguments that come back. A
//! scalar array or slice that the procedure writes in place comes first in a result, so its position there is known in advance.

use zerocopy::IntoBytes;

use crate::data::align_of_wire;
use crate::layout::align_up;
use crate::{Scalar, Writer};

/// Scalar arguments with at least this many bytes are borrowed, if the transport can gather. It is more than a packet holds, so
/// that a call of one packet is always complete in it. On a big-endian machine none are, because their form in memory is not the
/// form on the wire.
pub const BORROWED_MIN: usize = if cfg!(target_endian = "little") { 2048 } else { usize::MAX };

/// A scalar argument in the caller's memory, borrowed for the time of a call.
pub struct Borrowed<'a> {
    memory: Memory<'a>,
    /// Offset in the payload of the call, if the argument travels there and is not in the call packet.
    in_call: Option<usize>,
    /// Offset in the payload of the result, if the argument comes back.
    in_result: Option<usize>,
}

enum Memory<'a> {
    Read(&'a [u8]),
    /// For an IN-OUT argument: all of the call has arrived at the server before any of the result arrives here.
    Written(&'a mut [u8]),
}

impl<'a> Borrowed<'a> {
    /// An argument that travels with the call only.
    #[inline]
    pub fn input<S: Scalar>(values: &'a [S]) -> Self {
        Self { memory: Memory::Read(values.as_bytes()), in_call: None, in_result: None }
    }

    /// An argument that the result brings; it may also travel with the call.
    #[inline]
    pub fn output<S: Scalar>(values: &'a mut [S]) -> Self {
        Self { memory: Memory::Written(values.as_mut_bytes()), in_call: None, in_result: None }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Read(bytes) => bytes,
            Memory::Written(bytes) => bytes,
        }
    }
}

/// The borrowed arguments of one call, in their order.
pub struct GatherList<'p, 'a> {
    arguments: &'p mut [Borrowed<'a>],
    /// Whether the transport gathers; otherwise all arguments are copied into the call packet.
    gathers: bool,
    /// Bytes of the call's payload that are borrowed, and so not in its packet.
    borrowed_len: usize,
    /// End of the scattered part of the result's payload.
    scatter_end: usize,
    /// Bytes of the result have overwritten an argument of the call.
    are_overwritten: bool,
}

impl<'p, 'a> GatherList<'p, 'a> {
    /// A list of these arguments. `gathers`: the transport takes them from the caller's memory; otherwise they are copied into the
    /// call packet like all others.
    #[inline]
    pub fn new(arguments: &'p mut [Borrowed<'a>], gathers: bool) -> Self {
        Self { arguments, gathers, borrowed_len: 0, scatter_end: 0, are_overwritten: false }
    }

    /// An empty list: the packet holds the whole call.
    #[inline]
    pub fn none() -> Self {
        Self::new(&mut [], false)
    }

    /// Writes an argument of `S` as a sequence: its count and its elements.
    pub fn sequence<S: Scalar>(&mut self, index: usize, writer: &mut Writer<'_>) {
        self.capacity::<S>(index, writer);
        self.elements::<S>(index, writer);
    }

    /// Writes the number of elements that an argument has room for.
    pub fn capacity<S: Scalar>(&self, index: usize, writer: &mut Writer<'_>) {
        writer.count(self.arguments[index].bytes().len() / size_of::<S>());
    }

    /// Writes the elements of an argument of `S`, or notes their offset and borrows them.
    pub fn elements<S: Scalar>(&mut self, index: usize, writer: &mut Writer<'_>) {
        let argument = &mut self.arguments[index];
        let bytes = argument.bytes();
        if self.gathers && bytes.len() >= BORROWED_MIN {
            self.borrowed_len += bytes.len();
            argument.in_call = Some(writer.skip_borrowed(align_of_wire::<S>(), bytes.len()));
        } else if let Some(chunk) =
            writer.chunk(if bytes.is_empty() { 1 } else { align_of_wire::<S>() }, bytes.len())
        {
            chunk.copy_from_slice(bytes);
        }
    }

    /// Assigns the next position in the payload of the result to an argument of `S`.
    pub fn place<S: Scalar>(&mut self, index: usize) {
        let argument = &mut self.arguments[index];
        let len = argument.bytes().len();
        if len > 0 {
            let at = align_up(self.scatter_end, align_of_wire::<S>());
            argument.in_result = Some(at);
            self.scatter_end = at + len;
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Whether bytes of the result have overwritten borrowed arguments, so that the call cannot be sent again.
    pub fn are_overwritten(&self) -> bool {
        self.are_overwritten
    }

    /// Bytes of the call's payload that are borrowed, and so not in its packet.
    pub fn borrowed_len(&self) -> usize {
        self.borrowed_len
    }

    /// End of the scattered part of the result's payload.
    pub fn scatter_end(&self) -> usize {
        self.scatter_end
    }

    /// Passes the bytes `offset..end` of a call's payload to `each`, one contiguous slice after the other. `inline` holds the bytes that
    /// are in the call packet.
    ///
    /// # Panics
    /// The payload is shorter than `end`.
    #[inline]
    pub fn slices<'s>(
        &'s self,
        inline: &'s [u8],
        mut offset: usize,
        end: usize,
        mut each: impl FnMut(&'s [u8]),
    ) {
        // Passes on the wanted bytes that lie in `from`, which begins at `at` of the payload.
        let mut take = |at: usize, from: &'s [u8]| {
            let Some(from) = offset.checked_sub(at).and_then(|skipped| from.get(skipped..)) else { return };
            let from = &from[..from.len().min(end - offset)];
            if !from.is_empty() {
                each(from);
                offset += from.len();
            }
        };
        // Begin of the inline bytes behind the last borrowed argument: in the payload, and in `inline`.
        let (mut at, mut used) = (0, 0);
        for argument in self.arguments.iter() {
            let Some(begin) = argument.in_call else { continue };
            let between = begin - at;
            take(at, &inline[used..used + between]);
            take(begin, argument.bytes());
            (at, used) = (begin + argument.bytes().len(), used + between);
        }
        take(at, &inline[used..]);
        assert_eq!(offset, end, "the payload is as long as its fragments");
    }

    /// Fills `chunk` with the bytes of a call's payload from `offset` on. `inline` holds the bytes that are in the call packet.
    ///
    /// # Panics
    /// The payload ends before `chunk` is full.
    #[inline]
    pub fn gather(&self, inline: &[u8], offset: usize, mut chunk: &mut [u8]) {
        self.slices(inline, offset, offset + chunk.len(), |slice| {
            let (now, rest) = core::mem::take(&mut chunk).split_at_mut(slice.len());
            now.copy_from_slice(slice);
            chunk = rest;
        });
    }

    /// Memory for the bytes `from..to` of a result's payload, if they all belong to one argument. The caller of this function
    /// overwrites it.
    pub fn memory_at(&mut self, from: usize, to: usize) -> Option<&mut [u8]> {
        for argument in self.arguments.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (argument.in_result, &mut argument.memory) else {
                continue;
            };
            if at <= from && to <= at + bytes.len() {
                self.are_overwritten |= argument.in_call.is_some();
                return Some(&mut bytes[from - at..to - at]);
            }
        }
        None
    }

    /// Passes the destinations of the bytes `offset..end` of a result's payload to `each`, one contiguous part after the other:
    /// memory of an argument, or the number of bytes that belong to no argument.
    pub fn places(&mut self, mut offset: usize, end: usize, mut each: impl FnMut(Result<&mut [u8], usize>)) {
        for argument in self.arguments.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (argument.in_result, &mut argument.memory) else {
                continue;
            };
            let (from, to) = (at.max(offset), end.min(at + bytes.len()));
            if from < to {
                if offset < from {
                    each(Err(from - offset));
                }
                self.are_overwritten |= argument.in_call.is_some();
                each(Ok(&mut bytes[from - at..to - at]));
                offset = to;
            }
        }
        if offset < end {
            each(Err(end - offset));
        }
    }

    /// Copies the bytes of `chunk`, which begins at `offset` of a result's payload, to the arguments that they belong to. Bytes beyond
    /// [`scatter_end`](Self::scatter_end) belong to none.
    pub fn scatter(&mut self, offset: usize, chunk: &[u8]) {
        let end = offset + chunk.len();
        for argument in self.arguments.iter_mut() {
            let (Some(at), Memory::Written(bytes)) = (argument.in_result, &mut argument.memory) else {
                continue;
            };
            let (from, to) = (at.max(offset), end.min(at + bytes.len()));
            if from < to {
                self.are_overwritten |= argument.in_call.is_some();
                bytes[from - at..to - at].copy_from_slice(&chunk[from - offset..to - offset]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with inline bytes before, between and after two borrowed arguments.
    fn call<'p, 'a>(
        arguments: &'p mut [Borrowed<'a>],
        packet: &mut Vec<u8>,
        gathers: bool,
    ) -> (GatherList<'p, 'a>, usize) {
        let mut arguments = GatherList::new(arguments, gathers);
        let mut writer = Writer::new(packet, 0, 1 << 20);
        writer.fixed(&7u8);
        arguments.sequence::<u64>(0, &mut writer);
        writer.text("between");
        arguments.elements::<u8>(1, &mut writer);
        arguments.capacity::<u16>(2, &mut writer);
        let len = writer.finish().unwrap();
        (arguments, len)
    }

    fn arguments() -> (Vec<u64>, Vec<u8>, Vec<u16>) {
        let words = (0..400).map(|i| i * 0x0101_0101_0107).collect();
        let bytes = (0..3000).map(|i| (i % 251) as u8).collect();
        (words, bytes, vec![0; 2000])
    }

    #[test]
    fn gathered_bytes_equal_the_bytes_of_a_copied_call() {
        let (words, bytes, mut out) = arguments();
        let mut whole = Vec::new();
        let mut copied = [Borrowed::input(&words), Borrowed::input(&bytes), Borrowed::output(&mut out)];
        let (_, whole_len) = call(&mut copied, &mut whole, false);
        whole.truncate(whole_len);

        let mut packet = vec![0xaa; 10_000];
        let mut borrowed = [Borrowed::input(&words), Borrowed::input(&bytes), Borrowed::output(&mut out)];
        let (arguments, len) = call(&mut borrowed, &mut packet, true);
        assert_eq!((len, arguments.borrowed_len()), (whole.len(), 6200));
        for size in [1, 7, 1440, 2048, len] {
            for offset in (0..len).step_by(size) {
                let mut chunk = vec![0; size.min(len - offset)];
                arguments.gather(&packet[..len - arguments.borrowed_len()], offset, &mut chunk);
                assert_eq!(chunk, whole[offset..][..chunk.len()], "{size} bytes at {offset}");
            }
        }
    }

    #[test]
    fn scattered_bytes_reach_their_arguments() {
        let (mut words, _, mut halves) = arguments();
        let (mut none, mut odd) = ([0u128; 0], [1u8; 3]);
        let mut arguments = [
            Borrowed::output(&mut odd),
            Borrowed::output(&mut none),
            Borrowed::output(&mut words),
            Borrowed::output(&mut halves),
        ];
        let mut arguments = GatherList::new(&mut arguments, true);
        arguments.place::<u8>(0);
        arguments.place::<u128>(1);
        arguments.place::<u64>(2);
        arguments.place::<u16>(3);
        assert_eq!(arguments.scatter_end(), 8 + 3200 + 4000);
        let result: Vec<u8> = (0..7300).map(|i| (i % 241) as u8).collect();
        for (index, chunk) in result.chunks(1000).enumerate() {
            arguments.scatter(1000 * index, chunk);
        }
        assert_eq!(odd, result[..3]);
        assert_eq!(words.as_bytes(), &result[8..3208]);
        assert_eq!(halves.as_bytes(), &result[3208..7208]);
    }

    #[test]
    fn destinations_come_in_order_with_the_gaps_between_them() {
        let (mut odd, mut words) = ([0u8; 3], [0u64; 4]);
        let mut arguments = [Borrowed::output(&mut odd), Borrowed::output(&mut words)];
        let mut arguments = GatherList::new(&mut arguments, true);
        arguments.place::<u8>(0);
        arguments.place::<u64>(1);
        let mut told = Vec::new();
        for (start, end) in [(0, 2), (2, 20), (20, 50)] {
            arguments.places(start, end, |place| match place {
                Ok(place) => {
                    place.fill(7);
                    told.push((true, place.len()));
                }
                Err(len) => told.push((false, len)),
            });
        }
        let expected = [(true, 2), (true, 1), (false, 5), (true, 12), (true, 20), (false, 10)];
        assert_eq!(told, expected);
        assert_eq!((odd, words), ([7; 3], [0x0707_0707_0707_0707; 4]));
    }

    #[test]
    fn result_bytes_in_borrowed_arguments_overwrite_them() {
        let (mut small, mut large) = ([0u8; 100], [0u8; 5000]);
        let mut out = [0u8; 3000];
        let mut arguments =
            [Borrowed::output(&mut small), Borrowed::output(&mut large), Borrowed::output(&mut out)];
        let mut arguments = GatherList::new(&mut arguments, true);
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 0, 1 << 20);
        arguments.elements::<u8>(0, &mut writer);
        arguments.elements::<u8>(1, &mut writer);
        (0..3).for_each(|index| arguments.place::<u8>(index));
        arguments.scatter(0, &[1; 100]);
        arguments.scatter(5100, &[1; 3000]);
        assert!(!arguments.are_overwritten(), "one was copied, one does not travel");
        arguments.scatter(5000, &[1; 200]);
        assert!(arguments.are_overwritten());
    }

    #[test]
    fn memory_is_found_only_for_bytes_of_one_argument() {
        let (mut one, mut other) = ([0u8; 100], [0u8; 100]);
        let mut arguments = [Borrowed::output(&mut one), Borrowed::output(&mut other)];
        let mut arguments = GatherList::new(&mut arguments, true);
        (0..2).for_each(|index| arguments.place::<u8>(index));
        arguments.memory_at(90, 100).expect("its last bytes").fill(1);
        arguments.memory_at(100, 200).expect("all of the second").fill(2);
        assert!(arguments.memory_at(90, 101).is_none() && arguments.memory_at(190, 201).is_none());
        assert_eq!((one[89], one[90], one[99], other), (0, 1, 1, [2; 100]));
    }

    #[test]
    fn borrowed_bytes_count_against_the_limit() {
        let bytes = vec![0u8; 5000];
        let mut arguments = [Borrowed::input(&bytes)];
        let mut arguments = GatherList::new(&mut arguments, true);
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 32, 5003);
        arguments.sequence::<u8>(0, &mut writer);
        assert!(matches!(
            writer.finish(),
            Err(crate::EncodeError::TooLarge { needed_at_least: 5004, limit: 5003 })
        ));
    }
}
