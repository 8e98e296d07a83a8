//! Interceptors at both ends: which calls they see, what they refuse, and what becomes of a call when they panic.

mod shop;

use self::shop::{Log, ShopClient, Witness, shop, taken, with_after, with_before, witness};
use super::*;
use crate::harness::LIMIT;
use std::sync::{Arc, Mutex};
use stoop::error::Refusal;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
use stoop::{Deferred, Reply, deferred};

claims! { all and lossy: [
    a_call_that_the_servers_interceptor_refuses_does_not_run
    a_call_that_the_clients_interceptor_refuses_is_not_sent
    interceptors_see_the_call_and_each_outcome
    interceptors_form_layers
    a_panic_before_the_call_keeps_it_from_running_and_harms_no_other
    a_panic_after_the_call_fails_it_and_harms_no_other
    interceptors_of_either_end_decide_later
    a_call_that_is_not_decided_by_its_deadline_has_not_run
    a_call_that_has_not_run_is_made_again_if_an_interceptor_says_so
    a_call_that_ran_is_never_made_again
    interceptors_see_the_answers_that_come_later
    a_call_whose_arguments_are_filled_at_the_server_goes_through_once
] }

mod over_all {
    use super::*;
    claims! { all: [
        one_way_calls_go_through_interceptors_of_both_ends
        calls_about_which_an_interceptor_decides_later_hold_no_worker
        handles_that_are_dropped_or_detached_end_their_calls_for_interceptors
    ] }
}

fn a_call_that_the_servers_interceptor_refuses_does_not_run(transport: &str) {
    let log = Log::default();
    let odd = |call: &mut CallInfo<'_>| match call.procedure() {
        "next" => Before::Refuse(Refusal::denied("closed on Mondays")),
        _ => Before::Go,
    };
    let server = Server::new().interceptor(with_before("guard", &log, odd));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
        assert_eq!(refusal.code, RefusalCode::Denied);
        assert!(refusal.detail.contains("closed on Mondays") && error.ran() == Ran::No, "{error}");
    }
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 0);
    assert_eq!(client.look().unwrap(), 0, "other calls go on");
    assert_eq!(
        taken(&log),
        ["guard before next", "guard before next", "guard before look", "guard after look: ran Yes"]
    );
}

fn a_call_that_the_clients_interceptor_refuses_is_not_sent(transport: &str) {
    let log = Log::default();
    let refuse = |_: &mut CallInfo<'_>| Before::Refuse(Refusal::denied("no budget"));
    let options = patient(transport).interceptor(with_before("purse", &log, refuse));
    let server = Server::new().interceptor(witness("server", &log));
    let (_server, keeper, client) = shop(transport, server, &options);
    let begun = client.begin().next(1).wait().unwrap_err();
    for error in [client.next(1).unwrap_err(), begun, client.tell(1).unwrap_err()] {
        let CallError::NotSent(SendError::Intercepted { interceptor, refusal }, ..) = &error else {
            panic!("{error}")
        };
        assert_eq!((&interceptor[..], refusal.code), ("purse", RefusalCode::Denied));
        assert!(error.to_string().contains("`purse` refuses it: no budget"), "{error}");
        assert_eq!(error.ran(), Ran::No);
    }
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 0);
    assert!(taken(&log).iter().all(|line| line.starts_with("purse before")), "the server has seen none");
}

