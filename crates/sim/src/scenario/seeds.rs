//! Which scenario a seed stands for.

use super::{Scenario, micros, millis};
use crate::{Faults, Line, Random};
use core::time::Duration;
use stoop_exchange::outcome::PACKET_LIFE;
use stoop_exchange::server::Limits;

impl Scenario {
    /// The scenario of a seed. Every fault is absent in many of them, so that the others are met alone as well.
    pub fn from_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x7363_656e_6172_696f);
        let mut scenario = Self {
            callers: 1 + random.below(3) as usize,
            threads: 1 + random.below(4) as usize,
            calls: 1 + random.below(30) as u32,
            think: (Duration::ZERO, random.pick(&[micros(1), micros(500), millis(20)])),
            nap: random.pick(&[0, 0, 20, 100]),
            deadline: random.pick(&[
                (millis(1), millis(40)),
                (millis(20), millis(900)),
                (millis(500), millis(6_000)),
                (millis(8_000), millis(30_000)),
            ]),
            instant: random.pick(&[0, 300, 900, 1000]),
            work: random.pick(&[
                (micros(1), micros(300)),
                (micros(100), millis(30)),
                (millis(1), millis(700)),
                (millis(300), millis(9_000)),
            ]),
            panics: random.pick(&[0, 0, 100]),
            bad_arguments: random.pick(&[0, 0, 100]),
            long: 20,
            idempotent: random.pick(&[0, 0, 200]),
            procedures: random.pick(&[1, 2, 3, 3, 3, 3, 3, 150]),
            retires_lanes: random.chance(500),
            silence_limit: random.pick(&[millis(300), millis(2_000)]),
            faults: Self::faults_from(random),
            workers: 1 + random.below(4) as usize,
            queue: random.pick(&[0, 1, 2, 16]),
            limits: Limits {
                bindings: random.pick(&[1, 3, 65_536, 65_536]),
                lanes: random.pick(&[1, 4, 1024, 1024, 1024, 1024]),
                packets: random.pick(&[0, 1, 3, 100_000, 100_000, 100_000, 100_000, 100_000]),
                silence: random.pick(&[
                    millis(30),
                    millis(200),
                    millis(1_000),
                    millis(5_000),
                    millis(600_000),
                ]),
                ..Limits::default()
            },
            kind: false,
            ..Self::calm()
        };
        scenario.lives_from(random);
        if random.chance(150) {
            scenario.be_kind();
        }
        scenario.unbinds = random.pick(&[0, 1000]);
        scenario.clocks_from(&mut Random::new(seed ^ 0x0063_6c6f_636b));
        scenario.later_from(&mut Random::new(seed ^ 0x006c_6174_6572));
        scenario.revisions = Random::new(seed ^ 0x7265_7669_7365).pick(&[0, 0, 1, 3]);
        scenario
    }

    /// The scenario of a seed in which messages are long, lines have rates, and a network may do what it never does in
    /// [`from_seed`](Self::from_seed).
    pub fn large_from_seed(seed: u64) -> Self {
        let mut scenario = Self::from_seed(seed);
        scenario.enlarge(&mut Random::new(seed ^ 0x006c_6172_6765));
        scenario
    }

    /// The scenario of a seed in which bindings are sealed, and an attacker is on the way.
    pub fn sealed_from_seed(seed: u64) -> Self {
        let mut scenario = Self::from_seed(seed);
        // A full packet would be two.
        (scenario.long, scenario.kind, scenario.sealed) = (0, false, true);
        let mut random = Random::new(seed ^ 0x7365_616c_6564);
        scenario.attacks = random.pick(&[0, 50, 300, 1000]);
        scenario.phases = random.pick(&[0, 100, 1000]);
        scenario.bundles = random.pick(&[0, 300, 700]);
        scenario
    }

    fn enlarge(&mut self, random: &mut Random) {
        // Lines and sockets go by the time of the world, and packets wait in them for long.
        (self.rates, self.stops, self.wanders) = (Vec::new(), None, None);
        self.packet_life = PACKET_LIFE;
        self.threads = random.pick(&[1, 2, 4, 12]);
        self.calls = 1 + random.below(6) as u32;
        self.callers = self.callers.min(2);
        if self.kind {
            self.queue = self.callers * self.threads;
            self.moves = self.moves.map(|_| (millis(2_000), millis(5_000)));
        }
        self.deadline = match self.kind {
            true => (millis(600_000), millis(900_000)),
            false => random.pick(&[self.deadline, (millis(500), millis(20_000))]),
        };
        let longest = [0, 1440, 4_000, 60_000, 400_000];
        self.arguments = (0, random.pick(&longest));
        self.results = (0, random.pick(&longest));
        self.cancels = random.pick(&[0, 0, 200, 600]);
        self.heeds_cancels = random.pick(&[0, 500, 1000]);
        self.shares_window = random.chance(700);
        self.faults.corruption = random.pick(&[0, 0, 10, 100]);
        self.faults.checksums = self.kind || random.chance(700);
        if !self.kind && random.chance(150) {
            // A link that dies for seconds and comes back.
            let between = random.between((millis(200), millis(4_000)));
            self.faults.partitions = Some((between, random.between((millis(500), millis(5_000)))));
        }
        self.faults.there = Self::line_from(random);
        self.faults.back = Self::line_from(random);
        let slow = [Duration::ZERO, Duration::ZERO, micros(2), micros(50), micros(500)];
        self.server_drain = random.pick(&slow);
        self.caller_drain = random.pick(&slow);
        let buffers = [16 * 1024, 64 * 1024, 212_992, 4 << 20];
        self.server_buffer = random.pick(&buffers);
        self.caller_buffer = random.pick(&buffers);
        self.limits_from(random);
    }

    /// Bounds of the server's memory for long messages, at times hardly enough for one.
    fn limits_from(&mut self, random: &mut Random) {
        self.longest_result = if self.kind { 1 << 20 } else { random.pick(&[1440, 50_000, 1 << 20]) };
        self.limits.max_message = if self.kind { 1 << 20 } else { random.pick(&[1440, 50_000, 1 << 20]) };
        self.limits.window = (self.server_buffer / 2) as u32;
        self.limits.patience = random.pick(&[millis(200), millis(2_000), millis(10_000)]);
        if !self.kind {
            self.limits.incomplete = random.pick(&[10_000, 100_000, 2 << 20, 256 << 20]);
            self.limits.retained = random.pick(&[0, 100_000, 2 << 20, 256 << 20]);
        } else {
            self.limits.patience = millis(60_000);
            self.limits.silence = self.limits.silence.max(millis(60_000));
        }
    }

    /// A line of some rate and queue, whose largest datagram changes.
    fn line_from(random: &mut Random) -> Line {
        let mut line =
            match random.pick(&[None, None, Some(10_000_000), Some(100_000_000), Some(1_000_000_000)]) {
                None => Line::wide(),
                Some(rate) => Line::with_rate(rate, random.pick(&[3_000, 15_000, 64_000, 1_000_000])),
            };
        let ethernet = 1472;
        line.largest = random
            .pick::<&[usize]>(&[
                &[ethernet],
                &[usize::MAX],
                &[8972],
                &[8972, ethernet],
                &[ethernet, 4052, 65_507],
            ])
            .to_vec();
        line.largest_lasts = random.between((millis(5), millis(2_000)));
        line
    }

    /// Removes the events that can keep a call from its result (crashes, deadlines); keeps those that only delay it (loss).
    fn be_kind(&mut self) {
        self.faults.loss = self.faults.loss.min(100);
        self.faults.partitions = None;
        (self.server_up, self.caller_up) = (None, None);
        let (often, far) = (millis(500), self.faults.delay.1 > millis(3));
        self.moves = self.moves.filter(|_| !far).map(|(_, most)| (often, most.max(often)));
        (self.panics, self.bad_arguments) = (0, 0);
        self.deadline = (millis(8_000), millis(30_000));
        self.work.1 = self.work.1.min(millis(30));
        self.work.0 = self.work.0.min(self.work.1);
        self.queue = 16;
        self.limits = Limits {
            bindings: 64,
            lanes: 1024,
            packets: 1000,
            silence: self.limits.silence.max(millis(5_000)),
            ..Limits::default()
        };
        self.silence_limit = millis(2_000);
        self.kind = true;
    }

    fn lives_from(&mut self, random: &mut Random) {
        let spans = [(millis(1), millis(60)), (millis(20), millis(900)), (millis(500), millis(5_000))];
        let mut perhaps = |per_mille| random.chance(per_mille).then(|| random.pick(&spans));
        self.server_up = perhaps(400);
        self.caller_up = perhaps(250);
        self.moves = perhaps(250).map(|(least, most)| (least.max(millis(10)), most.max(millis(60))));
        self.shut_downs = random.pick(&[0, 300, 1000]);
        self.server_down = random.pick(&[(micros(1), millis(1)), (millis(1), millis(300))]);
        self.port_closed = random.chance(300);
    }

    /// Answers that come later than their procedures return.
    fn later_from(&mut self, random: &mut Random) {
        self.later = random.pick(&[0, 0, 0, 300, 1000]);
        self.reply_after =
            random.pick(&[(micros(1), micros(300)), (micros(100), millis(30)), (millis(1), millis(3_000))]);
        self.replies_lost = random.pick(&[0, 0, 100]);
        if self.kind {
            self.reply_after.1 = self.reply_after.1.min(millis(30));
            self.replies_lost = 0;
        }
    }

    /// Clocks that drift by up to an eighth, machines that stop, an address that wanders, packets that live for less long.
    fn clocks_from(&mut self, random: &mut Random) {
        self.one_machine = random.chance(300);
        if self.kind {
            // Elsewhere a call that needs more than one transmission, after a release, is of unknown outcome.
            self.limits.silence = if self.one_machine { self.limits.silence } else { millis(600_000) };
            return;
        }
        self.packet_life = random.pick(&[millis(50), millis(2_000), millis(60_000), millis(60_000)]);
        if random.chance(300) {
            let all_but_equal = [1024, 1023, 1025, 1024 - 128, 1024 + 128];
            self.rates = (0..=self.callers).map(|_| random.pick(&all_but_equal)).collect();
        }
        if random.chance(200) {
            let (between, lasts) = random.pick(&[
                ((millis(5), millis(60)), (millis(1), millis(100))),
                ((millis(60), millis(2_000)), (millis(100), millis(5_000))),
                ((millis(1_000), millis(30_000)), (millis(60_000), millis(700_000))),
            ]);
            (self.stops, self.stop_lasts) = (Some(between), lasts);
            // There are not hosts enough for all moves of so long a time.
            self.moves = self.moves.filter(|_| lasts.1 < millis(60_000));
        }
        if random.chance(100) && !self.one_machine {
            self.wanders = Some(random.pick(&[(millis(1), millis(60)), (millis(100), millis(3_000))]));
            // No network delivers copies of one packet to two servers that are both alive.
            (self.faults.duplicate, self.faults.late_duplicate) = (0, 0);
        }
        if random.chance(200) {
            self.limits.silence = random.pick(&[millis(80), millis(3_000), millis(70_000)]);
        }
    }

    fn faults_from(random: &mut Random) -> Faults {
        let mut faults = Faults::none();
        faults.delay = random.pick(&[
            (micros(10), micros(30)),
            (micros(10), micros(3_000)),
            (millis(1), millis(80)),
            (millis(40), millis(41)),
        ]);
        faults.loss = random.pick(&[0, 0, 10, 100, 300]);
        faults.duplicate = random.pick(&[0, 0, 50, 400]);
        faults.late_duplicate = random.pick(&[0, 0, 50, 300]);
        faults.how_late = random.pick(&[
            (millis(1), millis(100)),
            (millis(10), millis(2_000)),
            (millis(100), millis(30_000)),
        ]);
        faults.straggler = random.pick(&[0, 0, 20, 200]);
        faults.partitions = random.chance(150).then(|| {
            let between = random.between((millis(20), millis(800)));
            (between, random.between((millis(5), millis(400))))
        });
        faults
    }
}
