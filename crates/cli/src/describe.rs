//! `stoop describe`: what a running server offers.

use crate::remote::{TIMEOUT, ask, dynamic_of, options};
use crate::sun::{self, XFile};
use crate::terminal::{harmless, shown};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use stoop::reflection;
use stoop::{BindOptions, Server};
use stoop_schema::Signature;
use stoop_schema::json::Json;
use stoop_schema::rust::Interface;

/// The server that `describe` asks.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// The interface that is printed as Rust [default: an overview of all]
    interface: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints a line for each procedure, with its fingerprint: `stoop dissector` shows packets by names with a file of them
    #[arg(long, conflicts_with = "json")]
    names: bool,
    #[command(flatten)]
    sun: XFile,
}

pub(crate) fn run(args: &DescribeArgs) -> Result<ExitCode, String> {
    let options = options(TIMEOUT);
    let ask = |name: &str| ask(&args.uri, name, &options);
    let text = match &args.interface {
        name if sun::is_address(&args.uri) => args.sun.describe(&args.uri, name.as_deref(), args.json)?,
        name if args.names => names(&args.uri, name.as_deref(), &options)?,
        Some(name) if args.json => shown(&ask(name)?.json()) + "\n",
        Some(name) => ask(name)?.rust(),
        None => {
            let names = reflection::interfaces(&args.uri, &options).map_err(|why| why.to_string())?;
            let all = names.iter().map(|name| ask(name)).collect::<Result<Vec<_>, _>>()?;
            match args.json {
                true => shown(&Json::Array(all.iter().map(Interface::json).collect())) + "\n",
                false => {
                    all.iter().map(Interface::overview).collect::<String>() + &next_steps(&args.uri, &all)
                }
            }
        }
    };
    print!("{}", harmless(&text));
    Ok(ExitCode::SUCCESS)
}

/// What a person at a terminal can do next.
fn next_steps(uri: &str, all: &[Interface]) -> String {
    let Some(of) = all.iter().find(|of| !of.procedures.is_empty() && io::stdout().is_terminal()) else {
        return String::new();
    };
    let (name, Signature { name: procedure, parameters, .. }) = (&of.name, &of.procedures[0].signature);
    let given = parameters.iter().filter(|each| each.is_given()).map(|each| format!(" {}=…", each.name));
    let given: String = given.collect();
    format!(
        "\nIts types:  stoop describe {uri} {name}\nA call:     stoop call {uri} {name}.{procedure}{given}\n"
    )
}

/// The names of procedures for the dissector. Without an interface those of all, also of the ones that every server has.
fn names(uri: &str, interface: Option<&str>, options: &BindOptions) -> Result<String, String> {
    let told = match interface {
        Some(name) => vec![name.to_owned()],
        None => reflection::interfaces(uri, options).map_err(|why| why.to_string())?,
    };
    let mut lines = if interface.is_none() { Server::new().names() } else { String::new() };
    // A hostile server may tell an interface name with line breaks, which the dissector would read as further procedures.
    let is_name = |name: &&String| name.chars().all(|each| each.is_alphanumeric() || each == '_');
    for name in told.iter().filter(is_name) {
        lines += &dynamic_of(&ask(uri, name, options)?).map_err(|why| why.to_string())?.names();
    }
    Ok(lines)
}
