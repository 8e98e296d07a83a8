//! Batches of calls: what the calls of a batch have in common is looked up once.

use super::assignment::Assignment;
use super::lane::{Age, Answer};
use super::retained::Retention;
use super::{Next, Peer, Server};
use crate::Instant;
use stoop_wire::{Header, Kind};

impl<P: Peer> Server<P> {
    /// Takes one-packet calls from the beginning of `datagrams`, each datagram `segment` bytes long, as long as they
    /// need no decision: all are of one binding, come from its host, are newer than every call of their lanes, and
    /// their lanes keep the answer to the call before. Passes each to `run` with the offset of its packet, and returns
    /// how many bytes of `datagrams` these are; the rest is for [`handle_packet`](Self::handle_packet).
    #[inline]
    pub fn take_calls(
        &mut self,
        now: Instant,
        peer: &P,
        datagrams: &[u8],
        segment: usize,
        mut run: impl FnMut(Assignment<P>, usize),
    ) -> usize {
        let Some(first) = datagrams.get(..segment).and_then(|first| Header::parse_whole(Kind::Call, first))
        else {
            return 0;
        };
        let Some(binding) = self.bindings.get_mut(first.binding).filter(|it| it.is_from(peer)) else {
            return 0;
        };
        if self.shutting_down {
            return 0;
        }
        let terms = binding.terms();
        let procedures = self.interfaces.procedure_count(usize::from(terms.interface));
        let (mut taken, mut end) = (0, 0);
        for packet in datagrams.chunks(segment) {
            let Some(header) = Header::parse_whole(Kind::Call, packet) else { break };
            if header.binding != first.binding || usize::from(header.procedure) >= procedures {
                break;
            }
            let Some(lane) = binding.lanes.get_mut(header.lane) else { break };
            if lane.on_call(Age::of(header.number, lane.number)) != Answer::Start || !lane.has_packet() {
                break;
            }
            let Some(mut assignment) = lane.begin(header.number) else { unreachable!("it has the packet") };
            assignment.begin(now, peer, &header, terms);
            run(assignment, end);
            taken += 1;
            end += packet.len();
        }
        if taken > 0 {
            binding.heard = now;
        }
        self.running += taken;
        self.counters.calls += taken as u64;
        end
    }

    /// Takes back assignments whose answers have been sent, as [`finish`](Self::finish) does. Passes to `then` each
    /// result other than [`Next::Nothing`].
    #[inline]
    pub fn finish_all(
        &mut self,
        now: Instant,
        assignments: impl IntoIterator<Item = Assignment<P>>,
        mut then: impl FnMut(Next<P>),
    ) {
        let mut assignments = assignments.into_iter();
        let mut next = assignments.next();
        while let Some(first) = next.take() {
            let rare;
            (rare, next) = self.finish_alike(first, &mut assignments);
            if let Some(assignment) = rare {
                match self.finish(now, assignment) {
                    Next::Nothing => {}
                    other => then(other),
                }
            }
        }
    }

    /// Takes back `first` and the following assignments of the same binding, as long as their answers need only be
    /// retained. Returns the assignment that needs more, and the one behind it, if there are such.
    #[inline]
    fn finish_alike(
        &mut self,
        first: Assignment<P>,
        others: &mut impl Iterator<Item = Assignment<P>>,
    ) -> (Option<Assignment<P>>, Option<Assignment<P>>) {
        let id = first.binding;
        let Some(binding) = self.bindings.get_mut(id) else { return (Some(first), others.next()) };
        let (mut finished, mut next) = (0, Some(first));
        let mut rare = None;
        while let Some(assignment) = next.take_if(|next| next.binding == id) {
            let lane = binding.lanes.get_mut(assignment.lane).expect("a lane that runs is there");
            debug_assert_eq!(lane.number, assignment.number);
            next = others.next();
            if lane.retention != Retention::Packet || assignment.is_or_was_large() || lane.parked.is_some() {
                rare = Some(assignment);
                break;
            }
            lane.end(assignment);
            finished += 1;
        }
        self.running -= finished;
        (rare, next)
    }
}
