//! The order between a thread's one-way calls and its next call on the same binding.
//!
//! Each thread remembers the bindings at which it has made ordered one-way calls since it last waited for them. A thread without
//! such calls reads one word of its own.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

thread_local! {
    /// Length of `MARKED`. It needs no destructor, and so no check for one.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// The bindings at which this thread has made ordered one-way calls.
    static MARKED: RefCell<Vec<Weak<()>>> = const { RefCell::new(Vec::new()) };
}

/// From this length on, a thread's list is searched for bindings that are gone.
const TIDY_FROM: usize = 16;

/// The identity of a binding for the threads that make one-way calls at it, from the first of them on.
#[derive(Debug, Default)]
pub(crate) struct Order(OnceLock<Arc<()>>);

impl Order {
    /// Notes that the calling thread makes an ordered one-way call at this binding.
    pub(crate) fn mark(&self) {
        if self.is_marked() {
            return;
        }
        // Fails while the thread's locals are being destroyed: `is_listed` assumes a mark then.
        let _ = MARKED.try_with(|marked| {
            let mut marked = marked.borrow_mut();
            if marked.len() >= TIDY_FROM {
                marked.retain(|binding| binding.strong_count() > 0);
            }
            marked.push(Arc::downgrade(self.0.get_or_init(Arc::default)));
            COUNT.set(marked.len());
        });
    }

    /// Whether the calling thread may have ordered one-way calls at this binding for which it has not waited.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        COUNT.get() > 0 && self.is_listed()
    }

    #[cold]
    fn is_listed(&self) -> bool {
        MARKED.try_with(|marked| marked.borrow().iter().any(|marked| self.is(marked))).unwrap_or(true)
    }

    fn is(&self, marked: &Weak<()>) -> bool {
        self.0.get().is_some_and(|own| marked.as_ptr() == Arc::as_ptr(own))
    }

    /// Notes that the calling thread has waited for its one-way calls at this binding.
    pub(crate) fn clear(&self) {
        let _ = MARKED.try_with(|marked| {
            let mut marked = marked.borrow_mut();
            marked.retain(|binding| !self.is(binding));
            COUNT.set(marked.len());
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::calling::order::*;
    use std::thread;

    #[test]
    fn a_mark_is_of_one_thread_and_one_binding() {
        let (one, other) = (Order::default(), Order::default());
        one.mark();
        assert!(one.is_marked() && !other.is_marked());
        thread::scope(|scope| assert!(!scope.spawn(|| one.is_marked()).join().unwrap()));
        other.mark();
        one.clear();
        assert!(!one.is_marked() && other.is_marked());
        other.clear();
        assert_eq!(COUNT.get(), 0);
    }

    #[test]
    fn marks_of_bindings_that_are_gone_are_forgotten() {
        for _ in 0..10 * TIDY_FROM {
            Order::default().mark();
        }
        assert!(COUNT.get() <= TIDY_FROM, "{}", COUNT.get());
    }
}