fn interceptors_see_the_call_and_each_outcome(transport: &str) {
    let log = Log::default();
    let look = |call: &mut CallInfo<'_>| {
        assert_eq!((call.interface(), call.is_idempotent()), ("Shop", call.procedure() == "look"));
        assert_eq!(call.server().is_some(), call.caller().is_none());
        assert!(call.time_left() > Duration::ZERO && call.time_left() <= Duration::from_secs(60));
        call.keep(call.procedure());
        Before::Go
    };
    let kept = |call: &CallInfo<'_>, ended: &Ended<'_>| {
        assert_eq!(call.kept(), Some(&call.procedure()));
        assert!(ended.took() > Duration::ZERO);
        After::Return
    };
    let at = |name, log: &Log| Witness { name, log: Arc::clone(log), before: look, after: kept };
    let options = patient(transport).interceptor(at("client", &log));
    let server = Server::new().interceptor(at("server", &log));
    let (_server, keeper, client) = shop(transport, server, &options);
    let seen = |procedure: &str, ran: &str| {
        [
            format!("client before {procedure}"),
            format!("server before {procedure}"),
            format!("server after {procedure}: ran {ran}"),
            format!("client after {procedure}: ran {ran}"),
        ]
    };
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!(taken(&log), seen("next", "Yes"));
    assert_eq!(client.begin().next(2).wait().unwrap(), 3);
    assert_eq!(taken(&log), seen("next", "Yes"));
    assert_eq!(client.look().unwrap(), 2);
    assert_eq!(taken(&log), seen("look", "Yes"));
    let failed = client.panic().unwrap_err();
    assert!(matches!(&failed, CallError::Failed(why, ..) if why.code == FailureCode::Panicked), "{failed}");
    assert_eq!(taken(&log), seen("panic", "Yes"));

    // The call may have run out of time before it has reached the server.
    let open = keeper.gate.open_on_drop();
    let mut timeout = Duration::from_millis(20);
    let error = loop {
        // A begun call ends at its deadline also in this process.
        match client.begin().with_timeout(timeout).wait().wait().unwrap_err() {
            error if error.ran() == Ran::No => timeout *= 2,
            error => break error,
        }
        taken(&log);
    };
    assert!(error.is_timeout(), "{error}");
    drop(open);
    eventually(|| log.lock().unwrap().iter().any(|line| line.starts_with("server after wait: ran Yes")));
    let ran = if error.ran() == Ran::Yes { "Yes" } else { "Perhaps" };
    assert!(taken(&log).contains(&format!("client after wait: ran {ran}")));
}

fn interceptors_form_layers(transport: &str) {
    let log = Log::default();
    let refuse = |call: &mut CallInfo<'_>| match call.procedure() {
        "look" => Before::Refuse(Refusal::denied("not here")),
        _ => Before::Go,
    };
    let options = patient(transport).interceptor(witness("one", &log)).interceptor(witness("two", &log));
    let server = Server::new().interceptor(witness("three", &log));
    let server = server.interceptor(with_before("four", &log, refuse)).interceptor(witness("five", &log));
    let (_server, _keeper, client) = shop(transport, server, &options);
    assert_eq!(client.next(1).unwrap(), 2);
    let order: Vec<String> = taken(&log).iter().map(|line| line.split(':').next().unwrap().into()).collect();
    let [before, after] = ["before", "after"].map(|when| move |name: &&str| format!("{name} {when} next"));
    let names = ["one", "two", "three", "four", "five"];
    let expected: Vec<_> = names.iter().map(before).chain(names.iter().rev().map(after)).collect();
    assert_eq!(order, expected);
    client.look().unwrap_err();
    let expected = [
        "one before look",
        "two before look",
        "three before look",
        "four before look",
        "three after look: ran No",
        "two after look: ran No",
        "one after look: ran No",
    ];
    assert_eq!(taken(&log), expected);
}

fn panics_at_next(call: &CallInfo<'_>) {
    assert!(call.procedure() != "next", "the interceptor's own mistake");
}

