use crate::error::call::*;
use std::io;

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
        let refused = CallError::refused(Refusal::new(code, detail()));
        assert_says(&refused, "refused, so the procedure did not run: ", "");
    }
    for code in (1..=4).map(FailureCode::from_code) {
        let failed = CallError::failed(Failure { code, detail: detail() });
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
        let unknown =
            CallError::Unknown { transmissions: 2, waited: Duration::from_millis(57), cause, callee: None };
        assert_says(&unknown, "it is not known whether the procedure ran: ", "only if it may run twice");
        assert!(unknown.to_string().contains("(sent 2 times in 57.0ms)"));
    }
    let in_flight = 1024;
    for why in [SendError::TooManyCalls { in_flight }, SendError::Closed] {
        assert_says(&CallError::not_sent(why), "not sent, so the procedure did not run: ", "bind");
    }
    let (pending, unknown) =
        (SendError::OneWayPending, SendError::OneWayUnknown { interface: "Lamp", procedure: "light" });
    assert_says(&CallError::not_sent(pending), "not sent, so the procedure did not run: ", "more time");
    assert_says(&CallError::not_sent(unknown), "not sent, so the procedure did not run: ", "call again");
}

fn without_descriptors() -> io::Error {
    io::Error::from_raw_os_error(24)
}

#[test]
fn a_call_without_a_descriptor_says_what_to_raise_and_what_to_use_instead() {
    let text = CallError::not_sent(SendError::Io(without_descriptors())).to_string();
    assert!(text.starts_with("not sent, so the procedure did not run: Too many open files"), "{text}");
    assert!(text.contains("ulimit -n") && text.contains("begin()"), "{text}");
}

#[test]
fn copies_of_errors_say_the_same_and_have_the_same_sources() {
    let custom = io::Error::new(io::ErrorKind::TimedOut, "the flow has stopped");
    for why in [SendError::Io(without_descriptors()), SendError::Io(custom), SendError::Closed] {
        let error = CallError::not_sent(why);
        let source = |error: &CallError| {
            let why = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
            Some((why.kind(), why.raw_os_error(), why.to_string()))
        };
        let copy = error.clone();
        assert_eq!((copy.to_string(), source(&copy)), (error.to_string(), source(&error)));
        assert_eq!(source(&copy).is_some(), matches!(error, CallError::NotSent(SendError::Io(_), ..)));
    }
}

#[test]
fn a_call_that_found_no_room_until_its_deadline_is_a_timeout() {
    let error = CallError::not_sent(SendError::DeadlinePassed);
    assert!(error.is_timeout(), "{error}");
    assert_eq!(error.ran(), Ran::No);
    let text = error.to_string();
    assert!(!text.contains("operating system"), "the library ended it: {text}");

    let of_the_system = CallError::not_sent(SendError::Io(without_descriptors()));
    assert!(!of_the_system.is_timeout(), "{of_the_system}");
}

#[test]
fn errors_of_procedures_have_run_and_are_no_timeouts() {
    let own: Error<&str> = Error::Application("no");
    assert_eq!((own.ran(), own.is_timeout()), (Ran::Yes, false));
    let late = CallError::not_sent(SendError::DeadlinePassed);
    assert!(late.is_timeout());
    let late: Error<&str> = late.into();
    assert_eq!((late.ran(), late.is_timeout()), (Ran::No, true));
}

#[test]
fn firewalls_are_suspected_on_networks_only() {
    let text = |server: &str| {
        BindError::NoAnswer { server: server.into(), waited: Duration::from_secs(5) }.to_string()
    };
    assert!(text("udp://10.0.0.1:7400").contains("firewall"));
    assert!(text("tcp://10.0.0.1:7400").contains("firewall"));
    for server in ["unix:@greeter", "unix:/run/greeter", "shm:greeter", "greeter"] {
        assert!(!text(server).contains("firewall") && text(server).contains("is it"), "{}", text(server));
    }
}
