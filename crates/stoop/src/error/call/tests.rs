use super::*;

fn assert_says(error: &CallError, first: &str, then: &str) {
    let text = error.to_string();
    assert!(text.starts_with(first), "{text}");
    let advice = text.rsplit_once("; ").map_or("", |(_, advice)| advice);
    assert!(!advice.is_empty() && advice.contains(then), "{text}");
    assert_eq!(text, format!("{error:?}"));
}

#[test]
fn errors_of_calls_say_whether_it_ran_and_then_what_to_do() {
    let detail = || "what the server adds".to_string();
    for code in (1..=11).map(RefusalCode::from_code).filter(|code| *code != RefusalCode::Cancelled) {
        let refused = CallError::Refused(Refusal { code, detail: detail() });
        assert_says(&refused, "refused, so the procedure did not run: ", "");
    }
    for code in (1..=4).map(FailureCode::from_code) {
        let failed = CallError::Failed(Failure { code, detail: detail() });
        assert_says(&failed, "the procedure ran, but there is no result: ", "");
    }
    for cause in [
        UnknownCause::DeadlinePassed,
        UnknownCause::ServerSilent,
        UnknownCause::PortClosed,
        UnknownCause::ServerRestarted,
        UnknownCause::ConnectionLost,
        UnknownCause::EndedByServer(UnbindReason::NoResources),
        UnknownCause::GivenUp(UnbindReason::Owing),
    ] {
        let unknown = CallError::Unknown { transmissions: 2, waited: Duration::from_millis(57), cause };
        assert_says(&unknown, "it is not known whether the procedure ran: ", "only if it may run twice");
        assert!(unknown.to_string().contains("(sent 2 times in 57.0ms)"));
    }
    let in_flight = 1024;
    for why in [SendError::TooManyCalls { in_flight }, SendError::Closed] {
        assert_says(&CallError::NotSent(why), "not sent, so the procedure did not run: ", "bind");
    }
}
