//! Calls to an object that a client offers: the server's end of [callbacks](crate::callbacks), as a transport. It has no address: the
//! client makes the binding, when it offers the object.

mod alone;
mod begun;
mod binding;
mod ending;
pub(crate) mod handle;
mod lane;

use crate::calling::handshake::NotBound;
use crate::serving::running::Listener;
pub(crate) use crate::transport::callback::binding::CallbackBegun;
use crate::transport::callback::handle::Handle;
use crate::transport::contract::{ListenAddress, Target, Transport};
use crate::uri::Scheme;
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

/// Without a scheme.
pub(crate) struct CallbackTransport;

impl Transport for CallbackTransport {
    const SCHEMES: &'static [Scheme] = &[];

    type Binding = Handle;
    type Begun = CallbackBegun;

    fn bind(_: &Target<'_>, _: Instant) -> Result<Handle, NotBound> {
        unreachable!("no address leads here")
    }

    fn begun_calls(binding: &Arc<Handle>) -> io::Result<CallbackBegun> {
        Ok(CallbackBegun::new(binding))
    }

    fn listen(_: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>> {
        unreachable!("no address leads here")
    }
}