fn a_panic_before_the_call_keeps_it_from_running_and_harms_no_other(transport: &str) {
    let log = Log::default();
    let careless = |call: &mut CallInfo<'_>| {
        panics_at_next(call);
        Before::Go
    };
    let server = Server::new().interceptor(with_before("careless", &log, careless));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
        assert_eq!(refusal.code, RefusalCode::Denied);
        assert!(refusal.detail.contains("`careless` panicked"), "{error}");
    }
    assert_eq!(client.look().unwrap(), 0, "it has not run, and the next call does");

    let options = patient(transport).interceptor(with_before("careless", &log, careless));
    let client = ShopClient::bind_with(client.binding().uri(), &options).unwrap();
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        assert!(
            error.to_string().contains("`careless` refuses it: it panicked: the interceptor's"),
            "{error}"
        );
        assert_eq!(error.ran(), Ran::No);
    }
    assert_eq!((client.look().unwrap(), keeper.ran.load(Ordering::SeqCst)), (1, 2));
}

fn a_panic_after_the_call_fails_it_and_harms_no_other(transport: &str) {
    let log = Log::default();
    let careless = |call: &CallInfo<'_>, _: &Ended<'_>| {
        panics_at_next(call);
        After::Return
    };
    let server = Server::new().interceptor(witness("outer", &log));
    let server = server.interceptor(with_after("careless", &log, careless)).panic_texts(true);
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
        assert_eq!((failure.code, error.ran()), (FailureCode::Panicked, Ran::Yes));
        assert!(failure.detail.contains("`careless`: the interceptor's own mistake"), "{error}");
    }
    assert!(taken(&log).contains(&"outer after next: ran Yes".into()), "the other has seen it");
    assert_eq!(client.look().unwrap(), 2);

    let options = patient(transport).interceptor(with_after("hasty", &log, careless));
    let (_server, _, client) = shop(transport, Server::new(), &options);
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        let CallError::Failed(failure, ..) = &error else { panic!("{error}") };
        assert!(failure.detail.contains("the client's interceptor `hasty`: the interceptor's"), "{error}");
    }
    assert_eq!((client.look().unwrap(), keeper.ran.load(Ordering::SeqCst)), (2, 3));
}

/// Lets another thread decide.
fn decide(reply: Reply<Before>, decision: impl FnOnce() -> Option<Before> + Send + 'static) {
    thread::spawn(move || match decision() {
        Some(decision) => drop(reply.send(decision)),
        None => drop(reply),
    });
}

fn interceptors_of_either_end_decide_later(transport: &str) {
    let log = Log::default();
    let ask = |call: &mut CallInfo<'_>| {
        let (reply, later) = deferred();
        let procedure = call.procedure();
        decide(reply, move || match procedure {
            "next" => Some(Before::Go),
            "look" => Some(Before::Refuse(Refusal::denied("thought about it"))),
            _ => None,
        });
        Before::Later(later)
    };
    let server =
        Server::new().interceptor(with_before("slow", &log, ask)).interceptor(witness("after", &log));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    let calls = |client: &ShopClient| {
        taken(&log);
        assert_eq!(client.next(1).unwrap(), 2);
        assert_eq!(client.begin().next(2).wait().unwrap(), 3);
        assert!(client.look().unwrap_err().to_string().contains("thought about it"));
        let undecided = client.panic().unwrap_err();
        assert!(
            undecided.ran() == Ran::No && undecided.to_string().contains("dropped the reply"),
            "{undecided}"
        );
        let order: Vec<_> = taken(&log).into_iter().filter(|line| line.contains("next")).collect();
        let expected = [
            "slow before next",
            "after before next",
            "after after next: ran Yes",
            "slow after next: ran Yes",
        ];
        assert_eq!(order, [expected, expected].concat());
    };
    calls(&client);
    let options = patient(transport).interceptor(with_before("slow", &log, ask));
    let (_server, _, client) = shop(transport, Server::new(), &options.interceptor(witness("after", &log)));
    calls(&client);
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 2);
}

/// Leaves the decisions to the test.
fn undecided(decisions: &Arc<Mutex<Vec<Reply<Before>>>>) -> impl Fn(&mut CallInfo<'_>) -> Before + use<> {
    let decisions = Arc::clone(decisions);
    move |call| {
        if call.procedure() != "next" {
            return Before::Go;
        }
        let (reply, later) = deferred();
        decisions.lock().unwrap().push(reply);
        Before::Later(later)
    }
}

