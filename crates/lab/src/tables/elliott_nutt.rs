//! The tables of Elliott and Nutt (1989): a call within a program, Sun RPC, and protocols made by hand.

pub(super) mod by_hand;
mod libtirpc;
mod parts;
mod profile;
pub(super) mod programs;
mod select;
mod tables;

use super::entry::Entry;

pub(crate) const TABLES: &[Entry] = &[
    Entry {
        name: "elliott-nutt-1",
        title: "Elliott & Nutt Table 1: the same measurement 25 times",
        how: "Program Two (Sun RPC over UDP) calls a procedure without arguments on the same machine: 25 runs of 1000 calls. \
              Client and server share one processor, as on a Sun 3/50, and speak over loopback.",
        figures: 2,
        measure: tables::table_1,
    },
    Entry {
        name: "elliott-nutt-2",
        title: "Elliott & Nutt Table 2: function calls",
        how: "Program One: a loop that is empty, or calls a function that the compiler may not look into; 15 repetitions.",
        figures: 2,
        measure: tables::table_2,
    },
    Entry {
        name: "elliott-nutt-3",
        title: "Elliott & Nutt Table 3: remote procedure calls",
        how: "Programs Two, Three and Four in turn, slice by slice. All of them sleep until a packet has come. Local: client and \
              server share one processor and speak over loopback. Remote: a processor each, and a veth pair between them. \
              Program Two is the Sun RPC of Stoop; beside it stands libtirpc, if it is installed with a C compiler.",
        figures: 36,
        measure: tables::table_3,
    },
    Entry {
        name: "elliott-nutt-4",
        title: "Elliott & Nutt Tables 4a and 4b: profile of Program Three",
        how: "The client of Program Three on the local machine, each system call timed. The \
              paper's profile counted processor time; this is time on the clock, so that waiting for the server's turn on the \
              shared processor is part of the call that waits (recvfrom, or select). The paper counts three loops of 1000 calls.",
        figures: 2,
        measure: profile::table_4,
    },
    Entry {
        name: "elliott-nutt-5",
        title: "Elliott & Nutt Table 5: profile of Program Two",
        how: "The client of libtirpc as in Table 4, its system calls timed as it makes them; what is left is XDR and the rest of the \
              library. One of today's C libraries makes other system calls than Sun's: each is named. Then XDR and dispatch of a call \
              with 4 bytes, each apart: loops over the XDR routines that client and server run for a call, and the time from a call that \
              the server has received to its procedure. Then the same of Stoop's own Sun RPC, whose system calls are those of Program \
              Three; the rest is the difference. The paper's figures are those of its text, for the client.",
        figures: 5,
        measure: profile::table_5,
    },
];
