//! `get`: files of the server are copied to this machine.

use crate::arguments::is_container;
use crate::buffer::Buffer;
use crate::failure::Failure;
use crate::list::walk;
use crate::local;
use crate::plan::Plan;
use crate::transfer::{Direction, Item, Opened};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, iter};
use stoop_examples::files::part::{self, Part};
use stoop_examples::files::{Attributes, Entry, FileError, FilesClient, Kind, NewFile, Version, piece, tree};

/// Fetches files; returns how many could not be.
pub(crate) fn run(
    files: &FilesClient,
    paths: &[String],
    recursive: bool,
    durable: bool,
) -> Result<usize, Failure> {
    let (to, paths) = paths.split_last().expect("the command line has been checked");
    let into = is_container(to, paths.len());
    let mut plan = Plan::default();
    for path in paths {
        let entry = files.look_up(path).map_err(|error| Failure::of_call(path, error))?;
        let into = into || entry.kind == Kind::File && local::is_directory(Path::new(to));
        let target = if into { Path::new(to).join(&entry.name) } else { to.into() };
        match entry.kind {
            Kind::Directory if recursive => add_directory(&mut plan, files, path, &target)?,
            Kind::Directory => return Err(Failure::of(path, FileError::IsADirectory)),
            Kind::File => {
                let directory = path.trim_end_matches('/').strip_suffix(&entry.name).unwrap_or_default();
                add_file(&mut plan, directory, &entry, target)?;
            }
            kind => plan.skip(path, kind),
        }
    }
    plan.carry_out(&Get { files, durable })
}

fn add_directory(plan: &mut Plan, files: &FilesClient, path: &str, target: &Path) -> Result<(), Failure> {
    let mut done = make_directory(target);
    walk(files, path, usize::MAX, |directory, entry| {
        let below = directory.strip_prefix(path).unwrap_or_default().trim_start_matches('/');
        let target = target.join(below).join(&entry.name);
        match entry.kind {
            _ if done.is_err() => {}
            Kind::Directory => done = make_directory(&target),
            Kind::File => done = add_file(plan, directory, entry, target),
            kind => plan.skip(&tree::join(directory, &entry.name), kind),
        }
    })?;
    done
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| Failure::of(path.display(), error.into()))
}

fn add_file(plan: &mut Plan, directory: &str, entry: &Entry, local: PathBuf) -> Result<(), Failure> {
    let there = local::look_up(&local).map_err(|error| Failure::of(local.display(), error))?;
    let Entry { name, version, .. } = entry;
    let item =
        Item { directory: directory.into(), name: name.clone(), local, size: version.size, attempts: 0 };
    plan.add(item, entry, there.as_ref());
    Ok(())
}

struct Get<'a> {
    files: &'a FilesClient,
    durable: bool,
}

/// A long file of the server, and what is here of it.
struct Long {
    remote: String,
    version: Version,
    attributes: Attributes,
    part: Part,
    /// Held by the thread that writes. The kernel lets one write to a file at a time, and others that want to would spin.
    writing: Mutex<()>,
}

impl Get<'_> {
    /// The pieces that differ, by their checksums.
    fn missing(&self, long: &Long) -> Result<Vec<u64>, Failure> {
        let Long { remote, version, part, .. } = long;
        let mut missing = Vec::new();
        let mut first = 0;
        while first < piece::count(version.size) {
            let theirs = self.files.checksums(remote, version, first);
            let theirs = theirs.map_err(|error| Failure::of_call(remote, error))?;
            let ours = part.checksums(version.size, first).map_err(|error| Failure::of(remote, error))?;
            missing.extend(piece::differing(first, &ours, &theirs));
            first += ours.len() as u64;
        }
        Ok(missing)
    }
}

impl Direction for Get<'_> {
    type File = Long;

    fn open(&self, item: &Item) -> Result<Opened<Long>, Failure> {
        let remote = item.remote();
        let Entry { version, attributes, .. } =
            self.files.look_up(&remote).map_err(|error| Failure::of_call(&remote, error))?;
        let failure = |error| Failure::of(item.local.display(), error);
        let (directory, name) = local::parent(&item.local)?;
        let (part, is_new) = Part::create(directory, name, 0, version.size).map_err(failure)?;
        if !part.lock().map_err(failure)? {
            return Err(Failure::File(format!(
                "{}: another process receives this file",
                item.local.display()
            )));
        }
        let file = Long { remote, version, attributes, part, writing: Mutex::new(()) };
        let missing = if is_new { (0..piece::count(version.size)).collect() } else { self.missing(&file)? };
        Ok(Opened { file, size: version.size, missing })
    }

    fn files(&self) -> &FilesClient {
        self.files
    }

    fn piece(&self, long: &Long, index: u64, buffer: &mut Buffer) -> Result<(), Failure> {
        let Long { remote, version, part, writing, .. } = long;
        let at = piece::range(index, version.size).start;
        let expected = match buffer {
            Buffer::Private(bytes) => self.files.read(remote, version, at, bytes),
            Buffer::Shared { memory, .. } => self.files.read_in_place(remote, version, at, memory),
        };
        let expected = expected.map_err(|error| Failure::of_call(remote, error))?;
        let (bytes, checksum) = buffer.received();
        part::check(checksum, expected).map_err(|error| Failure::of(remote, error))?;
        let _writing = writing.lock().expect("no thread panics with the lock");
        part.write_checked(at, bytes).map_err(|error| Failure::of(remote, error))
    }

    fn finish(&self, long: &Long) -> Result<(), Failure> {
        let Long { remote, attributes, part, .. } = long;
        let done = part.complete(attributes, self.durable).and_then(|()| part.rename());
        done.and_then(|()| if self.durable { part.sync_name() } else { Ok(()) })
            .map_err(|error| Failure::of(remote, error))
    }

    fn discard(&self, long: &Long) {
        // What remains does no harm, and the failure itself is reported.
        let _ = long.part.remove();
    }

    fn whole(&self, batch: &[Item]) -> Result<Vec<Result<(), Failure>>, Failure> {
        let remote = &batch[0].directory;
        let names: Vec<String> = batch.iter().map(|item| item.name.clone()).collect();
        let contents = self.files.read_whole(remote, &names).map_err(|error| Failure::lost(remote, error))?;
        let (directory, _) = local::parent(&batch[0].local)?;
        let mut results: Vec<Result<(), Failure>> = Vec::new();
        let mut received = Vec::new();
        // A server that answers for too few files has lost the rest.
        let contents = contents.into_iter().chain(iter::repeat(Err(FileError::Corrupt)));
        for (item, contents) in batch.iter().zip(contents) {
            let name = item.local.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            results.push(contents.map_err(|error| Failure::of(item.remote(), error)).map(|contents| {
                received.push(NewFile { name: name.into(), contents });
            }));
        }
        let mut written = part::write_whole(&directory, &received, self.durable).into_iter();
        for (item, result) in batch.iter().zip(&mut results) {
            if result.is_ok() {
                let written = written.next().expect("each received file has a result");
                *result = written.map_err(|error| Failure::of(item.local.display(), error));
            }
        }
        Ok(results)
    }

    fn refresh(&self, item: &mut Item) -> Result<(), Failure> {
        let remote = item.remote();
        let entry = self.files.look_up(&remote).map_err(|error| Failure::of_call(&remote, error))?;
        item.size = entry.version.size;
        Ok(())
    }
}
