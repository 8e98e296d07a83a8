//! The rest of a server's program: it listens at the addresses that its user gives, and serves until the process ends.

use std::error::Error;
use std::process::ExitCode;
use stoop::Server;

/// Listens at these addresses, prints where (with the ports that were chosen), and serves.
///
/// # Errors
/// An address cannot be listened at.
pub fn serve(mut server: Server, addresses: &[impl AsRef<str>]) -> Result<(), Box<dyn Error>> {
    for address in addresses {
        server = server.listen(address.as_ref())?;
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
