//! The command line: the words for a cell, and which of them were given.

mod attack;
mod ethernet;
mod procedure;
mod tables;
mod units;

pub(crate) use attack::Attack;
use clap::{Subcommand, ValueEnum};
pub(crate) use ethernet::Part;
pub(crate) use procedure::{DATA_LEN, Procedure, Results};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use stoop_ether::{Backend, Mode, XdpOptions};
pub(crate) use tables::{Program, ProgramArgs, TablesArgs};
pub(crate) use units::{LinkRate, Silence, format_bytes};

/// The commands that measure, and those of the processes that they start.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measures calls to Null(), MaxArg(b) and MaxResult(b), each beside the bare exchange of its transport.
    ///
    /// Without options it prints, in under a minute, Table I of the Firefly paper for UDP, one line for each transport, many
    /// outstanding calls, and long arguments and results. With options that choose, it measures every combination of the choice.
    Bench(Box<BenchArgs>),
    /// Measures what the network alone costs, by bare frames of the sizes in the Peregrine paper, and calls beside it.
    Penalty(PenaltyArgs),
    /// Says where the time of a call goes: each step of caller, server and kernel, as Tables VI to VIII of the Firefly paper do.
    ///
    /// It needs a program that was built with the cargo feature `account`. The steps within the kernel are told apart where the
    /// kernel's tracepoints may be read (root, or CAP_PERFMON).
    Account(AccountArgs),
    /// Measures the tables of the three papers on this machine, and prints the papers' figures beside today's.
    Tables(TablesArgs),
    /// The server process of `bench`.
    #[command(hide = true)]
    BenchServe(ServeArgs),
    /// The server process of `bench --overload`.
    #[command(hide = true)]
    BenchOverloaded(ServeArgs),
    /// The server process of `bench --greedy`.
    #[command(hide = true)]
    BenchGreedyServer(ServeArgs),
    /// The attacker's process of `bench --greedy`.
    #[command(hide = true)]
    BenchGreedyAttacker(AttackArgs),
    /// The server process of `bench --pipes`.
    #[command(hide = true)]
    BenchPipesServer(ServeArgs),
    /// The process at the other end of the bare exchange of `bench`.
    #[command(hide = true)]
    BenchEcho(EchoArgs),
    /// The process at the other end of the bare frames of `penalty`.
    #[command(hide = true)]
    PenaltyEcho(PenaltyEchoArgs),
    /// A server process of `tables`.
    #[command(hide = true)]
    TablesServe(ProgramArgs),
    /// The process that keeps a processor busy beside callers.
    #[command(hide = true)]
    BenchBusy(BusyArgs),
    /// Makes the private Ethernet of `bench` and takes it down again: says whether that can be done here.
    #[command(hide = true)]
    BenchNetwork,
}

