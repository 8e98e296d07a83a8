//! Copies files by several threads, each with one blocking call at a time: short files in batches, long ones in pieces.

use crate::buffer::Buffer;
use crate::failure::Failure;
use crate::progress::Progress;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::{mem, thread};
use stoop_examples::files::tree::join;
use stoop_examples::files::{FilesClient, PIECE, WHOLE_MAX, piece};

/// Calls at the same time: while one piece is on the network, another is written.
const THREADS: usize = 4;

/// Files of a batch, at most.
const BATCH_FILES: usize = 128;

/// Times that a file is begun when it changes, or when an end is restarted.
const ATTEMPTS: u32 = 5;

/// A file to be copied.
pub(crate) struct Item {
    /// The directory at the server.
    pub(crate) directory: String,
    /// The name there.
    pub(crate) name: String,
    /// The path on this machine.
    pub(crate) local: PathBuf,
    pub(crate) size: u64,
    pub(crate) attempts: u32,
}

impl Item {
    /// The path at the server.
    pub(crate) fn remote(&self) -> String {
        join(&self.directory, &self.name)
    }

    fn is_with(&self, other: &Self) -> bool {
        self.directory == other.directory && self.local.parent() == other.local.parent()
    }
}

/// A long file that both ends have open, and the pieces that the receiver does not have.
pub(crate) struct Opened<F> {
    pub(crate) file: F,
    pub(crate) size: u64,
    pub(crate) missing: Vec<u64>,
}

/// One direction: `get` or `put`.
pub(crate) trait Direction: Sync {
    type File: Send + Sync;

    /// Begins a long file, or resumes it.
    fn open(&self, item: &Item) -> Result<Opened<Self::File>, Failure>;

    /// The server.
    fn files(&self) -> &FilesClient;

    /// Copies one piece, through `buffer`, which has its length.
    fn piece(&self, file: &Self::File, index: u64, buffer: &mut Buffer) -> Result<(), Failure>;

    /// Gives the file its name.
    fn finish(&self, file: &Self::File) -> Result<(), Failure>;

    /// Removes what has arrived of a file that cannot be copied.
    fn discard(&self, file: &Self::File);

    /// Copies short files of one directory.
    fn whole(&self, batch: &[Item]) -> Result<Vec<Result<(), Failure>>, Failure>;

    /// Looks again how long a file is that has changed.
    fn refresh(&self, item: &mut Item) -> Result<(), Failure>;
}

/// A long file of which pieces are being copied.
struct Long<F> {
    item: Mutex<Option<Item>>,
    opened: Opened<F>,
    /// Pieces that have not been copied.
    left: AtomicUsize,
    failure: Mutex<Option<Failure>>,
}

enum Job<F> {
    Batch(Vec<Item>),
    Open(Item),
    Piece(Arc<Long<F>>, u64),
}

struct Queue<F> {
    items: VecDeque<Item>,
    pieces: VecDeque<(Arc<Long<F>>, u64)>,
    /// Jobs that threads are at: they can lead to others.
    running: usize,
    failed: usize,
    /// Ends everything.
    fatal: Option<Failure>,
}

impl<F> Queue<F> {
    /// Pieces come first, so that few files are open.
    fn next(&mut self) -> Option<Job<F>> {
        if self.fatal.is_some() {
            return None;
        }
        if let Some((long, index)) = self.pieces.pop_front() {
            return Some(Job::Piece(long, index));
        }
        let first = self.items.pop_front()?;
        if first.size > WHOLE_MAX {
            return Some(Job::Open(first));
        }
        let mut bytes = first.size;
        let mut batch = vec![first];
        while let Some(next) = self.items.front()
            && next.size <= WHOLE_MAX
            && bytes + next.size <= PIECE as u64
            && batch.len() < BATCH_FILES
            && next.is_with(&batch[0])
        {
            bytes += next.size;
            batch.extend(self.items.pop_front());
        }
        Some(Job::Batch(batch))
    }
}

/// What the threads of a transfer share.
struct Transfer<'a, D: Direction> {
    direction: &'a D,
    progress: &'a Progress,
    queue: Mutex<Queue<D::File>>,
    changed: Condvar,
}

/// Copies files; returns how many could not be.
pub(crate) fn run<D: Direction>(
    direction: &D,
    items: Vec<Item>,
    progress: &Progress,
) -> Result<usize, Failure> {
    let queue = Queue { items: items.into(), pieces: VecDeque::new(), running: 0, failed: 0, fatal: None };
    let transfer = Transfer { direction, progress, queue: Mutex::new(queue), changed: Condvar::new() };
    progress.shown_during(|| {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| transfer.work());
            }
        });
    });
    let queue = transfer.queue.into_inner().expect("no thread panicked");
    queue.fatal.map_or(Ok(queue.failed), Err)
}

