//! The interfaces that a running server tells.

use std::time::Duration;
use stoop::dynamic::{self, InterfaceError};
use stoop::reflection::{self, AskError, Described};
use stoop::{BindError, BindOptions};
use stoop_schema::rust::{Interface, Procedure};
use stoop_schema::{Signature, SyntaxError};

/// Time within which a server has to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Options of calls that end within this time.
pub(crate) fn options(timeout: Duration) -> BindOptions {
    BindOptions::new().timeout(timeout).bind_timeout(timeout)
}

/// The interface of a running server.
pub(crate) fn ask(uri: &str, name: &str, options: &BindOptions) -> Result<Interface, String> {
    let described = reflection::ask(uri, name, options).map_err(|why: AskError| why.to_string())?;
    parsed(name, described).map_err(|why| format!("the server tells what is no interface: {why}"))
}

fn parsed(name: &str, described: Described) -> Result<Interface, SyntaxError> {
    let procedures = described.procedures.into_iter().map(|told| {
        let signature = Signature::parse(&told.signature)?;
        Ok(Procedure { signature, idempotent: told.idempotent, docs: told.docs })
    });
    let (name, docs) = (name.to_owned(), described.docs);
    Ok(Interface { name, docs, procedures: procedures.collect::<Result<_, _>>()?, types: described.types })
}

/// The interface as the library binds to it.
pub(crate) fn dynamic_of(interface: &Interface) -> Result<dynamic::Interface, InterfaceError> {
    let procedures = interface.procedures.iter().map(|each| {
        let procedure = dynamic::Procedure::new(each.signature.to_string());
        if each.idempotent { procedure.idempotent() } else { procedure }
    });
    dynamic::Interface::new(&interface.name, procedures)
}

/// Why a server could not be asked for what `command` shows.
pub(crate) fn not_bound(command: &str, why: &BindError) -> String {
    match why {
        BindError::NoSuchInterface { .. } => {
            format!("a server answers, but it is older than `stoop {command}` and cannot be asked: {why}")
        }
        why => why.to_string(),
    }
}

/// Reads an argument in seconds: at least so many, and at most a day.
pub(crate) fn seconds(least: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let seconds = text.parse().ok().filter(|seconds| (least..=86_400.0).contains(seconds));
        seconds.ok_or_else(|| format!("a number of seconds from {least} to 86400"))
    }
}
