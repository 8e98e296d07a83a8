//! Servers and clients of different users, over shared memory and over Unix sockets: real processes, started by root.

use crate::harness::processes::{NOBODY, Process, TargetClient, name, patient};
use std::os::unix::process::CommandExt;
use stoop::error::SendError;
use stoop::{BindError, BindOptions, CallError, ShmOptions, UnixOptions};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "ask-as-user" => println!("{}", asked(uri, &patient(uri))),
        _ => return false,
    }
    true
}

/// Binds and calls. Returns what came of it.
fn asked(uri: &str, options: &BindOptions) -> String {
    match TargetClient::bind_with(uri, options) {
        Ok(client) => format!("answer {}", client.next(1).unwrap()),
        Err(why) => format!("refused: {why}"),
    }
}

/// The errors that a process of another user gets when it binds and calls.
fn asked_as(user: u32, uri: &str) -> String {
    let mut command = Process::command("ask-as-user", uri);
    let said = Process::as_user(&mut command, user, user).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let is_answer = |line: &&str| line.starts_with("answer ") || line.starts_with("refused: ");
    said.lines().find(is_answer).unwrap_or_else(|| panic!("{said}")).into()
}

/// Abstract names of the transports whose ends are processes of one machine.
fn names() -> [String; 2] {
    let name = name();
    let unix = name.replace("shm:", "unix:@");
    [name, unix]
}

/// A server in a role, of a user.
fn server(role: &str, user: u32, uri: &str) -> Process {
    let mut command = Process::command(role, uri);
    let mut server = Process::spawn(Process::as_user(&mut command, user, user));
    server.await_line("ready");
    server
}

/// Whether this process may start those of other users; says so if not.
fn is_root(test: &str) -> bool {
    let is_root =
        rustix::process::geteuid().is_root() && Process::command("nothing", "").uid(NOBODY).output().is_ok();
    if !is_root {
        println!(
            "SKIPPED: {test}: only root can start processes of other users, which must be able to run this program"
        );
    }
    is_root
}

/// Options of a client that binds to servers of these users, too, at the address.
fn allowing(uri: &str, users: &[u32]) -> BindOptions {
    match uri.starts_with("unix:") {
        true => patient(uri)
            .with(users.iter().fold(UnixOptions::new(), |options, &user| options.allow_user(user))),
        false => {
            patient(uri).with(users.iter().fold(ShmOptions::new(), |options, &user| options.allow_user(user)))
        }
    }
}

/// Options of a client that binds to servers of all users.
fn allowing_all(uri: &str) -> BindOptions {
    match uri.starts_with("unix:") {
        true => patient(uri).with(UnixOptions::new().allow_everybody()),
        false => patient(uri).with(ShmOptions::new().allow_everybody()),
    }
}

const ANSWER: &str = "answer 2";

#[test]
fn client_binds_to_another_users_server_only_if_it_trusts_that_user() {
    if !is_root("client_binds_to_another_users_server_only_if_it_trusts_that_user") {
        return;
    }
    for uri in names() {
        let _server = server("serve", NOBODY, &uri);
        for options in [patient(&uri), allowing(&uri, &[12345])] {
            let why = TargetClient::bind_with(&uri, &options).err().unwrap();
            assert!(matches!(why, BindError::OtherUser { user: NOBODY, own: 0, .. }), "{why}");
            let why = why.to_string();
            assert!(why.contains(&uri) && why.contains("of user 65534"), "{why}");
            assert!(why.contains("allow_user(65534)"), "{why}");
        }
        let trusting = [allowing(&uri, &[NOBODY]), allowing(&uri, &[12345, NOBODY]), allowing_all(&uri)];
        assert!(trusting.iter().all(|options| asked(&uri, options) == ANSWER), "{uri}");
        // Its own user's clients need say nothing.
        assert_eq!(asked_as(NOBODY, &uri), ANSWER);
    }
}

#[test]
fn server_serves_another_user_only_if_it_is_allowed() {
    if !is_root("server_serves_another_user_only_if_it_is_allowed") {
        return;
    }
    for (role, served, others) in [
        ("serve", vec![], vec![NOBODY, 12345]),
        ("serve-nobody", vec![NOBODY], vec![12345]),
        ("serve-all", vec![NOBODY, 12345], vec![]),
    ] {
        for uri in names() {
            let _server = server(role, 0, &uri);
            // Clients of every user trust a server of root.
            assert!(served.iter().all(|&user| asked_as(user, &uri) == ANSWER), "{role} {uri}");
            for &user in &others {
                let why = asked_as(user, &uri);
                assert!(
                    why.starts_with("refused: ") && why.contains("of its own user only"),
                    "{role}: {why}"
                );
                assert!(why.contains("allow_user") && why.contains("allow_everybody"), "{why}");
            }
            assert_eq!(asked(&uri, &patient(&uri)), ANSWER);
        }
    }
}

#[test]
fn client_does_not_bind_to_another_user_that_takes_its_servers_name() {
    if !is_root("client_does_not_bind_to_another_user_that_takes_its_servers_name") {
        return;
    }
    for uri in names() {
        let mut own = server("serve", 0, &uri);
        let client = TargetClient::bind_with(&uri, &patient(&uri)).unwrap();
        assert_eq!(client.next(1).unwrap(), 2);
        own.kill();
        let _other = server("serve-all", NOBODY, &uri);
        // The end of its server may be noticed by a call that was under way then.
        let errors: Vec<_> = (0..2).filter_map(|_| client.next(1).err()).collect();
        let is_about_user = |error: &CallError| match error {
            CallError::NotSent(SendError::Bind(why), ..) => {
                matches!(**why, BindError::OtherUser { user: NOBODY, .. })
            }
            _ => false,
        };
        assert!(errors.len() == 2 && is_about_user(&errors[1]), "{uri}: {errors:?}");
    }
}
