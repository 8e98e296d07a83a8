//! `stoop ping`: whether a server answers, and how fast.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use stoop::health::{About, Health, StoopHealthClient};
use stoop::{BindError, BindOptions, CallError};

/// The server that `ping` calls, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PingArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// Number of calls; 0: until it is interrupted
    #[arg(short = 'n', long, default_value_t = 4)]
    count: u64,
    /// Seconds between the beginnings of two calls
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds, allow_negative_numbers = true)]
    interval: f64,
    /// Seconds until a call is lost
    #[arg(short, long, default_value_t = 5.0, value_parser = time_limit, allow_negative_numbers = true)]
    timeout: f64,
    /// Fails also if the interface of this name does not serve
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|why| why.to_string())?;
    if (0.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("from 0 to 86400".into()) }
}

/// As [`seconds`], but long enough for an answer to arrive.
fn time_limit(text: &str) -> Result<f64, String> {
    let is_enough = |limit: &f64| *limit >= 0.001;
    seconds(text).ok().filter(is_enough).ok_or_else(|| "from 0.001 to 86400".into())
}

/// Calls the server. Fails if a call was lost or the server does not serve.
pub(crate) fn run(args: &PingArgs) -> Result<ExitCode, String> {
    let timeout = Duration::from_secs_f64(args.timeout);
    let options = BindOptions::new().timeout(timeout).bind_timeout(timeout);
    let client = StoopHealthClient::bind_with(&args.uri, &options).map_err(|why| not_bound(&why))?;
    println!("{}", client.binding().describe());
    let mut about = client.about().map_err(|why| why.to_string())?;
    println!("{}", describe(&about));
    let mut times = Times::default();
    for number in 1.. {
        let begun = Instant::now();
        match client.ping() {
            Ok(()) => times.add(number, begun.elapsed()),
            Err(why) => times.lose(number, &why),
        }
        tell_restart(&client, &mut about);
        if number == args.count {
            break;
        }
        thread::sleep(Duration::from_secs_f64(args.interval).saturating_sub(begun.elapsed()));
    }
    println!("{}", times.summary());
    let serves = health_of(&client, args.interface.as_deref())?;
    Ok(if serves && times.lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn not_bound(why: &BindError) -> String {
    match why {
        BindError::NoSuchInterface { .. } => {
            format!(
                "a server answers, but it cannot be asked for its health; it is older than `stoop ping`: {why}"
            )
        }
        why => why.to_string(),
    }
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

/// Tells when another start of the server answers.
fn tell_restart(client: &StoopHealthClient, about: &mut About) {
    let Ok(now) = client.about() else { return };
    if now.incarnation != about.incarnation {
        println!("the server was restarted: {}", describe(&now));
    }
    *about = now;
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
}

impl Times {
    fn add(&mut self, number: u64, time: Duration) {
        println!("call {number}: {time:.1?}");
        self.all.push(time);
    }

    fn lose(&mut self, number: u64, why: &CallError) {
        println!("call {number}: {why}");
        self.lost += 1;
    }

    fn summary(&self) -> String {
        let Self { all, lost } = self;
        let mut sorted = all.clone();
        sorted.sort();
        let calls = all.len() as u64 + lost;
        let times = match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
            (Some(min), Some(median), Some(max)) => {
                format!("; min {min:.1?}, median {median:.1?}, max {max:.1?}")
            }
            _ => String::new(),
        };
        format!("{calls} calls, {lost} lost{times}")
    }
}
