//! `stoop top`: which procedures of a running server take the time, and for which callers.

mod view;

use crate::terminal;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use stoop::account::{ServerAccount, StoopAccountClient, counters_for_prometheus};
use stoop::health::StoopHealthClient;
use stoop::{BindError, BindOptions};
use view::View;

/// The server that `top` shows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
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

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|why| why.to_string())?;
    if (0.05..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.05 to 3600".into()) }
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
        let account = StoopAccountClient::bind_with(uri, &options).map_err(|why| not_bound(&why))?;
        let health = StoopHealthClient::bind_with(uri, &options).map_err(|why| not_bound(&why))?;
        Ok(Self { account, health })
    }

    fn look(&self, peers_max: u32) -> Result<Look, String> {
        let look = || {
            let about = self.health.about()?;
            let (account, counters) = (self.account.account(peers_max)?, self.account.counters()?);
            let (up, incarnation) = (about.up, about.incarnation);
            Ok(Look { at: Instant::now(), up, incarnation, account, counters })
        };
        look().map_err(|why: stoop::CallError| why.to_string())
    }
}

fn not_bound(why: &BindError) -> String {
    match why {
        BindError::NoSuchInterface { .. } => {
            format!("a server answers, but it tells no account; it is older than `stoop top`: {why}")
        }
        why => why.to_string(),
    }
}

/// Number of callers in a query: more than the table shows, because the busiest callers differ from query to query.
const PEERS_ASKED: u32 = 256;

/// Asks the server and shows what it tells, until it has done so often enough.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, String> {
    let asked = Asked::bind(&args.uri)?;
    let mut last = asked.look(PEERS_ASKED)?;
    if args.prometheus {
        let counters = counters_for_prometheus(&last.counters);
        print(&format!("{counters}{}", last.account.prometheus()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.once {
        print(&shown(args, &View::since_start(&last)))?;
        return Ok(ExitCode::SUCCESS);
    }
    // The first look may be long in coming.
    if args.interval > 2.0 && io::stderr().is_terminal() {
        let TopArgs { uri, interval, .. } = args;
        eprintln!("{uri} answers; the first table comes in {interval} s");
    }
    for number in 1.. {
        thread::sleep(Duration::from_secs_f64(args.interval));
        let look = asked.look(PEERS_ASKED)?;
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
fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|why| format!("standard output: {why}"))
}
