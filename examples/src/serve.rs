//! The rest of a server's program: it listens at the addresses that its user gives, and serves until the process ends.

use std::error::Error;
use std::process::ExitCode;
use stoop::{Security, Server};

/// Listens at these addresses (`--plain` before those that other machines reach says that their calls are not sealed), prints where (with the ports that were chosen), and serves.
///
/// # Errors
/// An address cannot be listened at.
pub fn serve(mut server: Server, addresses: &[impl AsRef<str>]) -> Result<(), Box<dyn Error>> {
    for address in addresses {
        server = match address.as_ref() {
            "--plain" => server.security(Security::none()),
            address => server.listen(address)?,
        };
    }
    let server = server.start()?;
    for uri in server.uris() {
        println!("listening at {uri}");
    }
    server.wait();
    Ok(())
}

/// The status with which a program ends; an error is printed.
pub fn exit_code(ended: Result<(), Box<dyn Error>>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
