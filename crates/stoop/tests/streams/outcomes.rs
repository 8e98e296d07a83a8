//! Calls that are made on a second connection, after the first was lost when the server had them: for every event on the second, their
//! outcome is unknown.

use super::*;
use std::sync::Arc;

/// The server's treatment of the second connection.
#[derive(Clone, Copy, Debug)]
enum Second {
    RefusesTheCall,
    AnswersNoBind,
    AnswersNoCall,
    TakesNothing,
    ClosesAgain,
}

/// Bytes of a call that no buffers of sockets hold.
const LONG: usize = 32 << 20;

/// A server that takes a call and closes its connection; how often it has done so; and what it does afterwards.
fn server_that_loses_calls(second: Second) -> (String, Arc<AtomicU32>) {
    let taken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&taken);
    let uri = raw_server(move |_, mut raw| {
        // Each call that has been taken brings one more connection of the other kind.
        let is_first = count.load(Ordering::SeqCst).is_multiple_of(2);
        if is_first {
            raw.grant()?;
            take_call(&mut raw)?;
            count.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        count.fetch_add(1, Ordering::SeqCst);
        if let Second::AnswersNoBind = second {
            return Some(raw);
        }
        raw.grant()?;
        if let Second::TakesNothing = second {
            return Some(raw);
        }
        let call = take_call(&mut raw)?;
        match second {
            Second::RefusesTheCall => {
                let code = RefusalCode::Overloaded.code();
                let refusal = Header { kind: Kind::Refusal, message_len: 0, offset: 0, time: code, ..call };
                raw.send(&refusal, &[]);
                Some(raw)
            }
            Second::AnswersNoCall => Some(raw),
            _ => None,
        }
    });
    (uri, taken)
}

/// Receives all fragments of a call. Gives the header of the last.
fn take_call(raw: &mut Raw) -> Option<Header> {
    loop {
        let (header, payload) = raw.receive()?;
        if header.offset as usize + payload.len() == header.message_len as usize {
            return Some(header);
        }
    }
}

fn assert_outcome_is_unknown(second: Second, millis: u64, call: impl Fn(&LabClient) -> CallError) {
    let mut timeout = Duration::from_millis(millis);
    loop {
        // Anew for each call: what was taken is this one.
        let (uri, taken) = server_that_loses_calls(second);
        let client = LabClient::bind(&uri).unwrap();
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
fn a_call_that_was_taken_on_an_earlier_connection_never_says_that_it_has_not_run() {
    for second in [Second::RefusesTheCall, Second::AnswersNoBind, Second::AnswersNoCall, Second::ClosesAgain]
    {
        assert_outcome_is_unknown(second, 100, |client| client.read().unwrap_err());
        assert_outcome_is_unknown(second, 100, |client| client.begin().read().wait().unwrap_err());
    }
}

#[test]
fn a_long_call_that_was_taken_on_an_earlier_connection_never_says_that_it_has_not_run() {
    let bytes = vec![1; LONG];
    for second in [Second::RefusesTheCall, Second::TakesNothing, Second::AnswersNoBind] {
        assert_outcome_is_unknown(second, 400, |client| client.count(&bytes).unwrap_err());
        assert_outcome_is_unknown(second, 400, |client| client.begin().count(&bytes).wait().unwrap_err());
    }
}
