//! Callers with names have their shares of a server by their names, wherever they are.

use crate::{Counting, Folder, VaultClient, VaultServer, over};
use stoop::{BindError, BindOptions, Limits, RunningServer, Security, Server};

over! { udp tcp: [two_names_at_one_host_do_not_take_each_others_share one_name_has_one_share_at_two_hosts callers_without_names_have_their_hosts_share] }

/// A server at all addresses of this machine, with few bindings.
fn server(transport: &str, security: Security) -> RunningServer {
    let server = Server::new().security(security).limits(Limits::new().bindings(32));
    let server = server.export(VaultServer::new(Counting::default()));
    server.listen(&format!("{transport}://[::]:0")).unwrap().start().unwrap()
}

/// The server's address at that host of this machine.
fn at(server: &RunningServer, host: &str) -> String {
    server.uris()[0].replace("[::]", host)
}

/// A binding with its share; `None`: it has all of it.
fn bind(uri: &str, security: &Security) -> Option<VaultClient> {
    match VaultClient::bind_with(uri, &BindOptions::new().security(security.clone())) {
        Ok(client) => Some(client),
        Err(BindError::Refused { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// All bindings that such a caller gets.
fn all(uri: &str, security: &Security) -> Vec<VaultClient> {
    std::iter::from_fn(|| bind(uri, security)).collect()
}

fn two_names_at_one_host_do_not_take_each_others_share(transport: &str) {
    let folder = Folder::new();
    let ((of_server, _), (alice, first), (bob, second)) =
        (folder.key("server"), folder.key("alice"), folder.key("bob"));
    let callers = folder.callers(&[("alice", first), ("bob", second)]);
    let server = server(transport, of_server.callers(callers).unwrap());
    let uri = at(&server, "127.0.0.1");
    let hoarded = all(&uri, &alice);
    assert!(hoarded.len() > 16, "{}", hoarded.len());
    let client = bind(&uri, &bob).expect("another name has a share of its own");
    assert_eq!(client.caller().unwrap().as_deref(), Some("bob"));
}

fn one_name_has_one_share_at_two_hosts(transport: &str) {
    let folder = Folder::new();
    let ((of_server, _), (alice, first), (bob, second)) =
        (folder.key("server"), folder.key("alice"), folder.key("bob"));
    let callers = folder.callers(&[("alice", first), ("bob", second)]);
    let server = server(transport, of_server.callers(callers).unwrap());
    let hoarded = all(&at(&server, "127.0.0.1"), &alice);
    let other_host = at(&server, "[::1]");
    assert!(bind(&other_host, &alice).is_none(), "it has {} bindings already", hoarded.len());
    assert!(bind(&other_host, &bob).is_some());
    drop(hoarded);
    assert!(bind(&other_host, &alice).is_some());
}

fn callers_without_names_have_their_hosts_share(transport: &str) {
    let folder = Folder::new();
    let ((of_server, _), (stranger, _), (other, _)) =
        (folder.key("server"), folder.key("stranger"), folder.key("other"));
    let server = server(transport, of_server.anonymous());
    let hoarded = all(&at(&server, "127.0.0.1"), &stranger);
    assert!(bind(&at(&server, "127.0.0.1"), &other).is_none(), "{} are of this host", hoarded.len());
    assert!(bind(&at(&server, "[::1]"), &other).is_some());
}
