//! Commands that this program may have been built without: each says how to get it.

use clap::Args;
use std::ffi::OsString;

/// Printed below the list of commands.
#[cfg(not(feature = "lab"))]
pub(crate) const AFTER_HELP: &str = "\
bench, penalty, account and tables are not in this program: it was built without the cargo feature `lab`.";

/// The commands that measure. They take any arguments, because only the commands themselves know which.
#[cfg(any(test, not(feature = "lab")))]
#[derive(Debug, clap::Subcommand)]
#[command(hide = true)]
pub(crate) enum Command {
    Bench(Words),
    Penalty(Words),
    Account(Words),
    Tables(Words),
}

#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    hide = true,
    about = "Is not in this program; without `help` it says how to get it"
)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

#[cfg(any(test, not(feature = "lab")))]
impl Command {
    /// # Errors
    /// Always: how to get the command.
    pub(crate) fn run(&self, _: Option<usize>) -> Result<std::process::ExitCode, String> {
        let (name, feature) = match self {
            Self::Bench(_) => ("bench", "lab"),
            Self::Penalty(_) => ("penalty", "lab"),
            Self::Account(_) => ("account", "account"),
            Self::Tables(_) => ("tables", "lab"),
        };
        Err(how_to_get(name, "lab", feature))
    }
}

/// How to get a command that this program was built without, for want of a cargo feature.
pub(crate) fn how_to_get(name: &str, missing: &str, feature: &str) -> String {
    format!(
        "`stoop {name}` is not in this program, which was built without the cargo feature `{missing}`. To get it:\n    \
         cargo install --path crates/cli --features {feature}"
    )
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;
    use clap::Subcommand;

    fn names<C: Subcommand>() -> Vec<String> {
        let all = C::augment_subcommands(clap::Command::new("stoop"));
        all.get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }

    #[test]
    fn each_command_of_the_laboratory_that_users_type_says_how_to_get_it() {
        let all = stoop_lab::Command::augment_subcommands(clap::Command::new("stoop"));
        let typed = all.get_subcommands().filter(|command| !command.is_hide_set());
        assert_eq!(names::<Command>(), typed.map(|command| command.get_name()).collect::<Vec<_>>());
        for name in names::<Command>() {
            let command = clap::Command::new("stoop");
            let matches = Command::augment_subcommands(command).get_matches_from(["stoop", &name, "--json"]);
            let command =
                <Command as clap::FromArgMatches>::from_arg_matches(&matches).expect("it takes any");
            let why = command.run(None).expect_err("it is not there");
            assert!(why.contains(&format!("`stoop {name}`")) && why.contains("cargo install"), "{why}");
        }
    }
}
