//! Answers of a server, true ones and lies, to a `Binder` whose interface has older forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::{FORMS, Found, Instant, Interface, OlderForm, Procedure};
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, HostFacts, NO_PROCEDURE};
use stoop_wire::{BindingId, Header, Kind, LaneId};

/// Questions after which a server that answers must have been given up: pages of 128 with all their older forms, asked for five times.
const QUESTIONS_MAX: usize = 5 * 3 * (2 + 5) + 8;

fn interface() -> Interface {
    let signature = |procedure, revision| format!("p{procedure}({revision})");
    let mut interface = Interface { name: "I".into(), ..Interface::default() };
    for procedure in 0..300 {
        interface
            .procedures
            .push(Procedure { name: format!("p{procedure}"), signature: signature(procedure, 9) });
        let revisions = (0..procedure % 3).rev();
        interface.older.extend(
            revisions.map(|revision| OlderForm { procedure, signature: signature(procedure, revision) }),
        );
        if procedure % 5 == 0 {
            interface.later.push(procedure);
        }
    }
    interface
}

fuzz_target!(|choices: &[u8]| {
    let now = Instant::from_nanos(1);
    let interface = interface();
    let mut binder =
        Binder::new(now, now + Duration::from_secs(1), interface.clone(), HostFacts::default(), 5);
    let mut choices = choices.iter().copied();
    for question in 0.. {
        assert!(question < QUESTIONS_MAX, "it asks for ever");
        let packet = binder.transmit(now).expect("a question");
        let (header, payload) = Header::parse(&packet).expect("a packet");
        let Some(choice) = choices.next() else { return };
        let (kind, answer) = if header.kind == Kind::Describe {
            let asked = Describe::decode(payload).expect("a question");
            (Kind::Description, Description { nonce: asked.nonce, signature: "x()".into() }.encode())
        } else {
            let request = BindRequest::decode(payload).expect("a bind");
            assert!(request.fingerprints.len() <= 128);
            let mut procedures: Vec<u16> = (0..request.fingerprints.len() as u16).collect();
            for _ in 0..choice & 7 {
                let Some(at) = choices.next() else { break };
                if let Some(number) = procedures.get_mut(usize::from(at)) {
                    *number = NO_PROCEDURE;
                }
            }
            if choice & 8 != 0 {
                procedures.fill(NO_PROCEDURE);
            }
            if choice & 16 != 0 {
                procedures.pop();
            }
            let is_marked = procedures.contains(&NO_PROCEDURE);
            let status = match is_marked != (choice & 32 != 0) {
                true => BindStatus::Mismatch,
                false => BindStatus::Bound,
            };
            (Kind::BindReply, BindReply { status, procedures, ..BindReply::granting(&request) }.encode())
        };
        let mut answering = Header::bare(kind, BindingId(7), LaneId(0), header.number);
        answering.message_len = answer.len() as u32;
        let answer = [&answering.to_bytes()[..], &answer].concat();
        match binder.handle_packet(now, &answer) {
            BindStep::Continue => {
                // A lie that it does not believe: the question stays open, and is asked again later only.
                if binder.next_timeout() > now {
                    return;
                }
            }
            BindStep::Bound(bound) => {
                for procedure in 0..interface.procedures.len() as u16 {
                    let Some(form) = bound.form(procedure) else {
                        assert!(interface.later.contains(&procedure), "it needs the procedure");
                        continue;
                    };
                    let of = match form.checked_sub(FORMS) {
                        Some(older) => interface.older[usize::from(older)].procedure,
                        None => form,
                    };
                    assert_eq!(of, procedure);
                    assert!(bound.known(form).is_some_and(|number| number != Found::NOTHING.number));
                }
                return;
            }
            BindStep::Mismatch { .. } | BindStep::Refused(..) | BindStep::OtherVersion(_) => return,
        }
    }
});
