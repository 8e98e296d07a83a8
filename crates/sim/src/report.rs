//! Counts of what happened in one run or many, which show that the scenarios reach their cases.

use crate::Told;
use std::fmt;
use stoop_exchange::caller::{Due, Heard, Lost};
use stoop_wire::{FailureCode, Header, Kind, RefusalCode};

macro_rules! report {
    ($($(#[$meta:meta])* $field:ident: $text:literal,)*) => {
        /// Counts of what happened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Report {
            $($(#[$meta])* pub $field: u64,)*
            /// The highest lane number used, plus one.
            pub lanes_opened: usize,
            /// The most bytes that a server held.
            pub most_held: usize,
            /// The most bytes of calls that had not arrived, waited or ran.
            pub most_incomplete: usize,
        }

        impl Report {
            /// Adds what happened in another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
                self.lanes_opened = self.lanes_opened.max(other.lanes_opened);
                self.most_held = self.most_held.max(other.most_held);
                self.most_incomplete = self.most_incomplete.max(other.most_incomplete);
            }

            /// Events that never happened.
            pub fn never(&self) -> Vec<&'static str> {
                let counts = [$((self.$field, $text)),*];
                counts.iter().filter(|(count, _)| *count == 0).map(|(_, text)| *text).collect()
            }
        }

        impl fmt::Display for Report {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(f, "{:>12}  {}", self.$field, $text)?;)*
                writeln!(f, "{:>12}  lanes of one binding, at most", self.lanes_opened)?;
                writeln!(f, "{:>12}  bytes held by a server, at most", self.most_held)?;
                writeln!(f, "{:>12}  bytes of long calls at a server, at most", self.most_incomplete)
            }
        }
    };
}

report! {
    /// Runs.
    runs: "runs",
    /// Runs in which nothing stood in the way of any call, and all had to get results.
    had_to_succeed: "runs in which every call had to succeed",
    /// Events.
    steps: "events",
    /// Calls begun.
    calls: "calls",
    /// They got results.
    results: "calls with a result",
    /// Results of compact calls, which never became calls of their lanes.
    compact: "of these calls, calls that ended in the compact record",
    /// Calls whose callers were told that the procedure did not run.
    did_not_run: "calls that did not run",
    /// They were told that the procedure ran without a result.
    failed: "calls that ran and failed",
    /// It is not known whether they ran.
    unknown: "calls of unknown outcome",
    /// Their process crashed.
    crashed: "calls whose process crashed",
    /// Call packets sent again.
    retransmissions: "retransmissions",
    /// Probes sent.
    probes: "probes",
    /// Acknowledgements received.
    acknowledged: "acknowledgements received",
    /// Retained answers sent again.
    answered_again: "packets answered from what is retained or running",
    /// Calls that waited for the one before them.
    parked: "calls parked behind the one before",
    /// Calls that waited for a worker.
    queued: "calls queued for a worker",
    /// Calls refused in the queue.
    too_late: "calls whose deadline passed in the queue",
    /// Calls refused because workers and queue were full.
    overloaded: "calls refused for overload",
    /// Calls refused because of their lane.
    too_many_lanes: "calls refused for their lane",
    /// Calls refused during a shutdown.
    refused_in_shutdown: "calls refused during a shutdown",
    /// Calls refused because of their arguments.
    bad_arguments: "calls refused for their arguments",
    /// Procedures that panicked.
    panicked: "calls whose procedure panicked",
    /// Calls whose results were not retained for long enough.
    result_gone: "calls that ran and whose result is gone",
    /// Calls that were told that their binding is unknown.
    unknown_bindings: "calls of an unknown binding",
    /// They were sent again, because they had not run or may run twice.
    sent_again: "calls sent again under a new binding",
    /// They were not, because the server was restarted or the call was old.
    unknown_by_restart: "calls not sent again under a new binding",
    /// Bindings made.
    bindings: "bindings made",
    /// Bindings given up.
    unbinds: "bindings given up by their callers",
    /// Bind requests refused.
    binds_refused: "bind requests refused",
    /// Proofs of an address.
    proofs: "addresses proven",
    /// Changes of address.
    moves: "changes of address",
    /// Machines that stood still for a while.
    stops: "machines saved or asleep",
    /// Calls that waited until the flow control let them leave.
    held: "calls held back by flow control",
    /// Calls that asked for credit.
    asked_for_credit: "calls that asked for credit",
    /// Results that granted it.
    granted: "results that granted credit",
    /// The same, when the server reserved the credit no more.
    granted_late: "results that granted credit too late",
    /// Losses that reduced a congestion window, or would have.
    congested: "calls sent twice in vain",
    /// Calls that were due again when enough others had been sent again.
    repeated_later: "retransmissions put off",
    /// Calls refused for overload that their callers sent again.
    postponed: "calls sent again after a refusal for overload",
    /// Calls refused for a shutdown that their callers sent to the next server.
    left_server: "calls sent to the next server",
    /// Packets with several calls or results.
    bundles: "packets of several calls or results",
    /// Packets that an attacker has sent.
    attacks: "packets of an attacker",
    /// Packets of sealed bindings that were dropped.
    forged: "packets that did not open",
    /// Unsealed refusals in the name of a sealed binding.
    hints: "hints that a sealed binding is lost",
    /// Changes of the server to which the address leads.
    wanderings: "changes of the server behind the address",
    /// Transmissions of calls in a form that is not the newest of their callers.
    older_forms: "calls in an older form",
    /// Starts of a server.
    server_starts: "starts of a server",
    /// Bindings whose callers heard that the server shuts down.
    heard_closing: "bindings whose callers heard of a shutdown",
    /// Clean shutdowns.
    shut_downs: "clean shutdowns",
    /// Crashes of callers.
    caller_crashes: "crashes of callers",
    /// Deadlines that passed.
    deadlines: "calls ended by their deadline",
    /// Servers that fell silent.
    silent: "calls ended by the server's silence",
    /// Results of more than one packet.
    large_results: "results of many packets",
    /// Parts of results sent, again or for the first time.
    result_parts: "parts of results sent",
    /// Receipts that the server sent when its socket was drained.
    server_receipts: "receipts sent when a server's socket was drained",
    /// Cancelled calls that waited for a worker.
    cancelled_queued: "calls cancelled in the queue",
    /// Cancelled calls whose procedures ran.
    cancelled_running: "calls cancelled while their procedure ran",
    /// Calls whose procedures returned before their answers came.
    opened: "calls whose answers came later than their procedures returned",
    /// Of these, calls whose answers were given up.
    abandoned: "of these, calls whose replies were dropped",
    /// Of these, calls that ended at their deadlines.
    expired_open: "of these, calls whose deadline came before their answers",
    /// Of these, calls that were cancelled.
    cancelled_open: "of these, calls cancelled before their answers came",
    /// Answers that came after their calls had ended.
    late_replies: "answers to calls that were over",
    /// Calls of more than one packet.
    large_calls: "calls of many packets",
    /// Calls longer than the server takes.
    too_long: "calls that were too long to be sent",
    /// Parts of calls sent, again or for the first time.
    fragments: "parts of calls sent",
    /// Receipts that callers took.
    receipts: "receipts for parts of calls",
    /// Parts of results that callers took.
    parts: "parts of results",
    /// Receipts that callers sent.
    receipts_sent: "receipts for parts of results",
    /// Parts sent again because nothing was heard.
    resumed: "calls of many packets resumed after silence",
    /// Parts of calls for which there was no memory yet.
    waited: "parts of calls whose caller was told to wait",
    /// Calls of which only parts came.
    incomplete: "calls refused because only parts of them came",
    /// Calls that their programs did not want to wait for.
    cancelled: "calls cancelled under way",
    /// The same, before they were sent.
    cancelled_unsent: "calls cancelled before they were sent",
    /// The same, when they had ended.
    cancelled_late: "calls cancelled after they had ended",
    /// Cancels sent again.
    cancels_repeated: "cancels sent again",
    /// Packets that a socket had no room for.
    overflows: "packets that a full socket dropped",
    /// Ports found closed.
    closed: "calls ended by a closed port",
}

