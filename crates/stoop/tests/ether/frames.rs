//! How many frames calls and binds are on the Ethernet, and how long: captured between two network namespaces.

mod ethernet;
mod recording;

use ethernet::on_private_ethernet;
use std::net::UdpSocket;
use stoop::BindError;
use stoop_wire::{BindingId, CallNumber, Header, Kind, LaneId};

#[stoop::interface]
trait Test {
    fn null(&self);
    fn max_result(&self, #[out] buf: &mut [u8; 1440]);
    fn max_arg(&self, buf: &[u8; 1440]);
}

struct Paper;

impl Test for Paper {
    fn null(&self) {}
    fn max_result(&self, buf: &mut [u8; 1440]) {
        buf.fill(3);
    }
    fn max_arg(&self, buf: &[u8; 1440]) {
        assert_eq!(buf, &[3; 1440]);
    }
}

mod newer {
    /// The same interface after a change, with a signature longer than a packet.
    #[stoop::interface]
    pub(crate) trait Test {
        fn null(&self, deep: Deep<Deep<Deep<u8>>>) -> Deep<Deep<Deep<u8>>>;
    }
    #[derive(stoop::Data)]
    pub(crate) struct Deep<T> {
        pub(crate) quite_a_long_name_for_a_field: T,
        pub(crate) and_one_that_is_even_longer_than_that: (T, T, T),
    }
}

mod absent {
    #[stoop::interface]
    pub(crate) trait Nowhere {
        fn null(&self);
    }
}

/// Enough that the server gives this caller a socket of its own meanwhile.
const CALLS: usize = 300;

/// No test of its own: the server's process, when it is started as such.
#[test]
fn server_process() {
    ethernet::serve_if_told_to(|| TestServer::new(Paper));
}

#[test]
fn a_null_call_is_two_frames_of_74_bytes() {
    on_private_ethernet("a_null_call_is_two_frames_of_74_bytes", |uri, recorder| {
        let client = TestClient::bind(uri).unwrap();
        recorder.take_answered();
        recorder.assert_calls(CALLS, 74, 74, || client.null().unwrap());
    });
}

#[test]
fn a_max_result_call_is_a_frame_of_74_bytes_there_and_one_of_1514_back() {
    on_private_ethernet(
        "a_max_result_call_is_a_frame_of_74_bytes_there_and_one_of_1514_back",
        |uri, recorder| {
            let client = TestClient::bind(uri).unwrap();
            recorder.take_answered();
            let mut buf = [0; 1440];
            recorder.assert_calls(CALLS, 74, 1514, || client.max_result(&mut buf).unwrap());
            assert_eq!(buf, [3; 1440]);
        },
    );
}

#[test]
fn a_max_arg_call_is_a_frame_of_1514_bytes_there_and_one_of_74_back() {
    on_private_ethernet(
        "a_max_arg_call_is_a_frame_of_1514_bytes_there_and_one_of_74_back",
        |uri, recorder| {
            let client = TestClient::bind(uri).unwrap();
            recorder.take_answered();
            recorder.assert_calls(CALLS, 1514, 74, || client.max_arg(&[3; 1440]).unwrap());
        },
    );
}

#[test]
fn a_bind_takes_two_round_trips() {
    on_private_ethernet("a_bind_takes_two_round_trips", |uri, recorder| {
        let _client = TestClient::bind(uri).unwrap();
        recorder.take().assert_steps(&[
            (Kind::Bind, false),
            (Kind::Challenge, true),
            (Kind::Bind, true),
            (Kind::BindReply, false),
        ]);
    });
}

#[test]
fn the_server_sends_no_stranger_more_bytes_than_it_received() {
    on_private_ethernet("the_server_sends_no_stranger_more_bytes_than_it_received", |uri, recorder| {
        let client = TestClient::bind(uri).unwrap();
        recorder
            .take_answered()
            .assert_no_answer_is_longer_than_its_request(&[Kind::Challenge, Kind::BindReply]);

        assert!(matches!(absent::NowhereClient::bind(uri), Err(BindError::NoSuchInterface { .. })));
        recorder
            .take_answered()
            .assert_no_answer_is_longer_than_its_request(&[Kind::Challenge, Kind::BindReply]);

        assert!(matches!(newer::TestClient::bind(uri), Err(BindError::Mismatch { .. })));
        recorder.take_answered().assert_no_answer_is_longer_than_its_request(&[
            Kind::Challenge,
            Kind::BindReply,
            Kind::Description,
        ]);

        // A call from a stranger without a binding.
        let stranger = UdpSocket::bind("0.0.0.0:0").unwrap();
        stranger.connect(uri.strip_prefix("udp://").unwrap()).unwrap();
        let call = Header::bare(Kind::Call, BindingId(77), LaneId(0), CallNumber(1));
        stranger.send(&call.to_bytes()).unwrap();
        stranger.recv(&mut [0; 2048]).unwrap();
        recorder.take_answered().assert_no_answer_is_longer_than_its_request(&[Kind::Refusal]);
        drop(client);
    });
}
