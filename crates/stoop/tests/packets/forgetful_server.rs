//! Callers over UDP, and a server that a test plays packet by packet and that forgets its bindings.

use crate::harness::LIMIT;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{CallError, Ran, RefusalCode};
use stoop_wire::bind::{BindReply, BindRequest};
use stoop_wire::{BindingId, Header, Kind};

#[stoop::interface]
trait Meter {
    /// May be run again.
    #[idempotent]
    fn read(&self) -> u32;
    /// The same, with as many bytes as the caller likes.
    #[idempotent]
    fn weigh(&self, bytes: &[u8]) -> u32;
}

/// The server's treatment of calls on the second binding.
#[derive(Clone, Copy, Debug)]
enum Second {
    RefusesTheCall,
    KnowsNothingAgain,
    AnswersNoBind,
    /// It knows no binding, and says of each call that it has it.
    TakesAndForgets,
    /// It says that it has the call, and nothing more.
    IsSilent,
}

/// A server that takes each call on its first binding, says so, and then does not know the binding any more. Tells also how many calls it
/// has taken there.
fn forgetful_server(second: Second) -> (String, Arc<AtomicU32>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("udp://{}", socket.local_addr().unwrap());
    let taken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&taken);
    thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok((len, peer)) = socket.recv_from(&mut packet) {
            let Ok((header, payload)) = Header::parse(&packet[..len]) else { continue };
            serve(&socket, peer, &header, payload, second, &count);
        }
    });
    (uri, taken)
}

const FIRST: BindingId = BindingId(0x1111);
const LATER: BindingId = BindingId(0x2222);

fn serve(
    socket: &UdpSocket,
    peer: SocketAddr,
    header: &Header,
    payload: &[u8],
    second: Second,
    taken: &AtomicU32,
) {
    let send = |header: &Header, payload: &[u8]| {
        socket.send_to(&[&header.to_bytes()[..], payload].concat(), peer).unwrap();
    };
    let is_first = taken.load(Ordering::SeqCst) == 0;
    match header.kind {
        Kind::Bind if is_first || !matches!(second, Second::AnswersNoBind) => {
            let request = BindRequest::decode(payload).unwrap();
            let incarnation = if is_first { 1 } else { 2 };
            let payload = BindReply { incarnation, ..BindReply::granting(&request) }.encode();
            let binding = if is_first { FIRST } else { LATER };
            let reply =
                Header { kind: Kind::BindReply, binding, message_len: payload.len() as u32, ..*header };
            send(&reply, &payload);
        }
        Kind::Call if header.binding == FIRST => {
            taken.fetch_add(1, Ordering::SeqCst);
            send(&Header::bare(Kind::Acknowledgement, FIRST, header.lane, header.number), &[]);
            send(&header.unknown_binding(2, 0), &[]);
        }
        Kind::Call => match second {
            Second::RefusesTheCall => {
                let refusal = Header::bare(Kind::Refusal, LATER, header.lane, header.number);
                send(&Header { time: RefusalCode::Overloaded.code(), ..refusal }, &[]);
            }
            Second::TakesAndForgets => {
                taken.fetch_add(1, Ordering::SeqCst);
                send(&Header::bare(Kind::Acknowledgement, LATER, header.lane, header.number), &[]);
                send(&header.unknown_binding(3, 0), &[]);
            }
            Second::IsSilent => {
                taken.fetch_add(1, Ordering::SeqCst);
                send(&Header::bare(Kind::Acknowledgement, LATER, header.lane, header.number), &[]);
            }
            _ => send(&header.unknown_binding(3, 0), &[]),
        },
        _ => {}
    }
}

fn assert_outcome_is_unknown(second: Second, call: impl Fn(&MeterClient) -> CallError) {
    let mut timeout = Duration::from_millis(100);
    loop {
        // Anew for each call: what was taken is this one.
        let (uri, taken) = forgetful_server(second);
        let client = MeterClient::bind(&uri).unwrap();
        let error = call(&client.with_timeout(timeout));
        if taken.load(Ordering::SeqCst) > 0 {
            assert_eq!(error.ran(), Ran::Perhaps, "{second:?}: {error}");
            return;
        }
        // A busy machine has kept it from leaving in time.
        timeout *= 2;
    }
}

#[test]
fn a_call_that_a_server_had_before_it_forgot_never_says_that_it_has_not_run() {
    for second in [Second::RefusesTheCall, Second::KnowsNothingAgain, Second::AnswersNoBind] {
        assert_outcome_is_unknown(second, |client| client.read().unwrap_err());
        assert_outcome_is_unknown(second, |client| client.begin().read().wait().unwrap_err());
        assert_outcome_is_unknown(second, |client| client.weigh(&[1; 1000]).unwrap_err());
    }
}

/// How often a call says that it was sent, and how often the server has had it.
fn sent_and_taken(second: Second, timeout: Duration, call: impl Fn(&MeterClient) -> CallError) -> (u32, u32) {
    let (uri, taken) = forgetful_server(second);
    let error = call(&MeterClient::bind(&uri).unwrap().with_timeout(timeout));
    let CallError::Unknown { transmissions, waited, .. } = error else { panic!("{error}") };
    assert!(waited >= timeout || !matches!(second, Second::IsSilent), "{error}");
    (transmissions, taken.load(Ordering::SeqCst))
}

#[test]
fn an_idempotent_call_runs_on_three_sessions_at_most_however_often_its_server_forgets() {
    let calls: [fn(&MeterClient) -> CallError; 3] = [
        |client| client.read().unwrap_err(),
        |client| client.begin().read().wait().unwrap_err(),
        |client| client.begin().weigh(&[1; 1000]).wait().unwrap_err(),
    ];
    for call in calls {
        let (sent, taken) = sent_and_taken(Second::TakesAndForgets, LIMIT, call);
        // A busy machine makes it send again.
        assert!((3..100).contains(&taken) && sent >= 3, "sent {sent} times, taken {taken} times");
    }
}

#[test]
fn an_error_counts_the_transmissions_and_the_time_of_all_attempts() {
    let timeout = Duration::from_millis(300);
    let calls: [fn(&MeterClient) -> CallError; 2] =
        [|client| client.read().unwrap_err(), |client| client.begin().read().wait().unwrap_err()];
    for call in calls {
        let (sent, taken) = sent_and_taken(Second::IsSilent, timeout, call);
        assert!(sent >= taken, "sent {sent} times, taken {taken} times");
    }
}
