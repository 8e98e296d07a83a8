//! `stoop keygen` and `stoop key`: the keys of sealed calls.

use clap::Args;
use std::io;
use std::path::PathBuf;
use stoop::Security;

/// Arguments of `stoop keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// The file to make; unless it is said, that of this user's key (STOOP_KEY, else stoop/key in the folder for configuration).
    path: Option<PathBuf>,
    /// Makes a secret for Security::secret_file instead, which all members of a group have. It needs a path.
    #[arg(long, requires = "path")]
    secret: bool,
}

/// Arguments of `stoop key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The file of the key; unless it is said, that of this user.
    path: Option<PathBuf>,
}

/// Makes a key or a secret in a new file.
pub(crate) fn generate(args: &KeygenArgs) -> io::Result<()> {
    let path = args.path.clone().map_or_else(Security::own_key_path, Ok)?;
    if args.secret {
        Security::generate_secret(&path)?;
        eprintln!(
            "{} has a secret now. Copy it to the other members of the group, and to nobody else.",
            path.display()
        );
    } else {
        println!("{}", Security::generate_key(&path)?);
    }
    Ok(())
}

/// Prints a public key.
pub(crate) fn print(args: &KeyArgs) -> io::Result<()> {
    let security = args.path.as_ref().map_or_else(Security::own_key, Security::key_file)?;
    security.public_key().iter().for_each(|key| println!("{key}"));
    Ok(())
}
