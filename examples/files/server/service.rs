//! The procedures of the file service, on a directory of this machine.

use std::fs::File;
use std::sync::RwLock;
use stoop::InPlace;
use stoop_examples::files::part::{self, Part};
use stoop_examples::files::tree::{Tree, describe, join};
use stoop_examples::files::{
    Attributes, Contents, Entry, FileError, Files, Kind, NewFile, PIECE, Upload, Version, WHOLE_MAX, piece,
};

/// A directory that is offered.
pub(crate) struct Service {
    pub(crate) tree: Tree,
    /// A random number of this start; see [`Upload::server`].
    pub(crate) start: u64,
    /// Refuse all changes.
    pub(crate) read_only: bool,
    /// Write files to the disk before they get their names.
    pub(crate) durable: bool,
    /// Print a line for each piece.
    pub(crate) verbose: bool,
    /// Held shared while a piece is written, and alone while a part gets its name: no piece comes into a file that is complete.
    pub(crate) parts: RwLock<()>,
}

impl Service {
    fn may_change(&self) -> Result<(), FileError> {
        if self.read_only { Err(FileError::ReadOnly) } else { Ok(()) }
    }

    fn log(&self, verb: &str, path: &str, at: u64, len: usize) {
        if self.verbose {
            eprintln!("{verb} {path} {at} {len}");
        }
    }

    /// The file, if it is still at `version`.
    fn open(&self, path: &str, version: &Version) -> Result<File, FileError> {
        let (file, entry) = self.tree.open_file(path)?;
        if entry.version == *version { Ok(file) } else { Err(FileError::Changed) }
    }

    fn part(&self, upload: &Upload) -> Result<Part, FileError> {
        self.may_change()?;
        if upload.server != self.start {
            return Err(FileError::Restarted);
        }
        let (directory, name) = self.tree.parent(&upload.path)?;
        Part::open(directory, name, upload.id).map_err(|error| match error {
            FileError::NotFound => FileError::Restarted,
            other => other,
        })
    }

    /// Whether the upload has ended: the file has its name, its size and its time.
    fn is_finished(&self, upload: &Upload, attributes: &Attributes) -> bool {
        self.tree.look_up(&upload.path).is_ok_and(|entry| {
            entry.version.size == upload.size && entry.attributes.modified_ns == attributes.modified_ns
        })
    }

    /// Writes a piece of `len` bytes by `write`.
    fn write_with(
        &self,
        upload: &Upload,
        at: u64,
        len: usize,
        write: impl FnOnce(Part) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        if at.checked_add(len as u64).is_none_or(|end| end > upload.size) || len > PIECE {
            return Err(FileError::TooLong);
        }
        let _parts = self.parts.read().expect("no procedure panics with the lock");
        write(self.part(upload)?)?;
        self.log("write", &upload.path, at, len);
        Ok(())
    }

    fn read_one(&self, path: &str) -> Result<Contents, FileError> {
        let (file, entry) = self.tree.open_file(path)?;
        let Entry { version, attributes, .. } = entry;
        if version.size > WHOLE_MAX {
            return Err(FileError::Changed);
        }
        let mut bytes = vec![0; version.size as usize];
        let checksum = piece::read(&file, 0, &mut bytes)?;
        check_unchanged(&file, &version)?;
        self.log("read", path, 0, bytes.len());
        Ok(Contents { attributes, checksum, bytes })
    }
}

/// Fails if the file is no longer at `version`.
fn check_unchanged(file: &File, version: &Version) -> Result<(), FileError> {
    let now = describe("", &rustix::fs::fstat(file)?).version;
    if now == *version { Ok(()) } else { Err(FileError::Changed) }
}

impl Files for Service {
    fn look_up(&self, path: &str) -> Result<Entry, FileError> {
        self.tree.look_up(path)
    }

    fn list(&self, directory: &str, after: &str) -> Result<Vec<Entry>, FileError> {
        self.tree.list(directory, after)
    }

    // `piece` lies in the result packet: the kernel copies the file's bytes there.
    fn read(&self, path: &str, version: &Version, at: u64, piece: &mut [u8]) -> Result<u32, FileError> {
        let file = self.open(path, version)?;
        let checksum = piece::read(&file, at, piece)?;
        check_unchanged(&file, version)?;
        self.log("read", path, at, piece.len());
        Ok(checksum)
    }

    fn read_in_place(
        &self,
        path: &str,
        version: &Version,
        at: u64,
        piece: &mut InPlace<u8>,
    ) -> Result<u32, FileError> {
        let file = self.open(path, version)?;
        let checksum = piece::read_in_place(&file, at, piece)?;
        check_unchanged(&file, version)?;
        self.log("read", path, at, piece.len());
        Ok(checksum)
    }

    fn checksums(&self, path: &str, version: &Version, first: u64) -> Result<Vec<u32>, FileError> {
        let file = self.open(path, version)?;
        let checksums = piece::checksums(&file, version.size, first)?;
        check_unchanged(&file, version)?;
        Ok(checksums)
    }

    fn read_whole(&self, directory: &str, names: &[String]) -> Vec<Result<Contents, FileError>> {
        names.iter().map(|name| self.read_one(&join(directory, name))).collect()
    }

    fn write_whole(
        &self,
        directory: &str,
        files: &[NewFile],
    ) -> Result<Vec<Result<(), FileError>>, FileError> {
        self.may_change()?;
        for file in files {
            self.log("write", &join(directory, &file.name), 0, file.contents.bytes.len());
        }
        Ok(part::write_whole(&self.tree.directory(directory)?, files, self.durable))
    }

    fn begin_upload(&self, path: &str, id: u64, size: u64) -> Result<Upload, FileError> {
        self.may_change()?;
        if self.tree.look_up(path).is_ok_and(|entry| entry.kind == Kind::Directory) {
            return Err(FileError::IsADirectory);
        }
        let (directory, name) = self.tree.parent(path)?;
        let (_, is_new) = Part::create(directory, name, id, size)?;
        Ok(Upload { path: path.into(), id, size, server: self.start, is_new })
    }

    fn upload_checksums(&self, upload: &Upload, first: u64) -> Result<Vec<u32>, FileError> {
        self.part(upload)?.checksums(upload.size, first)
    }

    // `piece` lies in the memory in which the call has arrived.
    fn write(&self, upload: &Upload, at: u64, checksum: u32, piece: &[u8]) -> Result<(), FileError> {
        self.write_with(upload, at, piece.len(), |part| part.write(at, piece, checksum))
    }

    fn write_in_place(
        &self,
        upload: &Upload,
        at: u64,
        checksum: u32,
        piece: &InPlace<u8>,
    ) -> Result<(), FileError> {
        self.write_with(upload, at, piece.len(), |part| part.write_in_place(at, piece, checksum))
    }

    fn finish_upload(&self, upload: &Upload, attributes: &Attributes) -> Result<(), FileError> {
        match self.part(upload) {
            Err(FileError::Restarted) if self.is_finished(upload, attributes) => Ok(()),
            Err(error) => Err(error),
            Ok(part) => {
                part.complete(attributes, self.durable)?;
                {
                    let _parts = self.parts.write().expect("no procedure panics with the lock");
                    part.rename()?;
                }
                if self.durable { part.sync_name() } else { Ok(()) }
            }
        }
    }

    fn make_directory(&self, path: &str) -> Result<(), FileError> {
        self.may_change()?;
        self.tree.make_directory(path)
    }

    fn remove(&self, paths: &[String]) -> Vec<Result<(), FileError>> {
        paths.iter().map(|path| self.may_change().and_then(|()| self.tree.remove(path))).collect()
    }
}