fn a_call_that_is_not_decided_by_its_deadline_has_not_run(transport: &str) {
    let (log, decisions) = (Log::default(), Arc::default());
    let server = Server::new().interceptor(with_before("slow", &log, undecided(&decisions)));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    let call = || client.begin().with_timeout(Duration::from_millis(50)).next(1).wait().unwrap_err();
    for error in [client.with_timeout(Duration::from_millis(50)).next(1).unwrap_err(), call()] {
        assert!(error.is_timeout() && error.ran() != Ran::Yes, "{error}");
    }
    eventually(|| decisions.lock().unwrap().iter().all(Reply::is_cancelled));
    for decision in std::mem::take(&mut *decisions.lock().unwrap()) {
        // Nothing waits for it any more.
        let _ = decision.send(Before::Go);
    }
    assert_eq!((client.look().unwrap(), keeper.ran.load(Ordering::SeqCst)), (0, 1));
}

fn calls_about_which_an_interceptor_decides_later_hold_no_worker(transport: &str) {
    let (log, decisions) = (Log::default(), Arc::default());
    let server = Server::new().workers(1).interceptor(with_before("slow", &log, undecided(&decisions)));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    let calls = client.begin();
    let pending: Vec<_> = (0..20).map(|number| calls.next(number)).collect();
    drop(calls);
    eventually(|| decisions.lock().unwrap().len() == 20);
    assert_eq!(client.begin().look().wait().unwrap(), 0, "the worker is free");
    for decision in std::mem::take(&mut *decisions.lock().unwrap()) {
        decision.send(Before::Go).unwrap();
    }
    let numbers: Vec<_> = stoop::wait_all(pending).into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, Vec::from_iter(1..=20));
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 21);
}

fn a_call_that_has_not_run_is_made_again_if_an_interceptor_says_so(transport: &str) {
    let log = Log::default();
    let refusals = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&refusals);
    let refuse_twice = move |_: &mut CallInfo<'_>| match seen.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Before::Refuse(Refusal::denied("not yet")),
        _ => Before::Go,
    };
    let again = |_: &CallInfo<'_>, ended: &Ended<'_>| match ended.outcome() {
        Err(CallError::Refused(..)) => After::Again(Duration::from_millis(1)),
        _ => After::Return,
    };
    let options = patient(transport).interceptor(witness("outer", &log));
    let options = options.interceptor(with_after("again", &log, again)).interceptor(witness("inner", &log));
    let server = Server::new().interceptor(with_before("guard", &Log::default(), refuse_twice));
    let (_server, keeper, client) = shop(transport, server, &options);
    assert_eq!(client.next(1).unwrap(), 2);
    assert_eq!((keeper.ran.load(Ordering::SeqCst), refusals.load(Ordering::SeqCst)), (1, 3));
    let (refused, made) = (["inner after next: ran No", "again after next: ran No", "inner before next"], 2);
    let first = ["outer before next", "again before next", "inner before next"];
    let last = ["inner after next: ran Yes", "again after next: ran Yes", "outer after next: ran Yes"];
    let expected: Vec<_> = first.into_iter().chain(refused.repeat(made)).chain(last).collect();
    assert_eq!(taken(&log), expected);
}

