//! Worlds of more calls than the servers can do, from callers that keep to credits and send refused calls again.

use super::{Scenario, micros, millis};
use crate::Random;
use core::time::Duration;

/// Bytes that the runtime counts for a packet in a receive buffer.
const PACKET_IN_BUFFER: usize = 2304;

impl Scenario {
    /// The scenario of a seed in which callers have many calls at a time, keep to the credits that they are granted, send refused calls
    /// again, and go from a server that shuts down to the next. The network and the clocks may do what they do in
    /// [`from_seed`](Self::from_seed).
    pub fn load_from_seed(seed: u64) -> Self {
        let mut scenario = Self::from_seed(seed);
        scenario.load(&mut Random::new(seed ^ 0x6c6f_6164));
        let random = &mut Random::new(seed ^ 0x6c61_7465);
        if !scenario.kind && random.chance(100) {
            scenario.delay_grants(random);
        }
        scenario
    }

    /// Results come so late that the server reserves the credit no more which they grant: the server grants it when the call arrives, and
    /// procedures take up to twice as long as it reserves it. Others return at once, so that calls leave all the time.
    fn delay_grants(&mut self, random: &mut Random) {
        (self.threads, self.calls) = (random.pick(&[40, 120]), 8);
        self.work = random.pick(&[(millis(100), millis(2_500)), (millis(1_000), millis(4_000))]);
        (self.instant, self.think) = (random.pick(&[500, 900]), (Duration::ZERO, millis(200)));
        self.deadline = (millis(8_000), millis(30_000));
        (self.workers, self.queue) = (random.pick(&[16, 200]), 200);
        self.limits.calls = random.pick(&[92, 1000]);
        self.server_buffer = self.limits.calls as usize * PACKET_IN_BUFFER;
        (self.limits.lanes, self.caller_buffer) = (1024, 212_992);
        (self.server_up, self.caller_up) = (None, None);
    }

    fn load(&mut self, random: &mut Random) {
        (self.credits, self.follows) = (true, true);
        self.threads = random.pick(&[3, 10, 40, 120]);
        self.calls = 1 + random.below(8) as u32;
        self.places = if self.wanders.is_some() { 1 } else { random.pick(&[1, 2, 2]) };
        self.limits.lanes = random.pick(&[4, 1024, 1024, 1024, 1024, 1024, 1024, 1024]);
        self.buffers_from(random);
        self.cancels = random.pick(&[0, 0, 0, 200]);
        if self.kind {
            return self.be_enough();
        }
        self.queue = random.pick(&[0, 2, 16, 100]);
        if random.chance(600) {
            // Shutdowns are what this is about.
            self.server_up = Some(random.pick(&[(millis(1), millis(60)), (millis(20), millis(900))]));
            self.shut_downs = random.pick(&[300, 800, 1000]);
        }
    }

    /// A server's socket that holds some packets, of which its callers get credits, and a server that takes its time for each.
    fn buffers_from(&mut self, random: &mut Random) {
        let packets = random.pick(&[4, 16, 92, 1000]);
        self.limits.calls = packets;
        self.server_buffer = packets as usize * PACKET_IN_BUFFER;
        self.caller_buffer = random.pick(&[2 * PACKET_IN_BUFFER, 212_992, 212_992]);
        self.server_drain = random.pick(&[Duration::ZERO, micros(2), micros(50), micros(300)]);
    }

    /// The server has memory enough for all calls, and the callers time enough: where packets are lost, few calls are under way.
    fn be_enough(&mut self) {
        self.deadline = (millis(600_000), millis(900_000));
        self.limits.silence = self.limits.silence.max(millis(60_000));
        self.queue = self.callers * self.threads;
        self.limits.lanes = 1024;
        self.limits.packets = 100_000;
        self.work.1 = self.work.1.min(micros(300));
        self.work.0 = self.work.0.min(self.work.1);
        self.moves = self.moves.map(|_| (millis(2_000), millis(5_000)));
    }
}
