//! The end of a session.

use super::*;
use crate::pipes::error::PipeError;
use std::thread;

#[test]
fn a_session_serves_until_the_callbacks_that_run_have_ended() {
    let exports = Arc::new(Exports::new(Vec::new(), Vec::new(), String::new()));
    let ends = SessionEnds::of(Ends::dead(PipeError::Ended)).unwrap();
    let session = Session::new((&exports, 1, None), ends, Box::new(()), None);
    let (_, call) = session.admit(CallKind::Call, &mut Vec::new());
    thread::scope(|scope| {
        let serving = scope.spawn(|| session.serve());
        while session.state().delayed == 0 && !serving.is_finished() {
            thread::yield_now();
        }
        assert!(!serving.is_finished());
        session.ended(call.unwrap());
    });
}
