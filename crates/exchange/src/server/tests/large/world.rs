//! A caller's lane and a server with a network between them.

use super::*;

/// A lane, the server, and a network between them that loses chosen packets.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) server: Server<Host>,
    pub(super) lane: Lane,
    pub(super) path: Path,
    pub(super) arguments: Vec<u8>,
    pub(super) result: Vec<u8>,
    pub(super) running: Option<Assignment<Host>>,
    /// Packets so far, and which of them are lost.
    pub(super) sent: u32,
    pub(super) lost: fn(u32) -> bool,
    pub(super) ended: Option<Heard>,
}

pub(super) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ seed).collect()
}

impl World {
    pub(super) fn new(lost: fn(u32) -> bool) -> Self {
        let (server, binding) = bound();
        let mut path = RoundTrip::default();
        (0..20).for_each(|_| path.sample(Duration::from_micros(50)));
        let lane = Lane::new(binding, LaneId(0), path, 1);
        Self {
            now: at(10),
            server,
            lane,
            path: Path::new(1440, path, 1),
            arguments: Vec::new(),
            result: Vec::new(),
            running: None,
            sent: 0,
            lost,
            ended: None,
        }
    }

    pub(super) fn arrives(&mut self) -> bool {
        self.sent += 1;
        !(self.lost)(self.sent)
    }

    pub(super) fn reach_server(&mut self, packet: &[u8]) {
        if self.arrives() {
            self.give_server(packet);
        }
    }

    /// Passes on packets that arrive together, except the lost ones.
    pub(super) fn reach_server_together(&mut self, packets: &[u8], segment: usize) {
        let arrived: Vec<&[u8]> = packets.chunks(segment).filter(|_| self.arrives()).collect();
        let arrived = arrived.concat();
        let mut rest = &arrived[..];
        while !rest.is_empty() {
            rest = &rest[self.server.take_parts(self.now, CALLER, rest, segment, |_| {})..];
            let (packet, behind) = rest.split_at(segment.min(rest.len()));
            rest = behind;
            if !packet.is_empty() {
                self.give_server(packet);
            }
        }
    }

    pub(super) fn reach_caller_together(&mut self, packets: &[u8], segment: usize) {
        let arrived: Vec<&[u8]> = packets.chunks(segment).filter(|_| self.arrives()).collect();
        let arrived = arrived.concat();
        let mut rest = &arrived[..];
        while !rest.is_empty() {
            if let Some(span) = self.lane.take_parts(self.now, rest, segment) {
                span.copy_to(&mut self.result[span.offset..], rest, |_| {});
                rest = &rest[span.datagrams_len()..];
                continue;
            }
            let (packet, behind) = rest.split_at(segment.min(rest.len()));
            rest = behind;
            self.give_caller(packet);
        }
    }

    pub(super) fn give_server(&mut self, packet: &[u8]) {
        let mut reply = Vec::new();
        match self.server.handle_packet(self.now, &CALLER, packet, &mut reply) {
            Effect::Run(assignment) => {
                assert!(self.running.is_none(), "run twice");
                self.running = Some(assignment);
            }
            Effect::Reply | Effect::Cancelled(..) => self.reach_caller(&reply),
            Effect::Transmit | Effect::Pipe(..) | Effect::Unbound(_) | Effect::Nothing => {}
        }
    }

    pub(super) fn reach_caller(&mut self, packet: &[u8]) {
        if self.arrives() {
            self.give_caller(packet);
        }
    }

    pub(super) fn give_caller(&mut self, packet: &[u8]) {
        match self.lane.handle_packet(self.now, packet) {
            Heard::Part(part) => {
                self.result.resize(part.message_len, 0);
                self.result[part.offset..part.offset + part.len]
                    .copy_from_slice(&packet[HEADER_LEN..HEADER_LEN + part.len]);
                if part.complete {
                    self.ended = Some(Heard::Part(part));
                }
            }
            Heard::Receipt => self.lane.take_receipt(self.now, packet, &mut self.path),
            Heard::Progress | Heard::Ignored => {}
            ended => {
                if let Heard::Result { len, .. } = ended {
                    self.result = packet[HEADER_LEN..HEADER_LEN + len].to_vec();
                }
                self.ended = Some(ended);
            }
        }
    }

