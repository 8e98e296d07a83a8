//! `stoop call`: a call of a running server, whose types are not known before.

use crate::prepared::{Made, NoResult, Prepared, read_file};
use crate::remote::{ask, dynamic_of, options, seconds};
use crate::sun::{self, XFile};
use crate::terminal::{harmless, shown};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stoop::dynamic::{self, Client};
use stoop::{CallError, Ran};
use stoop_schema::json::Json;
use stoop_schema::{Argument, Mode, Outcome, Signature};

/// The call that `call` makes.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CallArgs {
    /// Address of the server, as udp://HOST:PORT, or its name
    uri: String,
    /// The procedure, as Greeter.greet
    procedure: String,
    /// The arguments, as name=TEXT, or one JSON object with all
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Seconds in which the call has to end
    #[arg(short, long, default_value_t = 30.0, value_parser = seconds(0.001), allow_negative_numbers = true)]
    timeout: f64,
    /// Makes the call so often, one after the other
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// Prints an object with the outcome, whether the procedure ran, the time, and the result
    #[arg(long, conflicts_with = "raw")]
    json: bool,
    /// Prints the bytes of a text or of bytes in the result (of a pipe: in each item) as they are: of the part at this path, or of all for an empty one
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    #[command(flatten)]
    sun: XFile,
}

const AFTER_HELP: &str = "\
Arguments:
  name=TEXT       a text, number or name of a variant, as the type wants it
  name=@FILE      the bytes of a file; - is standard input
  name:=JSON      JSON; name:=@FILE from a file
  {…}, @FILE, -   JSON of all arguments, also from a file or standard input
  TEXT            as name=TEXT, of the next argument

Pipes: each item from the procedure is printed as a line of JSON when it comes;
  each line of standard input is an item to it. Ctrl-C cancels the call.

Exit status: 0 a result, 1 the procedure's own error, 2 wrong usage,
  3 the procedure did not run, 4 it ran and there is no result, 5 it may have run";

pub(crate) fn run(args: &CallArgs) -> ExitCode {
    match prepared(args).and_then(|call| call.make_all(args)) {
        Ok(status) => ExitCode::from(status),
        Err(NoResult(why, status)) => {
            eprintln!("{}", harmless(&why));
            ExitCode::from(status)
        }
    }
}

fn prepared(args: &CallArgs) -> Result<Prepared, NoResult> {
    let timeout = Duration::from_secs_f64(args.timeout);
    match sun::is_address(&args.uri) {
        true => args.sun.prepared(&args.uri, (&args.procedure, &args.arguments), timeout),
        false => native(args, timeout),
    }
}

/// A call by Stoop's own protocol.
fn native(args: &CallArgs, timeout: Duration) -> Result<Prepared, NoResult> {
    let (interface, procedure) = args.procedure.rsplit_once(['.', '/']).ok_or_else(|| {
        let lists = format!("`stoop describe {}` lists them", args.uri);
        NoResult::usage(format!("the procedure is written as INTERFACE.PROCEDURE; {lists}"))
    })?;
    let options = options(timeout);
    let interface = ask(&args.uri, interface, &options).map_err(NoResult::not_run)?;
    let (number, of) = interface.procedure(procedure).map_err(NoResult::usage)?;
    let signature = of.signature.clone();
    let arguments = signature.arguments_of_words(&args.arguments, &mut read_file).map_err(NoResult::usage)?;
    signature.call_bytes(&arguments, 0).map_err(NoResult::usage)?;
    let has_pipe = |mode| signature.pipe(mode).is_some();
    let (has_items, takes_items) = (has_pipe(Mode::PipeOut), has_pipe(Mode::PipeIn));
    if takes_items && args.repeat > 1 {
        return Err(NoResult::usage(
            "the items are read from standard input, for one call; leave --repeat out",
        ));
    }
    let dynamic = dynamic_of(&interface).map_err(NoResult::not_run)?;
    let client = Client::bind(&args.uri, dynamic, &options).map_err(NoResult::not_run)?;
    let transport = client.binding().describe();
    let call = Native { client, number, signature, arguments };
    let raw = args.raw.clone();
    let make = move || match has_items || takes_items {
        true => call.make_with_pipes(raw.as_deref()),
        false => Ok(call.make().map(|outcome| call.signature.json_of_outcome(&outcome))),
    };
    Ok(Prepared { make: Box::new(make), has_items, transport })
}

