use super::*;
use crate::context::Caller;
use stoop_wire::{BindingId, CallNumber, LaneId};

/// A call whose procedure fills OUT arguments of `needs` bytes, at a server that has `memory` bytes for them.
#[derive(Default)]
struct Fill {
    needs: usize,
    memory: usize,
    reserved: usize,
    runs: usize,
    is_closed: bool,
}

const DEADLINE_NS: u64 = 100;
const RESULT_MAX: usize = 8 << 20;

fn id() -> CallId {
    CallId::new(BindingId(77), LaneId(1), CallNumber(1))
}

impl ReceivedCall for Fill {
    fn limits(&self) -> CallLimits {
        CallLimits::new(DEADLINE_NS, Caller::Local, id(), RESULT_MAX)
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn run(&mut self, limits: CallLimits) -> Result<Outcome, NoRoom> {
        if self.needs > limits.out_limit {
            return Err(NoRoom(self.needs));
        }
        assert!(self.reserved == 0 || self.reserved == self.needs);
        self.runs += 1;
        Ok(Outcome::Result(self.needs))
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.reserved = bytes;
        (bytes <= self.memory).then_some(()).ok_or("it is held by others")
    }

    fn release(&mut self, bytes: usize) {
        assert_eq!(self.reserved, bytes);
        self.reserved = 0;
    }
}

fn refusal(outcome: Option<Outcome>) -> (RefusalCode, String) {
    match outcome {
        Some(Outcome::Refused(why)) => *why,
        _ => panic!("it is not refused"),
    }
}

#[test]
fn a_call_that_is_late_cancelled_or_left_by_its_caller_does_not_run() {
    let mut call = Fill::default();
    assert_eq!(refusal(serve(&mut call, DEADLINE_NS)).0, RefusalCode::DeadlinePassed);
    cancelled::cancel(id());
    assert_eq!(refusal(serve(&mut call, 0)).0, RefusalCode::Cancelled);
    cancelled::ended(id());
    call.is_closed = true;
    assert!(serve(&mut call, 0).is_none());
    assert_eq!(call.runs, 0);
    call.is_closed = false;
    assert!(matches!(serve(&mut call, DEADLINE_NS - 1), Some(Outcome::Result(0))));
    assert_eq!(call.runs, 1);
}

#[test]
fn out_arguments_run_once_with_the_memory_that_they_need_and_give_it_back() {
    let mut call = Fill { needs: 1 << 20, memory: 1 << 20, ..Fill::default() };
    assert!(matches!(serve(&mut call, 0), Some(Outcome::Result(len)) if len == 1 << 20));
    assert_eq!((call.runs, call.reserved), (1, 0));
}

#[test]
fn out_arguments_without_memory_are_refused_for_the_reason_of_the_transport() {
    let mut call = Fill { needs: 1 << 20, memory: 1000, ..Fill::default() };
    assert_eq!(refusal(serve(&mut call, 0)), (RefusalCode::Overloaded, "it is held by others".into()));
    assert_eq!(call.runs, 0);
}

#[test]
fn out_arguments_longer_than_any_result_reserve_nothing_and_the_refusal_names_the_limit() {
    let mut call = Fill { needs: RESULT_MAX + 1, memory: usize::MAX, ..Fill::default() };
    let (code, detail) = refusal(serve(&mut call, 0));
    assert_eq!((code, call.reserved, call.runs), (RefusalCode::ResultTooLarge, 0, 0));
    assert!(detail.contains(&RESULT_MAX.to_string()), "{detail}");
}

#[test]
fn a_result_is_a_failure_from_its_deadline_on_and_a_refusal_stays_one() {
    let late = |outcome: Outcome, now_ns| outcome.unless_late(DEADLINE_NS, now_ns);
    assert!(matches!(late(Outcome::Result(3), DEADLINE_NS - 1), Outcome::Result(3)));
    let Outcome::Failed(why) = late(Outcome::Result(3), DEADLINE_NS) else { panic!("it is late") };
    assert_eq!(why.0, FailureCode::FinishedTooLate);
    let refused = Outcome::refused(RefusalCode::BadArguments, String::new());
    assert!(matches!(late(refused, DEADLINE_NS), Outcome::Refused(_)));
}

#[test]
fn a_packet_that_goes_over_to_another_binding_carries_nothing_of_the_old_one() {
    let (mut packet, mut held_of) = (vec![7; HEADER_LEN + 10], 1);
    wipe(&mut packet, &mut held_of, 2, Vec::new);
    packet.resize(HEADER_LEN + 10, 0);
    assert_eq!((&packet[HEADER_LEN..], held_of), (&[0; 10][..], 2));
    let mut given_away = Vec::new();
    wipe(&mut given_away, &mut held_of, 2, Vec::new);
    assert_eq!(given_away.len(), HEADER_LEN);
}