impl Report {
    pub(crate) fn count_end(&mut self, told: Told) {
        match told {
            Told::Result => self.results += 1,
            Told::DidNotRun => self.did_not_run += 1,
            Told::Failed => self.failed += 1,
            Told::Unknown => self.unknown += 1,
            Told::Crashed => self.crashed += 1,
            Told::Cancelled => {}
        }
    }

    pub(crate) fn count_lost(&mut self, lost: Lost) {
        match lost {
            Lost::DeadlinePassed => self.deadlines += 1,
            Lost::ServerSilent => self.silent += 1,
            Lost::PortClosed => self.closed += 1,
        }
    }

    /// Counts the meaning of a packet for its caller.
    pub(crate) fn count_heard(&mut self, heard: &Heard) {
        match heard {
            Heard::Refused(refused) => self.count_refusal(refused.code),
            Heard::Failed(code) => self.count_failure(*code),
            Heard::Prove(_) => self.proofs += 1,
            Heard::Progress => self.acknowledged += 1,
            Heard::Receipt => self.receipts += 1,
            Heard::Unbound(_) => self.unknown_bindings += 1,
            Heard::Result { .. } | Heard::Part(_) | Heard::Pipe | Heard::Ignored => {}
        }
    }

    /// Counts the work that a timeout brings.
    pub(crate) fn count_due(&mut self, due: &Due) {
        match due {
            Due::Retransmit => self.retransmissions += 1,
            Due::Resume => self.resumed += 1,
            Due::Probe(_) => self.probes += 1,
            Due::Cancel(_) => self.cancels_repeated += 1,
            Due::Nothing | Due::Receipt | Due::Pipes | Due::Abandon(_) => {}
        }
    }

    fn count_refusal(&mut self, code: RefusalCode) {
        match code {
            RefusalCode::Overloaded => self.overloaded += 1,
            RefusalCode::TooManyLanes => self.too_many_lanes += 1,
            RefusalCode::ShuttingDown => self.refused_in_shutdown += 1,
            RefusalCode::BadArguments => self.bad_arguments += 1,
            RefusalCode::Incomplete => self.incomplete += 1,
            _ => {}
        }
    }

    fn count_failure(&mut self, code: FailureCode) {
        match code {
            FailureCode::Panicked => self.panicked += 1,
            FailureCode::ResultGone => self.result_gone += 1,
            _ => {}
        }
    }

    pub(crate) fn count_reply(&mut self, reply: &Header) {
        if matches!(reply.kind, Kind::Result | Kind::Acknowledgement | Kind::Failure) {
            self.answered_again += 1;
        }
    }
}
