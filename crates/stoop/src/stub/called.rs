//! The objects that callers of a server offer, and clients of them for its procedures.

use crate::callbacks::{Callback, PIPES};
use crate::client::Client;
use crate::client::offering::OfClient;
use crate::context::{Caller, serving_caller};
use crate::error::{Refusal, RefusalCode};
use crate::later::piped::{OpenPipes, keep_open};
use crate::later::room::{OpenRoom, check_room};
use crate::later::unserved::Unserved;
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::transport::callback::handle::Handle;
use crate::transports::AnyBinding;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use stoop_marshal::{DecodeError, Form, Reader};

/// The objects that callers offer, as clients of this type.
pub struct Callbacks<C> {
    offered: Mutex<HashMap<u64, Box<Offered<C>>>>,
    last_serial: AtomicU64,
    is_closed: AtomicBool,
}

/// An object that a caller offers.
struct Offered<C> {
    /// Tells it from others that have had the same number.
    serial: u64,
    client: C,
    handle: Arc<Handle>,
    /// The call in whose pipes the callbacks travel.
    open: OpenPipes,
}

impl<C> Default for Callbacks<C> {
    fn default() -> Self {
        let (last_serial, is_closed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { offered: Mutex::default(), last_serial, is_closed }
    }
}

impl<C> fmt::Debug for Callbacks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("offered", &locked(&self.offered).len()).finish()
    }
}

impl<C> Offered<C> {
    fn end(self) {
        self.handle.end();
        drop(self.open);
    }
}

impl<C: OfClient> Callbacks<C> {
    /// A client of the object that a caller offers.
    ///
    /// # Errors
    /// It offers none, or none any more.
    pub fn client(&self, callback: Callback) -> Result<C, Unserved> {
        let offered = locked(&self.offered);
        match offered.get(&callback.client).filter(|offered| offered.handle.is_open()) {
            Some(offered) => Ok(offered.client.clone()),
            None => Err(Unserved::Refused(Refusal::new(RefusalCode::NoCallback, ""))),
        }
    }

    /// Serves the call in whose pipes the callbacks of its caller are to travel: in an older form of the interface if the call is of one.
    ///
    /// # Errors
    /// Always: it is answered when the object is offered no more, or is refused.
    pub fn serve(
        own: &Arc<Self>,
        room: &OnceLock<Arc<OpenRoom>>,
        arguments: &[u8],
        form: Option<Form>,
    ) -> Result<(), Unserved> {
        let mut call = Reader::new(arguments);
        let (callback, window) = (call.value::<Callback>()?, call.value::<u64>()?);
        call.finish()?;
        check_room(room)?;
        if callback.client == 0 {
            return Err(Unserved::BadArguments(DecodeError::Truncated));
        }
        if own.is_closed.load(Ordering::SeqCst) {
            return Err(Unserved::Refused(Refusal::new(RefusalCode::ShuttingDown, "")));
        }
        let serial = own.last_serial.fetch_add(1, Ordering::Relaxed) + 1;
        let offer = Offer { callbacks: Arc::downgrade(own), client: callback.client, serial };
        let (own, caller) = (Arc::clone(own), serving_caller());
        keep_open(PIPES, Box::new(offer), move |ends, open| {
            own.accept((callback.client, serial), (&caller, form), (ends, window), open);
        })
    }

    fn accept(
        &self,
        (client, serial): (u64, u64),
        (caller, form): (&Caller, Option<Form>),
        (ends, window): (Ends, u64),
        open: OpenPipes,
    ) {
        let Ends { sending: Some(sending), receiving: Some(receiving) } = ends else {
            unreachable!("a call with two pipes has two ends");
        };
        sending.grant(window);
        let agreed = form.map(|form| C::interface().agreed_at(form.revision()));
        let (uri, is_here) = (Arc::<str>::from(name_of(caller)), matches!(caller, Caller::Local));
        let named = (Arc::clone(&uri), is_here.then_some(client));
        let handle = Handle::new((C::interface(), agreed), named, sending, receiving);
        let transport = AnyBinding::Callback(Arc::clone(&handle));
        let of_object = C::of_client(Client::made(C::interface(), uri, transport));
        let offered = Box::new(Offered { serial, client: of_object, handle: Arc::clone(&handle), open });
        let mut all = locked(&self.offered);
        let before = all.insert(client, offered);
        // It may have ended before it was accepted.
        let is_over = all[&client].open.is_over();
        drop(all);
        before.into_iter().for_each(|offered| offered.end());
        handle.accept();
        if is_over || self.is_closed.load(Ordering::SeqCst) {
            self.forget(client, serial);
        }
    }

    /// Ends all that callers offer: the server shuts down.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let all = mem::take(&mut *locked(&self.offered));
        all.into_values().for_each(|offered| offered.end());
    }
}

impl<C> Callbacks<C> {
    /// An object is offered no more.
    fn forget(&self, client: u64, serial: u64) {
        let mut offered = locked(&self.offered);
        let is_it = offered.get(&client).is_some_and(|offered| offered.serial == serial);
        let ended = if is_it { offered.remove(&client) } else { None };
        drop(offered);
        ended.into_iter().for_each(|offered| offered.end());
    }
}

/// Dropped when the call in whose pipes callbacks travel is over.
struct Offer<C> {
    callbacks: Weak<Callbacks<C>>,
    client: u64,
    serial: u64,
}

impl<C> Drop for Offer<C> {
    fn drop(&mut self) {
        if let Some(callbacks) = self.callbacks.upgrade() {
            callbacks.forget(self.client, self.serial);
        }
    }
}

/// A client as the errors of callbacks name it.
fn name_of(caller: &Caller) -> String {
    match caller {
        Caller::Local => "a client in this process".into(),
        Caller::Network(address) => format!("the client at {address}"),
        Caller::Process(process) => format!("the client in process {}", process.pid),
        Caller::Station(station) => format!("the client at {station:?}"),
    }
}