/// A call by Stoop's own protocol.
pub(crate) struct Native {
    pub(crate) client: Client,
    pub(crate) number: u16,
    pub(crate) signature: Signature,
    pub(crate) arguments: Vec<Argument>,
}

impl Native {
    /// The payload.
    pub(crate) fn written(&self, window: u64) -> Vec<u8> {
        self.signature.call_bytes(&self.arguments, window).expect("it has been written before")
    }

    fn make(&self) -> Result<Outcome, CallError> {
        let write = |writer: &mut dynamic::Writer<'_>| writer.scalars(&self.written(0));
        if self.signature.one_way {
            self.client.tell(self.number, write)?;
            // The process ends, and the call would end with it.
            let _ = self.client.binding().flush(Duration::from_secs(30));
            return Ok(Outcome { returned: None, back: Vec::new() });
        }
        self.client.call(self.number, write, |result| self.signature.take_result(&self.arguments, result))
    }
}

impl Prepared {
    /// Makes the call as often as it was asked for. Returns the worst exit status.
    fn make_all(&self, args: &CallArgs) -> Result<u8, NoResult> {
        let mut worst = 0;
        for _ in 0..args.repeat {
            let begun = Instant::now();
            let outcome = (self.make)()?;
            let took = begun.elapsed();
            worst = worst.max(self.print(args, outcome, took)?);
        }
        Ok(worst)
    }

    /// Prints the outcome. Returns its exit status.
    fn print(&self, args: &CallArgs, outcome: Made, took: Duration) -> Result<u8, NoResult> {
        let status = match &outcome {
            Ok((_, is_error)) => u8::from(*is_error),
            Err(why) => match why.ran() {
                Ran::No => 3,
                Ran::Yes => 4,
                Ran::Perhaps => 5,
            },
        };
        if args.json {
            println!("{}", shown(&self.envelope(&outcome, took)));
            return Ok(status);
        }
        match outcome {
            // The items have been printed: a result that is nothing, or whose bytes were not asked for, adds no line.
            Ok((json, false)) if self.has_items && (args.raw.is_some() || json == Json::Null) => {}
            Ok((json, _)) => match &args.raw {
                Some(path) => print_raw(&json, path)?,
                None => println!("{}", shown(&json)),
            },
            Err(why) => eprintln!("{}", harmless(&why.to_string())),
        }
        Ok(status)
    }

    fn envelope(&self, outcome: &Made, took: Duration) -> Json {
        let (name, ran, rest) = match outcome {
            Ok((json, false)) => ("result", Ran::Yes, ("result", json.clone())),
            Ok((json, true)) => ("application_error", Ran::Yes, ("result", json.clone())),
            Err(why) => (why.kind(), why.ran(), ("message", Json::Text(why.to_string()))),
        };
        Json::object([
            ("outcome", Json::text(name)),
            ("ran", Json::Text(ran.to_string())),
            ("took_us", Json::Number(took.as_micros().to_string())),
            ("transport", Json::text(&self.transport)),
            rest,
        ])
    }
}

pub(crate) fn print_raw(json: &Json, path: &str) -> Result<(), NoResult> {
    let bytes = json.at(path).and_then(Json::to_bytes);
    let bytes = bytes
        .ok_or_else(|| NoResult::usage(format!("there is no text and no bytes at {path:?} in {json}")))?;
    io::stdout().write_all(&bytes).map_err(NoResult::usage)
}
