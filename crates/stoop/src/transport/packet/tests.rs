//! A server and a binding for the tests of the packet transport.

use crate::interface::{Exported, Interface, Procedure, Revisions, Signature};
use crate::later::unserved::Unserved;
use crate::options::BindOptions;
use crate::server::{RunningServer, Server};
use crate::transport::contract::{Target, Transport};
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::transport::PacketTransport;
use crate::transport::udp::UdpLink;
use std::any::Any;
use stoop_exchange::Instant;
use stoop_marshal::{Reader, Writer};
use stoop_net::waiting::Waiting;

pub(crate) static INTERFACE: Interface = Interface {
    name: "Lab",
    docs: "",
    procedures: &[procedure("null", false), procedure("again", true)],
    callback: None,
    revisions: Revisions::none(),
};

const fn procedure(name: &'static str, idempotent: bool) -> Procedure {
    Procedure {
        name,
        docs: "",
        signature: Signature::Text(""),
        idempotent,
        one_way: false,
        in_place: None,
        buffers: false,
        since: 0,
    }
}

pub(crate) struct Lab;

impl Exported for Lab {
    fn interface(&self) -> &'static Interface {
        &INTERFACE
    }

    fn dispatch(&self, _: u16, _: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Unserved> {
        Ok(())
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}

/// A server of two procedures without arguments or result, the second idempotent, and a binding to it.
pub(crate) fn bound(options: PacketOptions) -> (RunningServer, PacketBinding<UdpLink>) {
    bound_with(&BindOptions::new().with(options))
}

/// As [`bound`]; a thread that waits sleeps.
pub(crate) fn bound_with(options: &BindOptions) -> (RunningServer, PacketBinding<UdpLink>) {
    let server = Server::new().export(Lab).listen("udp://127.0.0.1:0").unwrap().start().unwrap();
    let uri = &server.uris()[0];
    let address = uri.strip_prefix("udp://").unwrap();
    let target = Target {
        interface: &INTERFACE,
        uri,
        scheme: &PacketTransport::<UdpLink>::SCHEMES[0],
        address,
        is_ours: |_| false,
        options: &options.clone().waiting(Waiting::Block),
    };
    let binding = PacketBinding::bind(&target, Instant::NEVER).unwrap();
    (server, binding)
}