/// The measurements that `bench` makes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BenchArgs {
    /// Transports [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TRANSPORT")]
    pub(crate) transport: Vec<Transport>,
    /// Procedures [default: null, max-arg and max-result; with --bytes the bulk procedures, with --in-flight or --results null]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROCEDURE")]
    pub(crate) procedure: Vec<Procedure>,
    /// Size of the argument or the result of bulk procedures, such as 48000, 64KiB or 1MiB; with it, max-arg is bulk-in and
    /// max-result bulk-out [default: 48kB,1MiB,16MiB]
    #[arg(long, value_delimiter = ',', value_name = "SIZE", value_parser = |word: &str| units::parse_bytes(word, BYTES_MAX))]
    pub(crate) bytes: Vec<u32>,
    /// Outstanding calls of each caller thread [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) in_flight: Vec<u16>,
    /// How callers take the results of outstanding calls [default: wait; with this, 32 and 256 calls are outstanding unless
    /// --in-flight says otherwise]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "HOW")]
    pub(crate) results: Vec<Results>,
    /// Limit the private Ethernet to this rate, in both directions [default: as fast as it goes]
    #[arg(long, value_delimiter = ',', value_name = "RATE")]
    pub(crate) rate: Vec<LinkRate>,
    /// Numbers of caller threads [default: 1,2,3,4,5,6,7,8; with --bytes, --in-flight, --results, --clients, --silence or --busy 1]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) callers: Vec<u16>,
    /// Clients bound at a time, of which all but one are idle [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) clients: Vec<u16>,
    /// Let each caller be silent for so long before each call, which is timed by itself [default: not at all]
    #[arg(long, value_delimiter = ',', value_name = "TIME")]
    pub(crate) silence: Vec<Silence>,
    /// How caller and server wait for a packet [default: adaptive]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAITING")]
    pub(crate) waiting: Vec<Waiting>,
    /// Caller and server on a processor each (2), or sharing one (1) [default: 2; with --busy 1]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NUMBER")]
    pub(crate) processors: Vec<Processors>,
    /// Keep the callers' processor busy with a process that does nothing
    #[arg(long)]
    pub(crate) busy: bool,
    /// Have all callers of a binding over UDP share one socket
    #[arg(long)]
    pub(crate) share_endpoints: bool,
    /// Print what becomes of so many times the calls that the server can do; only with --transport, --waiting and --short
    #[arg(long, value_delimiter = ',', value_name = "TIMES", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) overload: Vec<u16>,
    /// Attack the server from another host or user, which takes all bindings, workers and memory that it can get, and print how
    /// fast another caller is served meanwhile; only with --attack, --transport, --waiting and --short; --calls is the victim's number of bindings
    #[arg(long)]
    pub(crate) greedy: bool,
    /// Attacks of --greedy [default: all that the transport has]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ATTACK", requires = "greedy")]
    pub(crate) attack: Vec<Attack>,
    /// Print how fast items go through pipes, beside calls and bare exchanges; chosen with --transport, --waiting and --short only
    #[arg(long)]
    pub(crate) pipes: bool,
    /// Take a tenth of the time for --overload, --greedy and --pipes, to see that they run: the figures mean little, and times are not judged
    #[arg(long)]
    pub(crate) short: bool,
    /// Make so many bindings, each with one call of Null(), and print the memory that each takes at the server; chosen with
    /// --transport only
    #[arg(long, value_delimiter = ',', value_name = "N", num_args = 0..=1, default_missing_value = "1000,10000")]
    pub(crate) bindings: Vec<u32>,
    /// Measure what calls in Ethernet frames are to reach, all of it or these parts, and print whether they do; about a minute a
    /// part; chosen with --calls and --json only
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART", num_args = 0..)]
    pub(crate) ethernet: Option<Vec<Part>>,
    /// Send frames of ether without a CRC-32C
    #[arg(long)]
    pub(crate) no_checksum: bool,
    /// Print every default table with all columns (about 190 lines, two to three minutes)
    #[arg(long)]
    pub(crate) full: bool,
    /// Calls to measure for each figure [default: as many as fit in its share of the time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: Option<u64>,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl BenchArgs {
    /// Whether anything was chosen, so that the default tables do not apply.
    pub(crate) fn any_choice(&self) -> bool {
        !(self.transport.is_empty()
            && self.procedure.is_empty()
            && self.bytes.is_empty()
            && self.in_flight.is_empty()
            && self.results.is_empty()
            && self.rate.is_empty()
            && self.callers.is_empty()
            && self.clients.is_empty()
            && self.silence.is_empty()
            && !self.busy
            && !self.share_endpoints
            && !self.no_checksum
            && self.waiting.is_empty()
            && self.processors.is_empty())
    }
}

/// The call that `account` takes apart.
#[derive(Clone, Debug, clap::Args)]
pub struct AccountArgs {
    /// Transport
    #[arg(long, value_enum, default_value = "udp")]
    pub(crate) transport: Transport,
    /// Procedure: null, max-arg or max-result
    #[arg(long, value_enum, default_value = "null")]
    pub(crate) procedure: Procedure,
    /// How caller and server wait for a packet
    #[arg(long, value_enum, default_value = "spin")]
    pub(crate) waiting: Waiting,
    /// Caller and server on a processor each (2), or sharing one (1)
    #[arg(long, value_enum, default_value = "2")]
    pub(crate) processors: Processors,
    /// Rounds: each measures the call without instruments, with stamps, and with one tracepoint after the other
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Take the kernel as one step, though its tracepoints may be read
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Fit t_L = t_B + x·T_N, too: the latency over the bytes of an argument or a result
    #[arg(long)]
    pub(crate) model: bool,
    /// Write the picture of one call to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the picture for a narrow screen, such as a phone's, to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg_narrow: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of the server process.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
    #[arg(long, value_enum)]
    pub(crate) waiting: Waiting,
    #[arg(long)]
    pub(crate) cpu: usize,
    #[arg(long)]
    pub(crate) address: Ipv4Addr,
    #[arg(long)]
    pub(crate) path: PathBuf,
    #[arg(long)]
    pub(crate) no_checksum: bool,
    /// Most bindings.
    #[arg(long, default_value_t = 1024)]
    pub(crate) bindings: usize,
}

/// What the attacker is told.
#[derive(Clone, Debug, clap::Args)]
pub struct AttackArgs {
    #[arg(long, value_enum)]
    pub(crate) attack: Attack,
    #[arg(long)]
    pub(crate) uri: String,
    #[arg(long)]
    pub(crate) user: Option<u32>,
}

/// The arguments of the other end of the bare exchange.
#[derive(Clone, Debug, clap::Args)]
pub struct EchoArgs {
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[arg(long, value_enum)]
    pub(crate) caller_waiting: Waiting,
    #[arg(long)]
    pub(crate) caller_address: Ipv4Addr,
    #[arg(long)]
    pub(crate) callers: u16,
    #[arg(long, value_enum)]
    pub(crate) procedure: Procedure,
    #[arg(long)]
    pub(crate) bytes: u32,
    #[arg(long)]
    pub(crate) in_flight: u16,
    #[arg(long)]
    pub(crate) window: u32,
    #[arg(long)]
    pub(crate) records: bool,
}

