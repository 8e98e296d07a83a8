//! Program Two: three procedures, called by Sun RPC.

use stoop::{BindOptions, RunningServer, Security, Server, Waiting};

/// The remote procedures of the paper: no argument, one of two bytes, one of four.
#[stoop::interface(program = 0x2000_0042, version = 1)]
pub(in crate::tables) trait Remote {
    fn nothing(&self);
    fn two_bytes(&self, value: i16);
    fn four_bytes(&self, value: i32);
}

struct Idle;

impl Remote for Idle {
    fn nothing(&self) {}
    fn two_bytes(&self, _value: i16) {}
    fn four_bytes(&self, _value: i32) {}
}

/// Serves them at `address`, without rpcbind.
pub(in crate::tables) fn serve(address: &str, waiting: Waiting) -> Result<RunningServer, String> {
    let server = Server::new().security(Security::none()).waiting(waiting).export(RemoteServer::new(Idle));
    server.listen(address).and_then(Server::start).map_err(|error| error.to_string())
}

/// A client that has made its first call.
pub(in crate::tables) fn bind(uri: &str, waiting: Waiting) -> Result<RemoteClient, String> {
    let client = RemoteClient::bind_with(uri, &BindOptions::new().waiting(waiting));
    let client = client.map_err(|error| error.to_string())?;
    client.nothing().map_err(|error| error.to_string())?;
    Ok(client)
}
