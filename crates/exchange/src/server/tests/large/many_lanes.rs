//! Many lanes of one binding whose results have many packets: they share a path to their caller.

use super::*;
use crate::bulk::Incoming;

const LANES: u16 = 300;
const RESULT: usize = 20 * KIB;

/// Bytes of each result that the caller has.
struct Receiver {
    incoming: Vec<Incoming>,
    receipts: u32,
}

impl Receiver {
    /// Takes datagrams of one lane, and sends a receipt. Returns how many lanes may then send.
    fn take(&mut self, server: &mut Server<Host>, now: Instant, datagrams: &[u8], segment: usize) -> usize {
        let (header, _) = Header::parse(&datagrams[..segment.min(datagrams.len())]).unwrap();
        let incoming = &mut self.incoming[usize::from(header.lane.0)];
        for packet in datagrams.chunks(segment) {
            let (header, payload) = Header::parse(packet).unwrap();
            let number = (header.offset > 0).then_some(header.time);
            incoming.take(now, header.offset, payload.len() as u32, number);
        }
        let receipt = incoming.receipt(now, 64 << 10);
        self.receipts += 1;
        let mut packet = [0; stoop_wire::Receipt::MAX_PACKET];
        let about = Header::bare(Kind::Receipt, header.binding, header.lane, header.number);
        let len = crate::bulk::put_receipt(&receipt, about, self.receipts, &mut packet);
        server.handle_packet(now, &CALLER, &packet[..len], &mut Vec::new());
        server.agenda.ready.len()
    }
}

#[test]
fn a_receipt_lets_no_more_lanes_try_than_the_window_has_space_for() {
    let (mut server, binding) = bound();
    for lane in 0..LANES {
        let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
        header.time = 10_000_000;
        let arrival = server.handle_packet(at(1), &CALLER, &header.to_bytes(), &mut Vec::new());
        let Effect::Run(mut running) = arrival else { panic!("not run") };
        running.packet_mut().resize(HEADER_LEN + RESULT, 7);
        let _ = running.complete(at(1), RESULT);
        assert!(matches!(server.finish(at(1), running), Next::Nothing));
    }
    let incoming = (0..LANES).map(|_| Incoming::new(RESULT as u32)).collect();
    let mut receiver = Receiver { incoming, receipts: 0 };
    let mut out = Vec::new();
    let mut under_way = alloc::collections::VecDeque::new();
    let mut steps = 0;
    while receiver.incoming.iter().any(|incoming| !incoming.is_complete()) {
        while let Some(next) = server.next_transmission(at(2), 65_000, &mut out) {
            under_way.push_back((out.clone(), next.segment));
        }
        let (datagrams, segment) = under_way.pop_front().expect("each waiting lane gets its turn");
        let before = server.agenda.ready.len();
        let trying = receiver.take(&mut server, at(2), &datagrams, segment);
        let room = server.bindings.get_mut(binding).unwrap().path.as_ref().unwrap().room();
        assert!(trying <= before + room + 2, "{trying} lanes try, with room for {room} packets");
        steps += 1;
    }
    assert!(steps < 20 * usize::from(LANES), "{steps}");
    while server.next_transmission(at(2), 65_000, &mut out).is_some() {}
    assert!(!server.is_sending(), "all have been delivered");
    assert_eq!(
        server.bindings.get_mut(binding).unwrap().waiting.as_ref().map_or(0, |waiting| waiting.len()),
        0
    );
    server.bytes_held();
}
