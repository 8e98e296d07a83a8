//! The points on the path of one call, from one process to the other and back.

use super::measure::{Call, Slice};
use stoop_probe::{Point, Stamp};

/// The points that every call of an account passes one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallPath(pub(super) Vec<Point>);

impl CallPath {
    /// Where both ends run at the same time, the return from `send` is beside the path: the other end goes on meanwhile.
    pub(super) fn new(one_processor: bool) -> Self {
        Self::without(if one_processor { &[] } else { &[Point::CallLeft, Point::ResultLeft] })
    }

    fn without(beside: &[Point]) -> Self {
        Self(Point::ALL.into_iter().filter(|point| !beside.contains(point)).collect())
    }

    /// The path with the most points of those that at least half of the calls of a slice have taken. On one processor the kernel may switch
    /// to the receiver before `send` returns to the sender, on the way there, on the way back, or on both.
    pub(super) fn most_taken(one_processor: bool, slice: &Slice) -> Self {
        let shortest = Self::new(false);
        let half = shortest.calls(slice).len().div_ceil(2);
        let longer: &[&[Point]] = &[&[], &[Point::ResultLeft], &[Point::CallLeft]];
        let mut longer = longer.iter().map(|beside| Self::without(beside)).filter(|_| one_processor);
        longer.find(|path| path.calls(slice).len() >= half).unwrap_or(shortest)
    }

    /// The complete calls of a slice.
    pub(super) fn calls(&self, slice: &Slice) -> Vec<Call> {
        let mut rest = &slice.stamps[..];
        let calls = slice.times.windows(2).filter_map(|ends| {
            let first = rest.partition_point(|stamp| stamp.cycles < ends[0]);
            let len = rest[first..].partition_point(|stamp| stamp.cycles < ends[1]);
            let (call, behind) = rest[first..].split_at(len);
            rest = behind;
            self.times_of(call, ends[0], ends[1])
        });
        calls.collect()
    }

    /// The times of a call, if it has passed each point, in order, and each but the receipt of packets once.
    fn times_of(&self, stamps: &[Stamp], begun: u64, ended: u64) -> Option<Call> {
        let mut times = Vec::with_capacity(self.0.len() + 2);
        times.push(begun);
        for &point in &self.0 {
            let mut passings = stamps.iter().filter(|stamp| stamp.point == point);
            let last = passings.next_back()?;
            // A thread may receive a packet that brings nothing before the one that it waits for.
            let may_repeat = matches!(point, Point::CallSeen | Point::ResultSeen);
            if !may_repeat && passings.next().is_some() {
                return None;
            }
            times.push(last.cycles);
        }
        times.push(ended);
        times.is_sorted().then_some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::clock::{Axis, Moment};

    fn slice(times: &[u64], stamps: &[(Point, u64)]) -> Slice {
        let moment = |cycles| Moment { cycles, raw_ns: cycles };
        let stamps = stamps.iter().map(|&(point, cycles)| Stamp { thread: 0, point, cycles });
        Slice {
            times: times.to_vec(),
            stamps: stamps.collect(),
            passings: Vec::new(),
            axis: Axis { from: moment(0), to: moment(1000) },
        }
    }

    /// All points of a path, a cycle apart, from `from` on.
    fn passed(path: &CallPath, from: u64) -> Vec<(Point, u64)> {
        path.0.iter().copied().zip(from..).collect()
    }

    #[test]
    fn a_call_that_misses_a_point_or_repeats_one_does_not_count() {
        let path = CallPath::new(false);
        let mut stamps = passed(&path, 101);
        stamps.extend(passed(&path, 201).into_iter().skip(1));
        stamps.extend(passed(&path, 301));
        stamps.push((Point::StubEnded, 399));
        let calls = path.calls(&slice(&[100, 200, 300, 400], &stamps));
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0][0], calls[0][1], calls[0].last()), (100, 101, Some(&200)));
    }

    #[test]
    fn the_last_packet_seen_is_the_one_that_counts() {
        let path = CallPath::new(false);
        let mut stamps = passed(&path, 150);
        stamps.insert(4, (Point::CallSeen, 120));
        stamps.sort_by_key(|stamp| stamp.1);
        let calls = path.calls(&slice(&[100, 200], &stamps));
        let seen = path.0.iter().position(|&point| point == Point::CallSeen).expect("it is on every path");
        assert_eq!(calls[0][1 + seen], 150 + seen as u64);
    }

    #[test]
    fn the_path_of_an_account_is_the_one_that_most_calls_take() {
        let times: Vec<u64> = (1..=4).map(|number| 100 * number).collect();
        let receiver_first = CallPath::without(&[Point::CallLeft]);
        let stamps: Vec<_> = [&CallPath::new(true), &receiver_first, &receiver_first]
            .into_iter()
            .zip(&times)
            .flat_map(|(path, begun)| passed(path, begun + 1))
            .collect();
        assert_eq!(CallPath::most_taken(true, &slice(&times, &stamps)), receiver_first);
        assert_eq!(CallPath::most_taken(false, &slice(&times, &stamps)), CallPath::new(false));
        assert_eq!(
            CallPath::most_taken(true, &slice(&times, &passed(&CallPath::new(true), 101))),
            CallPath::new(true)
        );
    }

    #[test]
    fn the_return_from_send_is_on_the_path_only_on_one_processor() {
        assert!(CallPath::new(true).0.contains(&Point::CallLeft));
        assert!(!CallPath::new(false).0.contains(&Point::CallLeft));
    }
}
