//! `stoop ping`: whether a server answers, and how fast.

use crate::remote::{not_bound, seconds};
use crate::terminal;
use serde_json::json;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use stoop::health::{About, Health, StoopHealthClient};
use stoop::{BindOptions, CallError};

/// The server that `ping` calls, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PingArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// Number of calls; 0: until it is interrupted
    #[arg(short = 'n', long, default_value_t = 4)]
    count: u64,
    /// Seconds between the beginnings of two calls
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds(0.0), allow_negative_numbers = true)]
    interval: f64,
    /// Seconds until a call is lost
    #[arg(short, long, default_value_t = 5.0, value_parser = seconds(0.001), allow_negative_numbers = true)]
    timeout: f64,
    /// Fails also if the interface of this name does not serve
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Prints one JSON object for each call, and one with the sum, in place of the lines for people
    #[arg(long)]
    json: bool,
}

/// Calls the server. Fails if a call was lost or the server does not serve.
pub(crate) fn run(args: &PingArgs) -> Result<ExitCode, String> {
    let timeout = Duration::from_secs_f64(args.timeout);
    let options = BindOptions::new().timeout(timeout).bind_timeout(timeout);
    let client = StoopHealthClient::bind_with(&args.uri, &options).map_err(|why| not_bound("ping", &why))?;
    let mut about = client.about().map_err(|why| why.to_string())?;
    if !args.json {
        println!("{}\n{}", client.binding().describe(), describe(&about));
    }
    let mut times = Times { json: args.json, ..Times::default() };
    for number in 1.. {
        let begun = Instant::now();
        match client.ping() {
            Ok(()) => times.add(number, begun.elapsed()),
            Err(why) => times.lose(number, &why),
        }
        let is_restarted = note_restart(&client, &mut about);
        if is_restarted && !args.json {
            println!("the server was restarted: {}", describe(&about));
        }
        if number == args.count {
            break;
        }
        thread::sleep(Duration::from_secs_f64(args.interval).saturating_sub(begun.elapsed()));
    }
    times.say(&times.summary_in_json(client.binding().describe(), &about), &times.summary());
    let serves = health_of(&client, args.interface.as_deref())?;
    Ok(if serves && times.lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(about: &About) -> String {
    let About { incarnation, up, health, interfaces } = about;
    let interfaces: Vec<_> =
        interfaces.iter().map(|(name, health)| format!("{name} {}", word(*health))).collect();
    format!("incarnation {incarnation:016x}, up for {up:.1?}, {}; {}", word(*health), interfaces.join(", "))
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Serving => "serving",
        Health::NotServing => "not serving",
        Health::ShuttingDown => "shutting down",
        _ => "in a state that this command does not know",
    }
}

/// Asks the server again. Returns whether another start of it answers.
fn note_restart(client: &StoopHealthClient, about: &mut About) -> bool {
    let Ok(now) = client.about() else { return false };
    let is_another = now.incarnation != about.incarnation;
    *about = now;
    is_another
}

fn health_of(client: &StoopHealthClient, interface: Option<&str>) -> Result<bool, String> {
    let name = interface.unwrap_or_default();
    match client.check(name).map_err(|why| why.to_string())? {
        Some(Health::Serving) => Ok(true),
        Some(health) => Err(format!("{}: {}", interface.unwrap_or("the server"), word(health))),
        None => Err(format!("the server exports no interface of the name {name}")),
    }
}

/// The times of the calls so far.
#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    lost: u64,
    json: bool,
}

impl Times {
    fn add(&mut self, number: u64, time: Duration) {
        self.say(
            &json!({ "call": number, "ns": time.as_nanos() as u64 }),
            &format!("call {number}: {time:.1?}"),
        );
        self.all.push(time);
    }

    fn lose(&mut self, number: u64, why: &CallError) {
        let line = terminal::failure(&format!("call {number}: {why}"));
        self.say(&json!({ "call": number, "error": why.to_string() }), &line);
        self.lost += 1;
    }

    /// Prints an object for programs, or a line for people.
    fn say(&self, object: &serde_json::Value, line: &str) {
        if self.json { println!("{object}") } else { println!("{line}") }
    }

    fn calls(&self) -> u64 {
        self.all.len() as u64 + self.lost
    }

    /// The shortest, the median and the longest, if there are some.
    fn spread(&self) -> Option<[Duration; 3]> {
        let mut sorted = self.all.clone();
        sorted.sort();
        Some([*sorted.first()?, sorted[sorted.len() / 2], *sorted.last()?])
    }

    fn summary(&self) -> String {
        let times = self.spread().map_or_else(String::new, |[min, median, max]| {
            format!("; min {min:.1?}, median {median:.1?}, max {max:.1?}")
        });
        format!("{} calls, {} lost{times}", self.calls(), self.lost)
    }

    fn summary_in_json(&self, binding: String, about: &About) -> serde_json::Value {
        let [min, median, max] =
            self.spread().map_or([None; 3], |spread| spread.map(|time| Some(time.as_nanos() as u64)));
        let interfaces = about.interfaces.iter().map(|(name, health)| (name.clone(), word(*health).into()));
        json!({
            "calls": self.calls(), "lost": self.lost, "min_ns": min, "median_ns": median, "max_ns": max,
            "binding": binding, "incarnation": format!("{:016x}", about.incarnation),
            "up_seconds": about.up.as_secs_f64(), "health": word(about.health),
            "interfaces": interfaces.collect::<serde_json::Map<_, _>>(),
        })
    }
}
