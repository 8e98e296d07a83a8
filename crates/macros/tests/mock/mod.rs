//! The parts of `stoop` that emitted code uses, without a network: a call packet and a result packet in memory, and the server
//! called directly.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

/// Bytes of header before a payload.
const START: usize = 32;

/// Where the next client is bound to, and how.
#[derive(Clone)]
pub struct BindOptions {
    pub exported: Option<Arc<dyn stub::Exported>>,
    pub limit: usize,
    pub is_local: bool,
    /// Large arguments stay where they are.
    pub can_gather: bool,
}

impl std::fmt::Debug for BindOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BindOptions").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Default for BindOptions {
    fn default() -> Self {
        BindOptions { exported: None, limit: 1440, is_local: false, can_gather: false }
    }
}

#[derive(Debug)]
pub struct BindError;

#[derive(Debug)]
pub struct Binding;

impl Binding {
    pub fn flush(&self, _: Duration) -> Result<(), CloseError> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct CloseError;

thread_local! {
    /// One-way calls of this thread that its next call waits for.
    pub static IN_ORDER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[derive(Debug, PartialEq)]
pub enum CallError {
    NotSent(stub::EncodeError),
    Refused(stub::Unserved),
    Failed(stub::EncodeError),
    Peer(stub::DecodeError),
}

impl CallError {
    pub fn undecoded(why: stub::DecodeError) -> Self {
        Self::Peer(why)
    }

    /// The real one notes the procedure.
    pub fn of(self, interface: &'static stub::Interface, procedure: u16) -> Self {
        assert!(usize::from(procedure) < interface.procedures.len(), "{}", interface.name);
        self
    }
}

#[derive(Debug, PartialEq)]
pub enum Error<E> {
    Application(E),
    Call(CallError),
}

/// A call whose result is there at once.
pub struct Pending<R>(R);

impl<R> Pending<R> {
    pub fn wait(self) -> R {
        self.0
    }
}

#[path = "../../../stoop/src/stub/returned.rs"]
mod returned;

/// As the library's.
#[derive(Clone, Copy)]
pub struct Metadata;

/// As the library's.
pub struct AnswerMetadata;

pub mod stub {
    #[allow(unused_imports, reason = "not every interface returns a type that needs a check")]
    pub use super::returned::*;
    use super::*;
    use std::any::Any;
    use std::cell::RefCell;
    use std::ops::Range;
    pub use stoop_marshal::*;
    pub use stoop_probe::{Point, stamp};

    pub struct Interface {
        pub name: &'static str,
        pub docs: &'static str,
        pub procedures: &'static [Procedure],
        pub revisions: Revisions,
        pub callback: Option<fn() -> &'static Interface>,
    }

    /// As the library's.
    pub trait OfClient {
        type Here: ?Sized;

        fn interface() -> &'static Interface;

        fn of_client(client: Client<Self::Here>) -> Self;
    }

    /// As the library's, of an interface without revisions.
    pub struct Revisions;

    impl Revisions {
        pub const fn none() -> Self {
            Revisions
        }
    }

    pub enum Signature {
        Emitted(fn(&mut Description)),
    }

    impl Procedure {
        pub fn signature(&self) -> String {
            let Signature::Emitted(describe) = self.signature;
            let mut description = Description::new();
            describe(&mut description);
            description.finish()
        }
    }

    pub struct Procedure {
        pub name: &'static str,
        pub docs: &'static str,
        pub signature: Signature,
        pub idempotent: bool,
        pub one_way: bool,
        pub in_place: Option<u8>,
        pub buffers: bool,
        pub since: u32,
    }

    pub trait Exported: Send + Sync + 'static {
        fn interface(&self) -> &'static Interface;
        fn dispatch(&self, procedure: u16, call: Reader<'_>, result: &mut Writer<'_>)
        -> Result<(), Unserved>;
        fn dispatch_in_place(
            &self,
            _procedure: u16,
            _leading: &[u8],
            _len: usize,
            _result: &mut Writer<'_>,
        ) -> Result<(), Unserved> {
            Err(Unserved::UnknownProcedure)
        }
        fn local(&self) -> Box<dyn Any + Send + Sync>;
    }

    #[derive(Debug, PartialEq)]
    pub enum Unserved {
        UnknownProcedure,
        BadArguments(DecodeError),
        ResultTooLarge,
    }

    pub struct Client<L: ?Sized> {
        options: BindOptions,
        local: Option<Arc<L>>,
    }

    impl<L: ?Sized> Clone for Client<L> {
        fn clone(&self) -> Self {
            Client { options: self.options.clone(), local: self.local.clone() }
        }
    }

    impl<L: ?Sized> std::fmt::Debug for Client<L> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Client")
        }
    }

    impl<L: ?Sized + Send + Sync + 'static> Client<L> {
        pub fn bind(_: &'static Interface, _: &str, options: &BindOptions) -> Result<Self, BindError> {
            let exported = options.exported.as_ref().ok_or(BindError)?;
            let local = options
                .is_local
                .then(|| Arc::clone(exported.local().downcast_ref::<Arc<L>>().expect("the same interface")));
            Ok(Client { options: options.clone(), local })
        }

        pub async fn bind_async(
            interface: &'static Interface,
            uri: &str,
            options: &BindOptions,
        ) -> Result<Self, BindError> {
            Self::bind(interface, uri, options)
        }

        pub fn with_timeout(&self, _: Duration) -> Self {
            self.clone()
        }

        pub fn with_metadata(&self, _: super::Metadata) -> Self {
            self.clone()
        }

        pub fn with_answer_metadata(&self, _: &super::AnswerMetadata) -> Self {
            self.clone()
        }

        pub fn with_latest(&self, _: u64) -> Self {
            self.clone()
        }

        pub fn binding(&self) -> &Binding {
            &Binding
        }

        pub fn begin(&self) -> Begin<'_> {
            Begin(&self.options)
        }

        pub fn begin_async(&self) -> Begin<'_> {
            self.begin()
        }

        pub fn route_in_order(&self, procedure: u16) -> Result<Route<'_, L>, CallError> {
            self.route(procedure)
        }

        pub fn tell(
            &self,
            mut call: Beginning<'_>,
            arguments: Result<usize, EncodeError>,
        ) -> Result<(), CallError> {
            call.0.transport(arguments)
        }

        /// As `tell`, and counted.
        pub fn tell_in_order(
            &self,
            call: Beginning<'_>,
            arguments: Result<usize, EncodeError>,
        ) -> Result<(), CallError> {
            IN_ORDER.set(IN_ORDER.get() + 1);
            self.tell(call, arguments)
        }

        #[inline]
        pub fn route(&self, _: u16) -> Result<Route<'_, L>, CallError> {
            Ok(match &self.local {
                Some(local) => Route::Local(Local(local)),
                None => Route::Remote(Remote(&self.options)),
            })
        }
    }

    pub enum Route<'a, L: ?Sized> {
        Local(Local<'a, L>),
        Remote(Remote<'a>),
    }

    #[derive(Debug)]
    pub struct Begin<'a>(&'a BindOptions);

    pub struct Beginning<'a>(Call<'a>);

    impl<'a> Begin<'a> {
        pub fn with_timeout(self, _: Duration) -> Self {
            self
        }

        pub fn with_metadata(self, _: super::Metadata) -> Self {
            self
        }

        pub fn with_answer_metadata(self, _: &super::AnswerMetadata) -> Self {
            self
        }

        pub fn start(&self, procedure: u16) -> Beginning<'a> {
            Beginning(Remote(self.0).start(procedure).expect("packets in memory"))
        }
    }

    impl Beginning<'_> {
        pub fn arguments(&mut self) -> Writer<'_> {
            self.0.arguments()
        }

        pub fn submit<R: 'static>(
            self,
            arguments: Result<usize, EncodeError>,
            decode: fn(Result<Reader<'_>, CallError>) -> R,
        ) -> Pending<R> {
            self.submit_with(arguments, decode)
        }

        pub fn submit_with<R>(
            mut self,
            arguments: Result<usize, EncodeError>,
            decode: impl FnOnce(Result<Reader<'_>, CallError>) -> R + Send + 'static,
        ) -> Pending<R> {
            Pending(match self.0.transport(arguments) {
                Ok(()) => decode(Ok(self.0.reader())),
                Err(error) => decode(Err(error)),
            })
        }

        pub fn submit_one_way<R: 'static>(
            self,
            arguments: Result<usize, EncodeError>,
            decode: fn(Result<Reader<'_>, CallError>) -> R,
        ) -> Pending<R> {
            self.submit_with(arguments, decode)
        }
    }

    pub struct Local<'a, L: ?Sized>(&'a L);

    impl<L: ?Sized> Local<'_, L> {
        pub fn call<R>(self, _: u16, procedure: impl FnOnce(&L) -> R) -> Result<R, CallError> {
            Ok(procedure(self.0))
        }
    }

    pub struct Remote<'a>(&'a BindOptions);

    /// The two packets of a lane, which hold old bytes at first as real ones would.
    #[derive(Default)]
    struct Packets {
        call: Vec<u8>,
        call_len: usize,
        result: Vec<u8>,
        result_len: usize,
        /// Bytes of the result that have scattered where they belong.
        scattered: usize,
    }

    impl Packets {
        fn call(&self) -> &[u8] {
            &self.call[START..][..self.call_len]
        }

        fn result(&self) -> &[u8] {
            &self.result[START..][..self.result_len]
        }
    }

    thread_local! {
        static PACKETS: RefCell<Packets> = RefCell::default();
    }

    /// The result packet of the last call of this thread, as a payload.
    pub fn last_result() -> Vec<u8> {
        PACKETS.with_borrow(|packets| packets.result().to_vec())
    }

    /// The call packet of the last call of this thread, as a payload.
    pub fn last_call() -> Vec<u8> {
        PACKETS.with_borrow(|packets| packets.call().to_vec())
    }

    /// The addresses of the call's data and of the result's data in the packets of the last call of this thread.
    pub fn last_packets() -> [Range<*const u8>; 2] {
        PACKETS.with_borrow(|packets| [packets.call().as_ptr_range(), packets.result().as_ptr_range()])
    }

    impl<'a> Remote<'a> {
        #[inline]
        pub fn start(self, procedure: u16) -> Result<Call<'a>, CallError> {
            let mut packets = PACKETS.take();
            packets.call.resize(START + self.0.limit, 0xaa);
            packets.result.resize(START + self.0.limit, 0xaa);
            Ok(Call { options: self.0, procedure, packets })
        }
    }

    pub struct Call<'a> {
        options: &'a BindOptions,
        procedure: u16,
        packets: Packets,
    }

    impl<'a> Call<'a> {
        #[inline]
        pub fn arguments(&mut self) -> Writer<'_> {
            Writer::new(&mut self.packets.call, START, self.options.limit)
        }

        pub fn can_gather(&self) -> bool {
            self.options.can_gather
        }

        /// Gathers and scatters what an exchange would, in fragments of odd sizes.
        pub fn transport_gathered(
            &mut self,
            arguments: Result<usize, EncodeError>,
            mut pieces: GatherList<'_, '_>,
        ) -> Result<(), CallError> {
            let len = arguments.map_err(CallError::NotSent)?;
            let mut whole = vec![0xbb; len];
            let inline = &self.packets.call[START..][..len - pieces.borrowed_len()];
            for (index, fragment) in whole.chunks_mut(777).enumerate() {
                pieces.gather(inline, 777 * index, fragment);
            }
            self.packets.call.resize(START, 0);
            self.packets.call.extend(whole);
            let lands = self.can_gather();
            self.transport(Ok(len))?;
            let packets = &mut self.packets;
            if lands && packets.result_len >= pieces.scatter_end() {
                packets.scattered = pieces.scatter_end();
                for (index, fragment) in packets.result().chunks(1000).enumerate() {
                    pieces.scatter(1000 * index, fragment);
                }
                packets.result[START..][..packets.scattered].fill(0xcc);
            }
            Ok(())
        }

        #[inline(never)]
        pub fn transport(&mut self, arguments: Result<usize, EncodeError>) -> Result<(), CallError> {
            let Call { options, procedure, packets } = self;
            packets.call_len = arguments.map_err(CallError::NotSent)?;
            packets.scattered = 0;
            let mut writer = Writer::new(&mut packets.result, START, options.limit);
            let exported = options.exported.as_ref().expect("a bound client");
            let call = Reader::new(&packets.call[START..][..packets.call_len]);
            exported.dispatch(*procedure, call, &mut writer).map_err(CallError::Refused)?;
            packets.result_len = writer.finish().map_err(CallError::Failed)?;
            Ok(())
        }

        pub fn scattered(&self) -> Option<Reader<'_>> {
            let scattered = self.packets.scattered;
            (scattered > 0).then(|| Reader::after(self.packets.result(), scattered))
        }

        #[inline]
        pub fn reader(&self) -> Reader<'_> {
            Reader::new(self.packets.result())
        }

        #[inline]
        pub fn end<T>(&self, decoded: Result<T, DecodeError>) -> Result<T, CallError> {
            decoded.map_err(CallError::Peer)
        }
    }

    impl Drop for Call<'_> {
        fn drop(&mut self) {
            PACKETS.set(std::mem::take(&mut self.packets));
        }
    }
}

/// Options for a client of `exported`.
pub fn to(exported: impl stub::Exported) -> BindOptions {
    BindOptions { exported: Some(Arc::new(exported)), ..BindOptions::default() }
}
