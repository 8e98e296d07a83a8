//! `stoop check`: whether programs of an old and of a new form of an interface can call each other.

use crate::remote::{TIMEOUT, options};
use crate::terminal::{harmless, shown};
use std::path::Path;
use std::process::ExitCode;
use stoop::compatibility::{Break, Callers, Known, breaks, new_variants};
use stoop_schema::json::Json;

/// The two forms that `check` compares.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The old form: a lock file, a Rust file, or the address of a running server
    old: String,
    /// The new form
    new: String,
    /// A break that is meant, as Interface or Interface.procedure; may be given several times
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    match compared(args) {
        Ok(breaks) if breaks.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("{}", harmless(&why));
            ExitCode::from(2)
        }
    }
}

fn compared(args: &CheckArgs) -> Result<Vec<Break>, String> {
    let (old, new) = (known(&args.old)?, known(&args.new)?);
    let mut found = breaks(&old, &new);
    let is_named = |each: &Break, name: &String| {
        *name == each.interface || *name == format!("{}.{}", each.interface, each.procedure)
    };
    found.retain(|each| !args.except.iter().any(|name| is_named(each, name)));
    if args.json {
        println!("{}", shown(&Json::Array(found.iter().map(json).collect())));
        return Ok(found);
    }
    for line in found.iter().map(Break::to_string).chain(new_variants(&old, &new)) {
        println!("{}", harmless(&line));
    }
    match found.len() {
        0 => println!("nothing breaks"),
        1 => println!("1 break"),
        count => println!("{count} breaks"),
    }
    Ok(found)
}

fn json(each: &Break) -> Json {
    let callers = if each.callers == Callers::Old { "old" } else { "new" };
    let texts = [
        ("interface", each.interface.as_str()),
        ("procedure", &each.procedure),
        ("breaks", callers),
        ("caller", &each.caller),
        ("server", &each.server),
    ];
    Json::Object(texts.map(|(name, text)| (name.to_owned(), Json::Text(text.to_owned()))).into())
}

/// The forms in a lock file or a Rust file, or of a running server.
fn known(place: &str) -> Result<Known, String> {
    let path = Path::new(place);
    if !path.is_file() {
        let no_file =
            if place.contains(':') { "" } else { "there is no such file; as the name of a server: " };
        return Known::ask(place, &options(TIMEOUT)).map_err(|why| format!("{place}: {no_file}{why}"));
    }
    let text = std::fs::read_to_string(path).map_err(|why| format!("{place}: {why}"))?;
    if path.extension().is_none_or(|extension| extension != "rs") {
        return Known::parse(&text).map_err(|why| format!("{place}: {why}"));
    }
    let forms = stoop_stubgen::forms::of_text(&text).map_err(|why| format!("{place}:{why}"))?;
    Ok(Known::of_forms(
        forms.into_iter().map(|form| (form.interface, form.revisions.0, form.revisions.1, form.signature)),
    ))
}