fn a_call_that_ran_is_never_made_again(transport: &str) {
    let log = Log::default();
    let again = |_: &CallInfo<'_>, _: &Ended<'_>| After::Again(Duration::ZERO);
    let options = patient(transport).interceptor(with_after("again", &log, again));
    let (_server, keeper, client) = shop(transport, Server::new(), &options);
    assert_eq!((client.next(1).unwrap(), client.look().unwrap()), (2, 1));
    client.panic().unwrap_err();
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 2);
    assert_eq!(taken(&log).iter().filter(|line| line.contains("before")).count(), 3);
    // Of a begun call nothing is left that could be sent again.
    let refuse = |_: &mut CallInfo<'_>| Before::Refuse(Refusal::denied("no"));
    let server = Server::new().interceptor(with_before("guard", &Log::default(), refuse));
    let (_server, _, client) = shop(transport, server, &options);
    client.begin().next(1).wait().unwrap_err();
    assert_eq!(taken(&log), ["again before next", "again after next: ran No"]);
}

fn interceptors_see_the_answers_that_come_later(transport: &str) {
    let log = Log::default();
    let server = Server::new().interceptor(witness("server", &log));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    let take = || {
        eventually(|| keeper.reply.lock().unwrap().is_some());
        keeper.reply.lock().unwrap().take().unwrap()
    };
    thread::scope(|scope| {
        let call = scope.spawn(|| client.later());
        let reply = take();
        assert_eq!(taken(&log), ["server before later"]);
        reply.send(5).unwrap();
        assert_eq!(call.join().unwrap().unwrap(), 5);
        assert_eq!(taken(&log), ["server after later: ran Yes"]);
        let call = scope.spawn(|| client.later());
        drop(take());
        let abandoned = call.join().unwrap().unwrap_err();
        assert!(
            matches!(&abandoned, CallError::Failed(why, ..) if why.code == FailureCode::Abandoned),
            "{abandoned}"
        );
        assert_eq!(taken(&log), ["server before later", "server after later: ran Yes"]);
    });
}

fn a_call_whose_arguments_are_filled_at_the_server_goes_through_once(transport: &str) {
    let log = Log::default();
    let server = Server::new().interceptor(witness("server", &log));
    let (_server, _, client) = shop(transport, server, &patient(transport));
    let mut bytes = vec![0; 600_000];
    client.fill(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    assert_eq!(taken(&log), ["server before fill", "server after fill: ran Yes"]);
}

fn one_way_calls_go_through_interceptors_of_both_ends(transport: &str) {
    let log = Log::default();
    let refuse = |call: &mut CallInfo<'_>| match call.is_one_way() {
        true => Before::Refuse(Refusal::denied("no gossip")),
        false => Before::Go,
    };
    let (of_client, options) = (Log::default(), patient(transport));
    let options = options.interceptor(witness("client", &of_client));
    let server = Server::new().interceptor(witness("server", &log));
    let (_server, keeper, client) = shop(transport, server, &options);
    client.tell(1).unwrap();
    eventually(|| log.lock().unwrap().len() == 2);
    assert_eq!(taken(&log), ["server before tell", "server after tell: ran Yes"]);
    let of_client = taken(&of_client);
    assert_eq!(of_client, ["client before tell", "client after tell: ran Perhaps, as far as is known"]);
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 1);

    let server = Server::new().interceptor(with_before("guard", &log, refuse));
    let (_server, keeper, client) = shop(transport, server, &patient(transport));
    client.tell(1).unwrap();
    let refused = client.close(LIMIT).unwrap_err();
    assert!(refused.to_string().contains("no gossip"), "{refused}");
    assert_eq!(keeper.ran.load(Ordering::SeqCst), 0);
}

fn handles_that_are_dropped_or_detached_end_their_calls_for_interceptors(transport: &str) {
    let log = Log::default();
    let options = patient(transport).interceptor(witness("client", &log));
    let (_server, keeper, client) = shop(transport, Server::new(), &options);
    let _open = keeper.gate.open_on_drop();
    drop(client.begin().wait());
    client.begin().next(1).detach();
    let unknown = |procedure| format!("client after {procedure}: ran Perhaps, as far as is known");
    let before = |procedure| format!("client before {procedure}");
    assert_eq!(taken(&log), [before("wait"), unknown("wait"), before("next"), unknown("next")]);
}