/// The measurements that `penalty` makes.
#[derive(Clone, Debug, clap::Args)]
pub struct PenaltyArgs {
    /// The kernel's mechanism: ether (a packet ring), ether-xdp or ether-xdp-generic
    #[arg(long, value_enum, default_value = "ether", value_name = "TRANSPORT")]
    pub(crate) transport: Transport,
    /// Round trips to measure of a frame; of several in a row as many fewer
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: u64,
}

/// The arguments of the other end of bare frames.
#[derive(Clone, Debug, clap::Args)]
pub struct PenaltyEchoArgs {
    #[arg(long, value_enum)]
    pub(crate) transport: Transport,
    #[arg(long)]
    pub(crate) cpu: usize,
    #[arg(long)]
    pub(crate) data: usize,
    #[arg(long)]
    pub(crate) frames: usize,
}

/// The arguments of the busy process.
#[derive(Clone, Debug, clap::Args)]
pub struct BusyArgs {
    #[arg(long)]
    pub(crate) cpu: usize,
}

/// A transport of the library, by the scheme of its addresses. Each has a bare exchange of its own in `floor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Unix,
    Shm,
    Local,
    /// On packet rings.
    Ether,
    /// On AF_XDP in the interface's driver.
    EtherXdp,
    /// On AF_XDP behind the driver.
    EtherXdpGeneric,
}

impl Transport {
    /// Those that every machine has.
    pub(crate) const OF_OVERVIEW: [Transport; 5] =
        [Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm, Transport::Local];
    /// One for each scheme of the library.
    pub(crate) const SCHEMES: [Transport; 6] =
        [Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm, Transport::Local, Transport::Ether];

    /// The scheme of its addresses.
    pub(crate) fn scheme(self) -> String {
        self.to_possible_value().expect("no transport is hidden").get_name().to_owned()
    }

    /// The mechanism of the kernel that carries its frames, if it is an Ethernet.
    pub(crate) fn backend(self) -> Option<Backend> {
        match self {
            Transport::Ether => Some(Backend::PacketRing),
            Transport::EtherXdp => Some(Backend::Xdp(XdpOptions::new(Mode::Native))),
            Transport::EtherXdpGeneric => Some(Backend::Xdp(XdpOptions::new(Mode::Generic))),
            _ => None,
        }
    }
}

/// How both ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Waiting {
    Spin,
    Block,
    Adaptive,
}

/// How many processors caller and server have between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Processors {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

impl Processors {
    pub(crate) fn number(self) -> u32 {
        match self {
            Processors::One => 1,
            Processors::Two => 2,
        }
    }
}

impl Serialize for Processors {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.number())
    }
}

/// Sizes of bulk data unless others are asked for: Peregrine's, and two that fill no cache and every cache.
pub(crate) const BYTES_DEFAULT: [u32; 3] = [48_000, 1 << 20, 16 << 20];
/// The most data that a binding admits in a message unless told otherwise.
const BYTES_MAX: u32 = 64 << 20;

/// The name of a choice as it is typed.
pub(crate) fn name_of(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(subcommand)]
        command: Command,
    }

    fn bench(line: &str) -> Result<BenchArgs, clap::Error> {
        match Args::try_parse_from(["stoop", "bench"].into_iter().chain(line.split_whitespace()))?.command {
            Command::Bench(bench) => Ok(*bench),
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn commas_and_repetition_mean_the_same() {
        let commas = bench("--transport udp,local --callers 1,8").expect("commas parse");
        let repeated =
            bench("--transport udp --transport local --callers 1 --callers 8").expect("repetition parses");
        assert_eq!(commas.transport, [Transport::Udp, Transport::Local]);
        assert_eq!(commas.transport, repeated.transport);
        assert_eq!(commas.callers, repeated.callers);
    }

    #[test]
    fn a_number_of_calls_is_not_a_choice_of_cells() {
        assert!(!bench("--calls 200 --json --full").expect("parses").any_choice());
        assert!(bench("--processors 1").expect("parses").any_choice());
    }

    #[test]
    fn sizes_take_units() {
        assert_eq!(bench("--bytes 48kB,1MiB").expect("parses").bytes, [48_000, 1 << 20]);
    }

    #[test]
    fn every_transport_of_the_library_can_be_measured() {
        for scheme in stoop::scheme_names() {
            bench(&format!("--transport {scheme}")).expect("a floor of that transport");
        }
        assert!(
            Transport::SCHEMES
                .iter()
                .map(|transport| transport.scheme())
                .eq(["udp", "tcp", "unix", "shm", "local", "ether"])
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--transport calls-pigeon",
            "--callers 0",
            "--processors 3",
            "--calls 0",
            "--waiting never",
            "--bytes 0",
            "--bytes 4294967295",
            "--bytes 1TiB",
            "--in-flight 0",
            "--results never",
            "--rate 10",
            "--rate 0mbit",
            "--silence 10",
            "--silence 0ms",
            "--clients 0",
        ] {
            assert!(bench(line).is_err(), "{line} was accepted");
        }
    }
}