    pub(super) fn begin(&mut self, len: usize) {
        self.arguments = bytes(len, 3);
        self.ended = None;
        let (now, deadline) = (self.now, self.now + Duration::from_secs(20));
        if len > stoop_wire::PACKET_DATA {
            self.lane.start_large(now, deadline, 0, len as u32, 64 << 10);
        } else {
            let mut packet = [&[0; HEADER_LEN][..], &self.arguments].concat();
            self.lane.start(now, deadline, 0, &mut packet);
            self.reach_server(&packet);
        }
    }

    /// Sends everything that can be sent now.
    pub(super) fn send(&mut self) {
        while let Some(run) = self.lane.next_run(self.now, &mut self.path, 65_000) {
            let framing = self.lane.framing(self.now);
            let mut packets = Vec::new();
            for (i, at) in (run.offset..run.offset + run.len).step_by(run.fragment as usize).enumerate() {
                let mut header = [0; HEADER_LEN];
                let end = (at + run.fragment).min(run.offset + run.len);
                framing.stamp(&mut header, (at, end - at), run.transmission + i as u32);
                packets.extend_from_slice(&header);
                packets.extend_from_slice(&self.arguments[at as usize..end as usize]);
            }
            self.reach_server_together(&packets, HEADER_LEN + run.fragment as usize);
        }
        if self.lane.owes_receipt(true) {
            let mut packet = [0; stoop_wire::Receipt::MAX_PACKET];
            let len = self.lane.receipt(self.now, 64 << 10, &mut packet);
            self.reach_server(&packet[..len]);
        }
        self.server.drained();
        let mut out = Vec::new();
        while let Some(transmission) = self.server.next_transmission(self.now, 65_000, &mut out) {
            self.reach_caller_together(&out, transmission.segment);
        }
    }

    /// Advances time by one step.
    pub(super) fn step(&mut self) {
        self.send();
        self.now = self.now + Duration::from_millis(1);
        self.server.handle_timeout(self.now);
        match self.lane.handle_timeout(self.now, &mut [0; HEADER_LEN + 1440]) {
            Due::Nothing => {}
            Due::Resume => self.lane.resume(self.now, &mut self.path),
            Due::Probe(packet) | Due::Cancel(packet) => self.reach_server(&packet),
            Due::Receipt => {
                let mut packet = [0; stoop_wire::Receipt::MAX_PACKET];
                let len = self.lane.receipt(self.now, 64 << 10, &mut packet);
                self.reach_server(&packet[..len]);
            }
            due => panic!("{due:?}"),
        }
    }

    pub(super) fn until_run(&mut self) -> Assignment<Host> {
        for _ in 0..5_000 {
            self.step();
            if let Some(running) = self.running.take() {
                return running;
            }
        }
        panic!("the call never arrives");
    }

    pub(super) fn answer(&mut self, mut assignment: Assignment<Host>, len: usize) {
        let packet = assignment.packet_mut();
        packet.resize((HEADER_LEN + len).max(packet.len()), 0);
        packet[HEADER_LEN..HEADER_LEN + len].copy_from_slice(&bytes(len, 9));
        let answer = assignment.complete(self.now, len).to_vec();
        let is_large = assignment.is_large();
        assert!(matches!(self.server.finish(self.now, assignment), Next::Nothing));
        if !is_large {
            self.reach_caller(&answer);
        }
    }

    pub(super) fn until_ended(&mut self) -> Heard {
        for _ in 0..15_000 {
            self.step();
            if let Some(ended) = self.ended.take() {
                self.send();
                self.lane.settle(&mut self.path);
                return ended;
            }
        }
        panic!("the call never ends");
    }

    pub(super) fn call(&mut self, arguments: usize, result: usize) {
        self.begin(arguments);
        let mut running = self.until_run();
        if arguments > stoop_wire::PACKET_DATA {
            assert!(
                running.arguments_and_result(&[]).0 == self.arguments,
                "the arguments are what they were"
            );
        }
        self.answer(running, result);
        self.until_ended();
        assert!(self.result == bytes(result, 9), "the result is what it was");
    }
}
