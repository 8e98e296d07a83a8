//! What a binding is for callbacks: that of a client which offers an object, or that of a server to such an object.

use crate::agreed::Agreed;
use crate::callbacks::Callback;
use crate::client::binding::Binding;
use crate::client::bound::Bound;
use crate::client::choice::Source;
use crate::options::BindOptions;
use crate::transports::AnyBinding;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

impl Binding {
    /// A binding that has been made. All of these share their options: a server has as many as there are clients that offer objects.
    pub(crate) fn made(source: Source, transport: AnyBinding) -> Self {
        static OPTIONS: LazyLock<Arc<BindOptions>> = LazyLock::new(Arc::default);
        let options = Arc::clone(&OPTIONS);
        Self { remote: OnceLock::from(Bound::new(transport)), ..Self::new(source, options) }
    }

    /// The object that the client offers, as its calls name it.
    pub(crate) fn callback(&self) -> Callback {
        // The parent's object is called in the parent.
        let offering = self.offering.as_ref().filter(|_| self.is_of_this_process());
        offering.map_or_else(Callback::default, |offering| offering.callback())
    }

    /// Whether the first call binds.
    pub(in crate::client) fn is_lazy(&self) -> bool {
        self.options.lazy
    }

    pub(in crate::client) fn waits_for_server(&self) -> bool {
        self.options.waits_for_server()
    }

    /// How long binding may take, and each call.
    pub(in crate::client) fn time_to_bind(&self) -> Duration {
        self.options.time_to_bind()
    }

    pub(in crate::client) fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// The number of the form that the server has of the procedure which carries callbacks, the last.
    pub(in crate::client) fn carrying_procedure(&self) -> u16 {
        let last = self.source.interface.procedures.len() - 1;
        let last = u16::try_from(last).expect("procedures are numbered by 14 bits");
        self.known().and_then(|bound| bound.transport.form(last)).unwrap_or(last)
    }

    /// As [`Interface::agreed_on`](crate::interface::Interface::agreed_on).
    pub(in crate::client) fn agreed_on(&self, number: u16) -> Option<Agreed> {
        self.source.interface.agreed_on(number)
    }
}
