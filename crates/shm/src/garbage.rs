//! A peer that writes anything anywhere, at any time: no call of this crate panics, touches what is not the segment's, or does
//! not return.

use crate::layout::{self, CHANNELS, LANES, LEN, LINE, SLOT};
use crate::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

/// Steps of each of the two threads that use the segment meanwhile.
const STEPS: u32 = 10_000;
/// Chunks of one message that are waited for.
const CHUNKS_MAX: u32 = 40;
/// Lanes that are used: few, so that the garbage often hits one of them.
const LANES_USED: u16 = 3;
/// Longest sleep, in nanoseconds.
const LIMIT_NS: u64 = 2_000;

/// Numbers that follow from one another (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A value for a word at which a thread looks: nothing, something near what was there, a length at a border, or anything.
    fn garbage(&mut self, before: u64) -> u64 {
        let lens = [0, 1, 32, 40, SLOT as u64, SLOT as u64 + 1, u64::from(u32::MAX)];
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => before.wrapping_add(self.below(7)).wrapping_sub(3),
            3 => before ^ 1 << self.below(64),
            4 => lens[self.below(7) as usize] | self.next() & 0x0303_0003 << 32,
            5 => self.below(64),
            _ => self.next(),
        }
    }
}

struct World {
    segment: Segment,
    /// The ticket that the server looks for.
    ticket: AtomicU64,
    ended: AtomicBool,
}

/// The peer: now and then it keeps to the protocol so far that it is heard.
fn write_garbage(world: &World, seed: u64) {
    let (segment, mut numbers) = (&world.segment, Numbers(seed));
    while !world.ended.load(Relaxed) {
        let lane = numbers.below(LANES_USED.into()) as u16;
        let ticket = world.ticket.load(Relaxed) + numbers.below(3);
        let channel = numbers.below(2 * CHANNELS as u64) as usize;
        let pipe = numbers.below(2 * u64::from(LANES_USED)) as usize;
        let at = match numbers.below(10) {
            8 => layout::pipe_writer(pipe) + 8 * numbers.below(2) as usize,
            9 => layout::pipe_reader(pipe) + 8 * numbers.below(3) as usize,
            0 => layout::filled(channel),
            1 => layout::emptied(channel),
            2 => layout::answer(lane),
            3 => layout::answer(lane) + 8 * numbers.below(LINE as u64 / 8) as usize,
            4 | 5 => layout::request(ticket) + 8 * numbers.below(4) as usize,
            6 => 8 * numbers.below(layout::request(0) as u64 / 8) as usize,
            _ => 8 * numbers.below(LEN as u64 / 8) as usize,
        };
        let word = segment.word(at);
        word.store(numbers.garbage(word.load(Relaxed)), Relaxed);
        if numbers.below(2) == 0 {
            let tag = (ticket as u32).wrapping_add(1);
            let line = segment.word(layout::request(ticket));
            line.store(u64::from(tag) | numbers.below(LANES as u64 + 1) << 32, Relaxed);
        }
        match numbers.below(16) {
            0 => segment.wake(layout::answer(lane)),
            1 => segment.wake(layout::emptied(channel)),
            2 => thread::yield_now(),
            _ => {}
        }
    }
}

/// Receives what is there of a message, which may be none.
fn receive(segment: &Segment, emptying: Option<Emptying>, message: &mut Vec<u8>) {
    let Some(mut emptying) = emptying else { return };
    for _ in 0..CHUNKS_MAX {
        match emptying.has_more(segment) {
            Ok(true) => {
                emptying.take(segment, message);
                message.clear();
            }
            Ok(false) if emptying.is_done() => return,
            Ok(false) => emptying.sleep(segment, LIMIT_NS),
            Err(Disorder) => return,
        }
    }
}

/// Sends a message as far as there is room for it. Returns where the next begins.
fn send(segment: &Segment, mut filling: Filling, bytes: &[u8]) -> u32 {
    for _ in 0..CHUNKS_MAX {
        if filling.is_done() {
            break;
        }
        if filling.has_room(segment) {
            let len = filling.next_len();
            filling.fill(segment, [&bytes[..len]]);
        } else {
            filling.sleep(segment, LIMIT_NS);
        }
    }
    if !filling.is_emptied(segment) {
        filling.forget(segment);
    }
    filling.end()
}

