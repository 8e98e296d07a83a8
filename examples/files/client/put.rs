//! `put`: files of this machine are copied to the server.

use crate::arguments::is_container;
use crate::buffer::Buffer;
use crate::failure::Failure;
use crate::list::entries;
use crate::local;
use crate::plan::Plan;
use crate::transfer::{Direction, Item, Opened};
use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;
use stoop::Error;
use stoop_examples::files::tree::join;
use stoop_examples::files::{
    Contents, Entry, FileError, FilesClient, Kind, NewFile, Upload, WHOLE_MAX, part, piece,
};

/// How long the server may take to write a file to its disk.
const FINISH: Duration = Duration::from_secs(600);

/// Sends files; returns how many could not be.
pub(crate) fn run(files: &FilesClient, paths: &[String], recursive: bool) -> Result<usize, Failure> {
    let (to, paths) = paths.split_last().expect("the command line has been checked");
    let there = match files.look_up(to) {
        Ok(entry) => Some(entry.kind),
        Err(Error::Application(FileError::NotFound)) => None,
        Err(error) => return Err(Failure::of_call(to, error)),
    };
    let into = is_container(to, paths.len());
    let mut plan = Plan::default();
    for path in paths.iter().map(Path::new) {
        let name = name_of(path)?;
        let kind = look_up(path)?.kind;
        if into && there.is_none() && kind == Kind::File {
            let why =
                "the server has no such directory; put makes those that it copies with -r, and no others";
            return Err(Failure::File(format!("{to}: {why}")));
        }
        let into = into || kind == Kind::File && there == Some(Kind::Directory);
        let (directory, name) = if into { (&**to, &*name) } else { split(to) };
        match kind {
            Kind::Directory if recursive => add_directory(&mut plan, files, path, &join(directory, name))?,
            Kind::Directory => return Err(Failure::of(path.display(), FileError::IsADirectory)),
            _ => add_file(
                &mut plan,
                path,
                directory,
                name,
                files.look_up(&join(directory, name)).ok().as_ref(),
            )?,
        }
    }
    plan.carry_out(&Put { files })
}

/// The name of a file or directory, also of `.`.
fn name_of(path: &Path) -> Result<String, Failure> {
    let whole = path.canonicalize().map_err(|error| Failure::of(path.display(), error.into()))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| Failure::of(path.display(), FileError::NoName))
}

/// The directory and the name of a path at the server.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(("", path), |(_, name)| (&path[..path.len() - name.len()], name))
}

fn look_up(path: &Path) -> Result<Entry, Failure> {
    let entry = local::look_up(path).and_then(|entry| entry.ok_or(FileError::NotFound));
    entry.map_err(|error| Failure::of(path.display(), error))
}

fn add_directory(plan: &mut Plan, files: &FilesClient, path: &Path, to: &str) -> Result<(), Failure> {
    files.make_directory(to).map_err(|error| Failure::of_call(to, error))?;
    let there: HashMap<String, Entry> =
        entries(files, to)?.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    let failure = |error: std::io::Error| Failure::of(path.display(), error.into());
    for entry in fs::read_dir(path).map_err(failure)? {
        let entry = entry.map_err(failure)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failure)?);
        match entry.file_name().to_str() {
            Some(name) if kind.is_dir() => add_directory(plan, files, &path, &join(to, name))?,
            Some(name) if kind.is_file() => add_file(plan, &path, to, name, there.get(name))?,
            _ => plan.skip(&path.display().to_string(), Kind::Other),
        }
    }
    Ok(())
}

fn add_file(
    plan: &mut Plan,
    path: &Path,
    directory: &str,
    name: &str,
    there: Option<&Entry>,
) -> Result<(), Failure> {
    let mut entry = look_up(path)?;
    entry.name = name.into();
    let kind = if part::is_part(name) { Kind::Part } else { entry.kind };
    if kind != Kind::File {
        plan.skip(&path.display().to_string(), kind);
        return Ok(());
    }
    let size = entry.version.size;
    let item = Item { directory: directory.into(), name: name.into(), local: path.into(), size, attempts: 0 };
    plan.add(item, &entry, there);
    Ok(())
}

struct Put<'a> {
    files: &'a FilesClient,
}

/// A long file of this machine, and the server's upload.
struct Long {
    file: File,
    entry: Entry,
    upload: Upload,
}

