//! A run time without a transport, for emitted stubs: the server's stub reads a call where the caller's stub has written it.
//!
//! An interface that names this module (`crate = …`) gets the stubs that every interface gets. A call takes the time of both stubs,
//! and a constant for handing the packets over.

use std::sync::Arc;
// A client of emitted stubs names these too; no call here outlives its client.
pub(super) use stoop::{AnswerMetadata, Binding, CallError, CloseError, Metadata, Pending};
use stub::Exported;

/// The server that a client calls.
#[derive(Clone, Default)]
pub(super) struct BindOptions(Option<Arc<dyn Exported>>);

impl BindOptions {
    /// For a client of this server.
    pub(super) fn to(server: impl Exported) -> Self {
        Self(Some(Arc::new(server)))
    }
}

/// The options name no server.
#[derive(Debug)]
pub(super) struct BindError;

/// The items that emitted stubs name.
pub(super) mod stub {
    use super::{BindError, BindOptions, CallError};
    use std::cell::{RefCell, RefMut};
    use std::fmt;
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::time::Duration;
    pub(in super::super) use stoop::stub::*;

    /// Bytes before a payload, as a packet has them.
    const START: usize = 32;
    /// The longest payload of a packet.
    const LIMIT: usize = 1440;

    /// A client that runs the server's stub in the calling thread.
    pub(in super::super) struct Client<L: ?Sized> {
        server: Arc<dyn Exported>,
        packets: RefCell<Packets>,
        interface: PhantomData<fn(&L)>,
    }

    /// Emitted clients can be made of it; no object is called here.
    #[allow(dead_code)]
    pub(in super::super) trait OfClient {
        type Here: ?Sized;
        fn interface() -> &'static Interface;
        fn of_client(client: Client<Self::Here>) -> Self;
    }

    /// The packets of a call and of its result.
    struct Packets {
        call: Vec<u8>,
        result: Vec<u8>,
        result_len: usize,
    }

    impl Default for Packets {
        fn default() -> Self {
            Self { call: vec![0; START], result: vec![0; START], result_len: 0 }
        }
    }

    impl<L: ?Sized> Clone for Client<L> {
        fn clone(&self) -> Self {
            Self { server: Arc::clone(&self.server), packets: RefCell::default(), interface: PhantomData }
        }
    }

    impl<L: ?Sized> fmt::Debug for Client<L> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Client")
        }
    }

    impl<L: ?Sized> Client<L> {
        pub(in super::super) fn bind(
            _: &'static Interface,
            _: &str,
            options: &BindOptions,
        ) -> Result<Self, BindError> {
            let server = Arc::clone(options.0.as_ref().ok_or(BindError)?);
            Ok(Self { server, packets: RefCell::default(), interface: PhantomData })
        }

        /// No call here can be late.
        pub(in super::super) fn with_timeout(&self, _: Duration) -> Self {
            self.clone()
        }

        /// Nothing travels.
        pub(in super::super) fn with_metadata(&self, _: super::Metadata) -> Self {
            self.clone()
        }

        pub(in super::super) fn with_answer_metadata(&self, _: &super::AnswerMetadata) -> Self {
            self.clone()
        }

        pub(in super::super) fn binding(&self) -> &super::Binding {
            unreachable!("{ONLY_BLOCKING}")
        }

        pub(in super::super) fn begin(&self) -> Begin<'_> {
            unreachable!("{ONLY_BLOCKING}")
        }

        pub(in super::super) fn begin_async(&self) -> Begin<'_> {
            unreachable!("{ONLY_BLOCKING}")
        }

        // Emitted clients await it.
        pub(in super::super) async fn bind_async(
            interface: &'static Interface,
            uri: &str,
            options: &BindOptions,
        ) -> Result<Self, BindError> {
            Self::bind(interface, uri, options)
        }

        #[inline]
        pub(in super::super) fn route(&self, _: u16) -> Result<Route<'_, L>, CallError> {
            Ok(Route::Remote(Remote { server: &*self.server, packets: self.packets.borrow_mut() }))
        }
    }

    const ONLY_BLOCKING: &str = "without a transport there are blocking calls only";

    /// The way that a call takes: here always the second.
    pub(in super::super) enum Route<'a, L: ?Sized> {
        #[expect(dead_code, reason = "emitted stubs name it")]
        Local(Local<'a, L>),
        Remote(Remote<'a>),
    }

    /// A call that has not begun.
    pub(in super::super) struct Remote<'a> {
        server: &'a dyn Exported,
        packets: RefMut<'a, Packets>,
    }

    impl<'a> Remote<'a> {
        #[inline]
        pub(in super::super) fn start(self, procedure: u16) -> Result<Call<'a>, CallError> {
            Ok(Call { server: self.server, packets: self.packets, procedure })
        }
    }

    /// A call being made, and then its result.
    pub(in super::super) struct Call<'a> {
        server: &'a dyn Exported,
        packets: RefMut<'a, Packets>,
        procedure: u16,
    }

    impl Call<'_> {
        #[inline]
        pub(in super::super) fn arguments(&mut self) -> Writer<'_> {
            Writer::new(&mut self.packets.call, START, LIMIT)
        }

        /// No argument or result of one packet is gathered over any transport.
        pub(in super::super) fn can_gather(&self) -> bool {
            false
        }

        pub(in super::super) fn transport_gathered(
            &mut self,
            arguments: Result<usize, EncodeError>,
            _: GatherList<'_, '_>,
        ) -> Result<(), CallError> {
            self.transport(arguments)
        }

        /// Runs the server's stub. Not inlined: as between processes, neither stub is compiled with knowledge of the other.
        #[inline(never)]
        pub(in super::super) fn transport(
            &mut self,
            arguments: Result<usize, EncodeError>,
        ) -> Result<(), CallError> {
            let Packets { call, result, result_len } = &mut *self.packets;
            let len = arguments.expect("the arguments of the tables fit into a packet");
            let mut writer = Writer::new(result, START, LIMIT);
            let call = Reader::new(&call[START..][..len]);
            let served = self.server.dispatch(self.procedure, call, &mut writer);
            served.expect("the server has the procedures of its own interface");
            *result_len = writer.finish().expect("the results of the tables fit into a packet");
            Ok(())
        }

        pub(in super::super) fn scattered(&self) -> Option<Reader<'_>> {
            None
        }

        #[inline]
        pub(in super::super) fn reader(&self) -> Reader<'_> {
            Reader::new(&self.packets.result[START..][..self.packets.result_len])
        }

        #[inline]
        pub(in super::super) fn end<T>(&self, decoded: Result<T, DecodeError>) -> Result<T, CallError> {
            decoded.map_err(CallError::undecoded)
        }
    }
}