impl<D: Direction> Transfer<'_, D> {
    fn work(&self) {
        let mut buffer = Buffer::new();
        while let Some(job) = self.wait_for_job() {
            match job {
                Job::Batch(items) => self.copy_batch(items),
                Job::Open(item) => self.open(item),
                Job::Piece(long, index) => self.copy_piece(&long, index, &mut buffer),
            }
            self.update(|queue| queue.running -= 1);
        }
    }

    /// The next job; `None` when all is done.
    fn wait_for_job(&self) -> Option<Job<D::File>> {
        let mut queue = self.queue.lock().expect("no thread panics with the lock");
        loop {
            if let Some(job) = queue.next() {
                queue.running += 1;
                return Some(job);
            }
            if queue.running == 0 || queue.fatal.is_some() {
                return None;
            }
            queue = self.changed.wait(queue).expect("no thread panics with the lock");
        }
    }

    fn update(&self, change: impl FnOnce(&mut Queue<D::File>)) {
        change(&mut self.queue.lock().expect("no thread panics with the lock"));
        self.changed.notify_all();
    }

    fn copy_batch(&self, items: Vec<Item>) {
        match self.direction.whole(&items) {
            Err(failure) => self.update(|queue| queue.fatal = Some(failure)),
            Ok(copied) => {
                for (item, copied) in items.into_iter().zip(copied) {
                    self.end(item, copied);
                }
            }
        }
    }

    fn open(&self, item: Item) {
        match self.direction.open(&item) {
            Err(failure) => self.end(item, Err(failure)),
            Ok(mut opened) => {
                let missing = mem::take(&mut opened.missing);
                let missing_bytes: u64 = missing.iter().map(|index| piece_len(*index, opened.size)).sum();
                if item.attempts == 0 {
                    self.progress.add_reused(opened.size - missing_bytes);
                }
                let left = AtomicUsize::new(missing.len());
                let long =
                    Arc::new(Long { item: Mutex::new(Some(item)), opened, left, failure: Mutex::default() });
                if missing.is_empty() {
                    self.finish(&long);
                }
                self.update(|queue| {
                    queue.pieces.extend(missing.into_iter().map(|index| (Arc::clone(&long), index)))
                });
            }
        }
    }

    fn copy_piece(&self, long: &Long<D::File>, index: u64, buffer: &mut Buffer) {
        let mut failure = long.failure.lock().expect("no thread panics with the lock");
        if failure.is_none() {
            drop(failure);
            let len = piece_len(index, long.opened.size);
            buffer.fit(len as usize, self.direction.files());
            let copied = self.direction.piece(&long.opened.file, index, buffer);
            failure = long.failure.lock().expect("no thread panics with the lock");
            match copied {
                Ok(()) => self.progress.add_moved(len),
                Err(why) => *failure = Some(why),
            }
        }
        drop(failure);
        if long.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish(long);
        }
    }

    /// Ends a long file, all of whose pieces have been copied or given up.
    fn finish(&self, long: &Long<D::File>) {
        let failure = long.failure.lock().expect("no thread panics with the lock").take();
        let finished = failure.map_or_else(|| self.direction.finish(&long.opened.file), Err);
        if matches!(finished, Err(Failure::File(_))) {
            self.direction.discard(&long.opened.file);
        }
        let item = long.item.lock().expect("no thread panics with the lock").take();
        self.end(item.expect("a file ends once"), finished);
    }

    /// Ends a file, or begins it again.
    fn end(&self, mut item: Item, copied: Result<(), Failure>) {
        let copied = match copied {
            Err(Failure::Again(_)) if item.attempts < ATTEMPTS => {
                item.attempts += 1;
                match self.direction.refresh(&mut item) {
                    Ok(()) => return self.update(|queue| queue.items.push_back(item)),
                    Err(failure) => Err(failure),
                }
            }
            copied => copied,
        };
        match copied {
            Ok(()) => {
                self.progress.add_file();
                if item.size <= WHOLE_MAX {
                    self.progress.add_moved(item.size);
                }
            }
            Err(Failure::Everything(why)) => {
                self.update(|queue| queue.fatal = Some(Failure::Everything(why)))
            }
            Err(failure) => {
                eprintln!("{failure}");
                self.update(|queue| queue.failed += 1);
            }
        }
    }
}

fn piece_len(index: u64, size: u64) -> u64 {
    let range = piece::range(index, size);
    range.end - range.start
}
