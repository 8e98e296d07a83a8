//! The tables of the Firefly paper (1990).

mod in_memory;
mod latency;
pub(super) mod marshaling;
mod procedures;
mod processors;
pub(super) mod slower_path;
mod stages;
mod threads;

use super::entry::Entry;

pub(crate) const TABLES: &[Entry] = &[
    Entry {
        name: "firefly-1",
        title: "Firefly Table I: time for 10,000 RPCs",
        how: "Null() and MaxResult(b) by 1 to 8 caller threads over UDP on a private Ethernet (a veth pair). Caller and \
              server have one processor each, where a Firefly had five; both wait adaptively. The times are those of \
              10,000 calls, from the rates of slices. One processor for each end bounds the rate of many callers; so the last group has \
              half of the machine's processors for each end, if there are four or more.",
        figures: 16,
        measure: threads::table_1,
    },
    Entry {
        name: "firefly-2",
        title: "Firefly Table II: four-byte integer arguments, passed by value",
        how: INCREMENTAL,
        figures: 4,
        measure: marshaling::table_2,
    },
    Entry {
        name: "firefly-3",
        title: "Firefly Table III: fixed-length array, passed by VAR OUT",
        how: INCREMENTAL,
        figures: 4,
        measure: marshaling::table_3,
    },
    Entry {
        name: "firefly-4",
        title: "Firefly Table IV: variable-length array, passed by VAR OUT",
        how: INCREMENTAL,
        figures: 4,
        measure: marshaling::table_4,
    },
    Entry {
        name: "firefly-5",
        title: "Firefly Table V: Text.T argument",
        how: INCREMENTAL,
        figures: 4,
        measure: marshaling::table_5,
    },
    Entry {
        name: "firefly-6",
        title: "Firefly Table VI: latency of steps in the send+receive operation",
        how: "The way of a packet from the sender's system call until the receiver has it, by `stoop account` over UDP, both \
              ends spinning on a processor each. Where today's kernel has one step for several of the paper's, these are added \
              up. The packet of 74 bytes is the call of Null(), that of 1514 the result of MaxResult(b). A veth pair has no \
              controller and no wire, and computes no checksum.",
        figures: 4,
        measure: latency::table_6,
    },
    Entry {
        name: "firefly-7",
        title: "Firefly Table VII: latency of stubs and RPC run time",
        how: "The steps of Null() in user space, by `stoop account` over UDP, both ends spinning on a processor each. The cost of \
              the stamps is taken out.",
        figures: 2,
        measure: latency::table_7,
    },
    Entry {
        name: "firefly-8",
        title: "Firefly Table VIII: calculation of latency for RPC to Null() and MaxResult(b)",
        how: "The sums of Tables VI and VII against the call that was measured without instruments in the same run.",
        figures: 4,
        measure: latency::table_8,
    },
    Entry {
        name: "firefly-9",
        title: "Firefly Table IX: stages of optimisation of the main path",
        how: "The paper recoded the Ethernet interrupt routine. Here the stages are switches that remain: the way to wait, \
              a socket for each thread or one for all, the kernel's protocol layers, the end-to-end checksum, the network. \
              Null() by one caller, on a processor each. The last group is no part of the paper's table: the cost of the slower path \
              (§3.2), by which a call or a result goes for which no thread waits. Its four calls are measured in turn over UDP.",
        figures: 12,
        measure: stages::table_9,
    },
    Entry {
        name: "firefly-10",
        title: "Firefly Table X: calls to Null() from one thread with varying numbers of processors",
        how: "As there, by the RPC Exerciser (stubs made by hand, which marshal nothing), over UDP on a private Ethernet (a veth \
              pair). Each end is bound to as many processors of this machine as the line says, and shares none with the other; lines \
              for which this machine has too few have no figure. Below them both ends share processors.",
        figures: 6,
        measure: processors::table_10,
    },
    Entry {
        name: "firefly-11",
        title: "Firefly Table XI: throughput of MaxResult(b) with varying numbers of processors and threads",
        how: "By the RPC Exerciser over UDP, as Table X, waiting adaptively. The first three groups are the paper's columns.",
        figures: 15,
        measure: processors::table_11,
    },
    Entry {
        name: "firefly-12",
        title: "Firefly Table XII: performance of remote RPC in other systems",
        how: "The paper collected what others had published. Below its systems stands Stoop over its transports, on this machine in this \
              run: the latency of Null() with both ends spinning, and the most that several calls of one packet of results \
              or long results bring.",
        figures: 9,
        measure: stages::table_12,
    },
];

const INCREMENTAL: &str = "What a call with these arguments takes more than Null(), as in the paper. First both stubs alone: the \
    emitted stub of the caller and that of the server run in one thread, one after the other, over one pair of packets, a thousand \
    calls at a time. Then whole calls, to another process of the same machine by shared memory, both ends spinning on a processor each. \
    Slices of 0.3 ms of Null() and of each call alternate, and differences are taken turn by turn. Those of whole calls are of the \
    size of the noise of a call, and may be negative.";