fn serve(world: &World, bytes: &[u8]) {
    let (segment, mut ticket, mut base, mut message) = (&world.segment, 0, 0, Vec::new());
    let mut heard = 0_u32;
    for step in 0..STEPS {
        message.clear();
        let took = Requests::take(segment, ticket);
        ticket += u64::from(took != Took::Nothing);
        world.ticket.store(ticket, Relaxed);
        attention::look_away(segment);
        attention::look(segment);
        let Took::Request(request) = took else {
            thread::yield_now();
            continue;
        };
        heard += 1;
        let len = request.len as usize;
        if len <= SLOT {
            Requests::message(segment, ticket - 1, &request, &mut message);
            assert_eq!(message.len(), len);
        } else {
            receive(segment, Emptying::new(Way::Call, request.channel, request.base, len), &mut message);
        }
        if step % 3 == 0 {
            base = send(segment, Filling::new(Way::Result, step as u8 % CHANNELS as u8, base, len), bytes);
        }
        let answer = Answer { kind: AnswerKind::Result, len: 9, word: 0, cpu: 0, channel: 0, base };
        Answers::publish(segment, request.lane, request.number, &answer, &bytes[..step as usize % SLOT]);
    }
    assert!(heard > 0, "the peer was heard now and then");
}

fn call(world: &World, bytes: &[u8]) {
    let (segment, requests, mut base, mut message) = (&world.segment, Requests::default(), 0, Vec::new());
    let mut number = 0;
    for step in 0..STEPS {
        message.clear();
        number = Answers::next_number(number);
        let lane = step as u16 % LANES_USED;
        let len = step % (SLOT as u32 + 100);
        let request = Request {
            kind: RequestKind::Call,
            lane,
            number,
            procedure: 0,
            cpu: 0,
            len,
            deadline_ns: 0,
            channel: step as u8 % CHANNELS as u8,
            base,
        };
        let ticket = requests.publish(segment, &request, &bytes[..len as usize]);
        let _ = (attention::is_asleep(segment), Requests::was_left(segment, ticket));
        if len as usize > SLOT {
            let len = (step as usize % CHUNKS_MAX as usize) * layout::CHUNK / 2;
            base = send(segment, Filling::new(Way::Call, request.channel, base, len), bytes);
        }
        for _ in 0..3 {
            if Answers::is_there(segment, lane, number) {
                break;
            }
            Answers::sleep(segment, lane, number, LIMIT_NS);
        }
        let Some(answer) = Answers::read(segment, lane) else { continue };
        let len = answer.len as usize;
        if len <= SLOT {
            Answers::message(segment, lane, &answer, &mut message);
            assert_eq!(message.len(), len);
        } else {
            receive(segment, Emptying::new(Way::Result, answer.channel, answer.base, len), &mut message);
        }
    }
    (0..LANES_USED).for_each(|lane| Answers::give_up(segment, lane));
    Filling::give_up(segment, Way::Call);
    Filling::give_up(segment, Way::Result);
    // A segment that was given up wakes every sleeper, for any bytes that the peer writes.
    for lane in (0..LANES_USED).cycle().take(1000) {
        Answers::sleep(segment, lane, number, u64::MAX);
    }
}

/// Writes into the pipes of a caller, and reads those of a server, again and again.
fn pass_items(world: &World, bytes: &[u8]) {
    let (segment, mut taken) = (&world.segment, Vec::new());
    for step in 0..STEPS {
        let (lane, way) = (step as u16 % LANES_USED, if step % 2 == 0 { Way::Call } else { Way::Result });
        let (mut writing, mut reading) = (pipe::Writing::new(way, lane), pipe::Reading::new(way, lane));
        for _ in 0..3 {
            match writing.room(segment, bytes.len()) {
                Ok(room) if room >= bytes.len() => {
                    writing.put(segment, bytes);
                    writing.publish(segment);
                }
                Ok(_) => writing.sleep().sleep(segment, LIMIT_NS, || writing.stopped(segment).is_some()),
                Err(Disorder) => break,
            }
            match reading.arrived(segment) {
                Ok(0) => reading.sleep().sleep(segment, LIMIT_NS, || reading.closed(segment) != Ok(None)),
                Ok(len) => {
                    reading.take(segment, len, &mut taken);
                    assert_eq!(taken.len(), len);
                    taken.clear();
                }
                Err(Disorder) => break,
            }
            writing.ask(segment);
            reading.ask(segment);
            reading.raise_limit(segment, writing.limit(segment));
            pipe::take_ready(segment, |lane| assert!(usize::from(lane) < LANES));
        }
        pipe::reset(segment, lane);
    }
}

#[test]
fn every_call_returns_for_any_bytes_that_a_peer_writes() {
    let (segment, _file) = Segment::create().unwrap();
    let world = &World { segment, ticket: AtomicU64::new(0), ended: AtomicBool::new(false) };
    let bytes: &Vec<u8> = &(0..layout::CHUNK).map(|n| n as u8).collect();
    thread::scope(|scope| {
        for seed in [1, 2] {
            scope.spawn(move || write_garbage(world, seed));
        }
        let server = scope.spawn(|| serve(world, bytes));
        let caller = scope.spawn(|| call(world, bytes));
        let pipes = scope.spawn(|| pass_items(world, bytes));
        let ended = [server.join(), caller.join(), pipes.join()];
        world.ended.store(true, Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}
