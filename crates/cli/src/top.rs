//! `stoop top`: which procedures of a running server take the time, and for which callers.

mod view;

use crate::remote::{not_bound, seconds};
use crate::terminal;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use stoop::account::{ServerAccount, StoopAccountClient, counters_for_prometheus};
use stoop::health::{About, StoopHealthClient};
use stoop::{BindOptions, CallError};
use view::View;

/// The server that `top` shows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds(0.05))]
    interval: f64,
    /// Number of looks; 0: until it is interrupted
    #[arg(short = 'n', long, default_value_t = 0)]
    count: u64,
    /// Prints one table, of the time since the server's start, and ends
    #[arg(long)]
    once: bool,
    /// Prints a JSON object for each look
    #[arg(long)]
    json: bool,
    /// Prints the server's counters and account in the text form of Prometheus, and ends
    #[arg(long, conflicts_with_all = ["json", "once"])]
    prometheus: bool,
    /// Callers that are shown at most
    #[arg(long, default_value_t = 10)]
    peers: u32,
}

/// A server's report at one time.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    up: Duration,
    incarnation: u64,
    account: ServerAccount,
    counters: Vec<(String, u64)>,
}

/// The interfaces by which a server is asked.
struct Asked {
    account: StoopAccountClient,
    health: StoopHealthClient,
}

impl Asked {
    fn bind(uri: &str) -> Result<Self, String> {
        let options = BindOptions::new().timeout(Duration::from_secs(5));
        let account = StoopAccountClient::bind_with(uri, &options).map_err(|why| not_bound("top", &why))?;
        let health = StoopHealthClient::bind_with(uri, &options).map_err(|why| not_bound("top", &why))?;
        Ok(Self { account, health })
    }

    fn look(&self) -> Result<Look, CallError> {
        let About { up, incarnation, .. } = self.health.about()?;
        let (account, counters) = (self.account.account(PEERS_ASKED)?, self.account.counters()?);
        Ok(Look { at: Instant::now(), up, incarnation, account, counters })
    }
}

/// Number of callers in a query: more than the table shows, because the busiest callers differ from query to query.
const PEERS_ASKED: u32 = 256;

/// Asks the server and shows what it tells, until it has done so often enough.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, String> {
    let asked = Asked::bind(&args.uri)?;
    let mut last = asked.look().map_err(|why| why.to_string())?;
    if args.prometheus {
        let counters = counters_for_prometheus(&last.counters);
        return print(&format!("{counters}{}", last.account.prometheus()));
    }
    if args.once {
        return print(&shown(args, &View::since_start(&last)));
    }
    // The first look may be long in coming.
    if args.interval > 2.0 && io::stderr().is_terminal() {
        let TopArgs { uri, interval, .. } = args;
        eprintln!("{uri} answers; the first table comes in {interval} s");
    }
    for number in 1.. {
        thread::sleep(Duration::from_secs_f64(args.interval));
        let look = asked.look().map_err(|why| why.to_string())?;
        let view = View::between(&last, &look);
        // A terminal shows the newest look only; a file keeps them all.
        let clear = if io::stdout().is_terminal() && !args.json { "\x1b[H\x1b[2J" } else { "" };
        print(&format!("{clear}{}", shown(args, &view)))?;
        last = look;
        if number == args.count {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(args: &TopArgs, view: &View) -> String {
    match args.json {
        true => serde_json::to_string(view).expect("a view has only numbers and texts") + "\n",
        false => view.table(&args.uri, args.peers as usize, terminal::columns()),
    }
}

/// Prints, unless the reader has gone.
fn print(text: &str) -> Result<ExitCode, String> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map(|()| ExitCode::SUCCESS).map_err(|why| format!("standard output: {why}"))
}
