//! Completion of the command by a shell: names of commands, and of interfaces, procedures and arguments from the running server.

use crate::remote::{ask, options};
use crate::sun;
use clap::{CommandFactory, ValueEnum};
use std::process::ExitCode;
use std::time::Duration;
use stoop::reflection;

/// A shell that completes commands.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script by which the shell completes.
pub(crate) fn print_script(shell: Shell) -> Result<ExitCode, String> {
    let script = match shell {
        Shell::Bash => include_str!("complete/stoop.bash"),
        Shell::Zsh => include_str!("complete/stoop.zsh"),
        Shell::Fish => include_str!("complete/stoop.fish"),
    };
    print!("{script}");
    Ok(ExitCode::SUCCESS)
}

/// Prints the words that can stand in the place of the last.
pub(crate) fn print_candidates<C: CommandFactory>(words: &[String]) -> Result<ExitCode, String> {
    let Some((last, before)) = words.split_last() else { return Ok(ExitCode::SUCCESS) };
    let (plain, file) = plain(before);
    let candidates = match file {
        Some(file) => sun::candidates(file, &plain),
        None => candidates::<C>(&plain),
    };
    let candidates = candidates.unwrap_or_default();
    // A server tells them, and a shell reads them: nothing that is no name is passed on.
    let is_name = |word: &&String| word.chars().all(|each| each.is_alphanumeric() || "_.=-".contains(each));
    for word in candidates.iter().filter(is_name).filter(|word| word.starts_with(last.as_str())) {
        println!("{word}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The words without options, and the interface file among these. Other options take their values with them (`--timeout=1`).
fn plain(before: &[String]) -> (Vec<&str>, Option<&str>) {
    let (mut plain, mut file) = (Vec::new(), None);
    let mut words = before.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.strip_prefix("--x") {
            Some("") => file = words.next(),
            Some(of) if of.starts_with('=') => file = Some(&of[1..]),
            _ if word.starts_with('-') => {}
            _ => plain.push(word),
        }
    }
    (plain, file)
}

fn candidates<C: CommandFactory>(before: &[&str]) -> Result<Vec<String>, String> {
    let options = options(Duration::from_secs(1));
    let interfaces = |uri: &str| reflection::interfaces(uri, &options).map_err(|why| why.to_string());
    match before {
        [] => {
            let all = C::command();
            let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
            Ok(shown.map(|command| command.get_name().to_owned()).collect())
        }
        ["describe", uri] => interfaces(uri),
        ["call", uri] => {
            let mut all = Vec::new();
            for name in interfaces(uri)? {
                let interface = ask(uri, &name, &options)?;
                all.extend(interface.procedures.iter().map(|each| format!("{name}.{}", each.signature.name)));
            }
            Ok(all)
        }
        ["call", uri, procedure, given @ ..] => {
            let (interface, procedure) = procedure.rsplit_once(['.', '/']).ok_or("no procedure")?;
            let interface = ask(uri, interface, &options)?;
            let parameters = &interface.procedure(procedure)?.1.signature.parameters;
            let is_given = |name: &str| {
                given.iter().any(|word| word.split(['=', ':']).next() == Some(name) && word.contains('='))
            };
            let free = parameters.iter().filter(|each| each.is_given() && !is_given(&each.name));
            Ok(free.map(|parameter| format!("{}=", parameter.name)).collect())
        }
        _ => Ok(Vec::new()),
    }
}
