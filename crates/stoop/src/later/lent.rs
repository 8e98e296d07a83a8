//! An endpoint that threads of others use: to answer its open calls, and for the pipes of these. A server that ends waits for these
//! threads; after that, none has the endpoint, so its address is free.

use crate::locked::locked;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// An endpoint, for threads that are not its own.
pub(crate) struct Lent<E>(Arc<Shared<E>>);

struct Shared<E> {
    endpoint: Weak<E>,
    users: Users,
}

/// The threads that use an endpoint at this moment.
#[derive(Default)]
struct Users {
    state: Mutex<State>,
    none: Condvar,
}

#[derive(Default)]
struct State {
    threads: usize,
    /// A thread waits until there is none, or has waited. To notify takes a system call, whether a thread waits or not.
    is_called_in: bool,
}

/// A thread uses the endpoint until this is dropped.
struct User<'a>(&'a Users);

impl<E> Lent<E> {
    pub(crate) fn new(endpoint: Weak<E>) -> Self {
        Self(Arc::new(Shared { endpoint, users: Users::default() }))
    }

    /// Uses the endpoint; `None`: it has ended.
    pub(crate) fn with<R>(&self, act: impl FnOnce(Option<&Arc<E>>) -> R) -> R {
        // Dropped behind the endpoint.
        let user = self.0.users.begin();
        let endpoint = user.as_ref().and_then(|_| self.0.endpoint.upgrade());
        act(endpoint.as_ref())
    }

    /// Tells it from all others that are lent, for as long as one of its clones is there.
    pub(crate) fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// Waits until no thread uses the endpoint. From now on, none begins to.
    pub(crate) fn call_in(&self) {
        let mut state = locked(&self.0.users.state);
        state.is_called_in = true;
        let is_any = |state: &mut State| state.threads > 0;
        drop(self.0.users.none.wait_while(state, is_any).unwrap_or_else(PoisonError::into_inner));
    }
}

impl<E> Clone for Lent<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E> Default for Lent<E> {
    /// Of no endpoint.
    fn default() -> Self {
        Self::new(Weak::new())
    }
}

impl Users {
    fn begin(&self) -> Option<User<'_>> {
        let mut state = locked(&self.state);
        if state.is_called_in {
            return None;
        }
        state.threads += 1;
        Some(User(self))
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.threads -= 1;
        if state.threads == 0 && state.is_called_in {
            self.0.none.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_uses_an_endpoint_that_was_called_in() {
        let endpoint = Arc::new(());
        let lent = Lent::new(Arc::downgrade(&endpoint));
        let of_thread = lent.clone();
        assert!(of_thread.with(|endpoint| endpoint.is_some()));
        lent.call_in();
        assert!(of_thread.with(|endpoint| endpoint.is_none()));
    }
}
