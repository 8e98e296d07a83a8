//! Outstanding calls of Stoop as futures: each is a task of its own, and one thread polls the tasks that were woken.

use super::{Handle, TestBegin, TestClient, in_words};
use crate::callers::InFlight;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// The outstanding calls of one caller, and what a runtime needs for them.
pub(super) struct Awaited<'a, R, B> {
    client: &'a TestClient,
    begin: B,
    tasks: Vec<Task<R>>,
    /// Places of tasks without a call.
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// Places that are being polled.
    polling: Vec<usize>,
    /// Calls whose results were there when they were polled, and have not been reported.
    taken: usize,
}

struct Task<R> {
    call: Option<Handle<R>>,
    waker: Waker,
}

/// The tasks that are to be polled, and the thread that polls them.
struct Woken {
    places: Mutex<Vec<usize>>,
    thread: Thread,
}

struct TaskWaker {
    place: usize,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut places = self.woken.places.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = places.is_empty();
        places.push(self.place);
        drop(places);
        // It takes all places when it wakes.
        if is_first {
            self.woken.thread.unpark();
        }
    }
}

impl<'a, R, B> Awaited<'a, R, B> {
    /// To be used by the thread that makes it.
    pub(super) fn new(client: &'a TestClient, begin: B) -> Self {
        let woken = Arc::new(Woken { places: Mutex::default(), thread: thread::current() });
        let (tasks, free, polling) = (Vec::new(), Vec::new(), Vec::new());
        Awaited { client, begin, tasks, free, woken, polling, taken: 0 }
    }

    /// The place of a task without a call.
    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let place = self.tasks.len();
            let waker = TaskWaker { place, woken: Arc::clone(&self.woken) };
            self.tasks.push(Task { call: None, waker: Arc::new(waker).into() });
            place
        })
    }

    /// Polls the calls at the places in `polling`. A call that has no result now wakes its task later.
    fn poll(&mut self) -> Result<(), String> {
        for place in self.polling.drain(..) {
            let Task { call, waker } = &mut self.tasks[place];
            let Some(future) = call else { continue };
            if let Poll::Ready(result) = Pin::new(future).poll(&mut Context::from_waker(waker)) {
                *call = None;
                result.map_err(in_words)?;
                self.free.push(place);
                self.taken += 1;
            }
        }
        Ok(())
    }
}

impl<R, B: FnMut(&TestBegin<'_>) -> Handle<R>> InFlight for Awaited<'_, R, B> {
    fn begin(&mut self, calls: usize) -> Result<(), String> {
        let together = self.client.begin();
        for _ in 0..calls {
            let place = self.place();
            self.tasks[place].call = Some((self.begin)(&together));
            self.polling.push(place);
        }
        drop(together);
        self.poll()
    }

    fn take(&mut self) -> Result<usize, String> {
        while self.taken == 0 {
            std::mem::swap(
                &mut *self.woken.places.lock().unwrap_or_else(PoisonError::into_inner),
                &mut self.polling,
            );
            if self.polling.is_empty() {
                thread::park();
            }
            self.poll()?;
        }
        Ok(std::mem::take(&mut self.taken))
    }
}
