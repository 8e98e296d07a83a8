//! Pieces of files: where they lie, their checksums, and how they are read and written.

use super::{CHECKSUMS_MAX, FileError, PIECE};
use rustix::io::{Errno, pread, pwrite};
use std::ops::Range;
use std::os::fd::AsFd;
use stoop::InPlace;

/// Pieces of a file of `size` bytes.
pub fn count(size: u64) -> u64 {
    size.div_ceil(PIECE as u64)
}

/// The bytes of piece number `index` of a file of `size` bytes; empty behind its end.
pub fn range(index: u64, size: u64) -> Range<u64> {
    let at = |index: u64| index.saturating_mul(PIECE as u64).min(size);
    at(index)..at(index.saturating_add(1))
}

/// Bytes that are copied at a time: few enough that their checksum (CRC-32C) is computed while they are in the processor's caches.
const CHUNK: usize = 64 << 10;

/// Fills `bytes` from a file, and returns their checksum.
///
/// # Errors
/// [`FileError::Changed`] if the file ends before; otherwise why it cannot be read.
pub fn read(file: impl AsFd, at: u64, bytes: &mut [u8]) -> Result<u32, FileError> {
    let mut checksum = 0;
    for (number, chunk) in (0..).zip(bytes.chunks_mut(CHUNK)) {
        fill(&file, at + number * CHUNK as u64, chunk)?;
        checksum = crc32c::crc32c_append(checksum, chunk);
    }
    Ok(checksum)
}

/// As [`read`], into a buffer that another process may have mapped too.
///
/// # Errors
/// As [`read`].
pub fn read_in_place(file: impl AsFd, at: u64, piece: &mut InPlace<u8>) -> Result<u32, FileError> {
    let (mut checksum, mut chunk) = (0, vec![0; CHUNK]);
    for place in (0..piece.len()).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(piece.len() - place)];
        fill(&file, at + place as u64, chunk)?;
        checksum = crc32c::crc32c_append(checksum, chunk);
        piece.write(place, chunk);
    }
    Ok(checksum)
}

fn fill(file: impl AsFd, mut at: u64, mut bytes: &mut [u8]) -> Result<(), FileError> {
    while !bytes.is_empty() {
        let len = match pread(&file, &mut *bytes, at) {
            Ok(0) => return Err(FileError::Changed),
            Err(Errno::INTR) => continue,
            read => read?,
        };
        at += len as u64;
        bytes = &mut bytes[len..];
    }
    Ok(())
}

/// The checksum of a piece.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Copies a buffer that another process may have mapped too. Returns the checksum of the copy, also if that process changes the buffer
/// meanwhile.
///
/// # Panics
/// When `copy` is longer than the buffer.
pub fn copy_out(piece: &InPlace<u8>, copy: &mut [u8]) -> u32 {
    let mut checksum = 0;
    for (number, chunk) in copy.chunks_mut(CHUNK).enumerate() {
        piece.read(number * CHUNK, chunk);
        checksum = crc32c::crc32c_append(checksum, chunk);
    }
    checksum
}

/// Bytes that are written at a time: on ext4 (Linux 6.18) the service took twice as long to receive a GiB when it wrote each piece of
/// 1 MiB at once.
const WRITE: usize = 128 << 10;

/// Writes all bytes to a file.
///
/// # Errors
/// Why it cannot be written.
pub fn write(file: impl AsFd, mut at: u64, mut bytes: &[u8]) -> Result<(), FileError> {
    while !bytes.is_empty() {
        let len = match pwrite(&file, &bytes[..bytes.len().min(WRITE)], at) {
            Ok(0) => return Err(FileError::NoSpace),
            Err(Errno::INTR) => continue,
            written => written?,
        };
        at += len as u64;
        bytes = &bytes[len..];
    }
    Ok(())
}

/// Writes a buffer that another process may have mapped too. Returns the checksum of the bytes that are written, also if that process
/// changes the buffer meanwhile.
///
/// # Errors
/// As [`write()`].
pub fn write_in_place(file: impl AsFd, at: u64, piece: &InPlace<u8>) -> Result<u32, FileError> {
    let (mut checksum, mut chunk) = (0, vec![0; CHUNK]);
    for place in (0..piece.len()).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(piece.len() - place)];
        piece.read(place, chunk);
        checksum = crc32c::crc32c_append(checksum, chunk);
        write(&file, at + place as u64, chunk)?;
    }
    Ok(checksum)
}

/// The checksums of the pieces of a file of `size` bytes from number `first` on, at most [`CHECKSUMS_MAX`].
///
/// # Errors
/// As [`read`].
pub fn checksums(file: impl AsFd, size: u64, first: u64) -> Result<Vec<u32>, FileError> {
    let mut buffer = vec![0; PIECE];
    let indexes = first..count(size).min(first.saturating_add(CHECKSUMS_MAX));
    indexes
        .map(|index| {
            let range = range(index, size);
            let piece = &mut buffer[..(range.end - range.start) as usize];
            read(&file, range.start, piece)
        })
        .collect()
}

/// The numbers of the pieces, from `first` on, whose checksums differ; a piece without a counterpart does.
pub fn differing<'a>(first: u64, ours: &'a [u32], theirs: &'a [u32]) -> impl Iterator<Item = u64> + 'a {
    let differs = |place: &usize| theirs.get(*place) != Some(&ours[*place]);
    (0..ours.len()).filter(differs).map(move |place| first + place as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file_without_gap_or_overlap() {
        const LEN: u64 = PIECE as u64;
        for size in [0, 1, LEN - 1, LEN, LEN + 1, 7 * LEN + 5] {
            let mut end = 0;
            for index in 0..count(size) {
                let piece = range(index, size);
                assert_eq!(piece.start, end, "piece {index} of {size} bytes");
                assert!(!piece.is_empty());
                end = piece.end;
            }
            assert_eq!(end, size);
            assert!(range(count(size), size).is_empty());
        }
    }

    #[test]
    fn a_number_of_a_hostile_peer_names_no_piece() {
        assert!(range(u64::MAX, 10).is_empty());
    }
}