/// The number of an upload: the same when the client runs again, another one for another file of that name.
fn upload_id(path: &Path, entry: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    // A machine has this number from its installation on.
    fs::read("/etc/machine-id").ok().hash(&mut hasher);
    (path.canonicalize().ok(), entry.version, entry.attributes).hash(&mut hasher);
    hasher.finish()
}

impl Put<'_> {
    /// The pieces that differ, by their checksums.
    fn missing(&self, long: &Long) -> Result<Vec<u64>, Failure> {
        let Long { file, upload, .. } = long;
        let mut missing = Vec::new();
        let mut first = 0;
        while first < piece::count(upload.size) {
            let theirs = self.files.upload_checksums(upload, first);
            let theirs = theirs.map_err(|error| Failure::of_call(&upload.path, error))?;
            let ours = piece::checksums(file, upload.size, first)
                .map_err(|error| Failure::of(&upload.path, error))?;
            missing.extend(piece::differing(first, &ours, &theirs));
            first += ours.len() as u64;
        }
        Ok(missing)
    }
}

impl Direction for Put<'_> {
    type File = Long;

    fn open(&self, item: &Item) -> Result<Opened<Long>, Failure> {
        let (file, entry) =
            local::open(&item.local).map_err(|error| Failure::of(item.local.display(), error))?;
        let (remote, size) = (item.remote(), entry.version.size);
        let upload = self.files.begin_upload(&remote, upload_id(&item.local, &entry), size);
        let upload = upload.map_err(|error| Failure::of_call(&remote, error))?;
        let is_new = upload.is_new;
        let file = Long { file, entry, upload };
        let missing = if is_new { (0..piece::count(size)).collect() } else { self.missing(&file)? };
        Ok(Opened { file, size, missing })
    }

    fn files(&self) -> &FilesClient {
        self.files
    }

    fn piece(&self, long: &Long, index: u64, buffer: &mut Buffer) -> Result<(), Failure> {
        let Long { file, entry, upload } = long;
        let at = piece::range(index, upload.size).start;
        let read = match buffer {
            Buffer::Private(bytes) => piece::read(file, at, bytes),
            Buffer::Shared { memory, .. } => piece::read_in_place(file, at, memory),
        };
        let read = read.and_then(|checksum| local::check_unchanged(file, entry).map(|()| checksum));
        let checksum = read.map_err(|error| Failure::of(&upload.path, error))?;
        let written = match buffer {
            Buffer::Private(bytes) => self.files.write(upload, at, checksum, bytes),
            Buffer::Shared { memory, .. } => self.files.write_in_place(upload, at, checksum, memory),
        };
        written.map_err(|error| Failure::of_call(&upload.path, error))
    }

    fn finish(&self, long: &Long) -> Result<(), Failure> {
        let Long { entry, upload, .. } = long;
        let finished = self.files.with_timeout(FINISH).finish_upload(upload, &entry.attributes);
        finished.map_err(|error| Failure::of_call(&upload.path, error))
    }

    fn discard(&self, _: &Long) {}

    fn whole(&self, batch: &[Item]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let directory = &batch[0].directory;
        let mut new = Vec::new();
        let mut results: Vec<_> =
            batch.iter().map(|item| read_whole(item).map(|file| new.push(file))).collect();
        let written = self.files.with_timeout(FINISH).write_whole(directory, &new);
        let mut written = written.map_err(|error| Failure::of_call(directory, error))?.into_iter();
        for (item, result) in batch.iter().zip(&mut results).filter(|(_, result)| result.is_ok()) {
            let written = written.next().unwrap_or(Err(FileError::Corrupt));
            *result = written.map_err(|error| Failure::of(item.remote(), error));
        }
        Ok(results)
    }

    fn refresh(&self, item: &mut Item) -> Result<(), Failure> {
        item.size = look_up(&item.local)?.version.size;
        Ok(())
    }
}

fn read_whole(item: &Item) -> Result<NewFile, Failure> {
    let failure = |error| Failure::of(item.local.display(), error);
    let (file, entry) = local::open(&item.local).map_err(failure)?;
    if entry.version.size > WHOLE_MAX {
        return Err(failure(FileError::Changed));
    }
    let mut bytes = vec![0; entry.version.size as usize];
    let read = piece::read(&file, 0, &mut bytes);
    let read = read.and_then(|checksum| local::check_unchanged(&file, &entry).map(|()| checksum));
    let checksum = read.map_err(failure)?;
    let contents = Contents { attributes: entry.attributes, checksum, bytes };
    Ok(NewFile { name: item.name.clone(), contents })
}
