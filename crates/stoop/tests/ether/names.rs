//! Names of servers on an Ethernet, and servers at the caller's own interface.

use crate::harness::ethernet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::{BindError, BindOptions, RunningServer, Server};

#[stoop::interface]
trait Which {
    /// The number of the server.
    #[idempotent]
    fn number(&self) -> u32;
}

struct Number(u32);

impl Which for Number {
    fn number(&self) -> u32 {
        self.0
    }
}

/// A name that no other test uses.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("which-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn start(number: u32, uris: &[&str]) -> RunningServer {
    let server = Server::new().security(stoop::Security::none()).export(WhichServer::new(Number(number)));
    uris.iter().try_fold(server, |server, uri| server.listen(uri)).unwrap().start().unwrap()
}

fn named(name: &str, parameters: &str) -> String {
    format!("ether://{}/{name}{parameters}", ethernet::INTERFACE)
}

fn refused(uri: &str) -> String {
    let options = BindOptions::new().bind_timeout(Duration::from_millis(200));
    WhichClient::bind_with(uri, &options).unwrap_err().to_string()
}

#[test]
fn name_leads_to_the_server_that_listens_under_it() {
    if !ethernet::enter() {
        return;
    }
    for parameters in ["", "?backend=xdp-generic", "?ethertype=0x88b6"] {
        let (first, second) = (named(&name(), parameters), named(&name(), parameters));
        let servers = ethernet::at_servers(|| [start(1, &[&first]), start(2, &[&second])]);
        assert!(
            servers[0].uris()[0].starts_with(first.split('?').next().unwrap()),
            "{:?}",
            servers[0].uris()
        );
        for (uri, number) in [(&first, 1), (&second, 2)] {
            let client = WhichClient::bind(uri).unwrap();
            assert_eq!(client.number().unwrap(), number);
            assert_eq!(client.begin().number().wait().unwrap(), number);
            let described = client.binding().describe();
            assert!(described.contains("over Ethernet ("), "{described}");
            let address = format!("with {}/{}:", ethernet::INTERFACE, ethernet::SERVER_MAC);
            assert!(described.contains(&address) && described.starts_with(uri), "{described}");
        }
    }
}

#[test]
fn name_that_no_server_has_is_told_with_what_to_do() {
    if !ethernet::enter() {
        return;
    }
    let name = name();
    let why = refused(&named(&name, ""));
    assert!(why.contains(&format!("has answered to the name {name}")), "{why}");
    assert!(why.contains(&format!("listen at ether://INTERFACE/{name}")), "{why}");
    // There is no time to send a question.
    let options = BindOptions::new().bind_timeout(Duration::ZERO);
    let why = WhichClient::bind_with(&named(&name, ""), &options).unwrap_err().to_string();
    assert!(!why.contains("has answered") && why.contains("the time to bind was over"), "{why}");
    for (bad, told) in [
        ("02-00-00-00-00-0b", "reads as a hardware address"),
        ("7400", "ether://INTERFACE/NAME"),
        ("greeter:7400", "ether://INTERFACE/NAME"),
    ] {
        let uri = named(bad, "");
        assert!(matches!(WhichClient::bind(&uri), Err(BindError::Uri(_))), "{bad}");
        assert!(refused(&uri).contains(told), "{}", refused(&uri));
        let listened = Server::new()
            .security(stoop::Security::none())
            .export(WhichServer::new(Number(1)))
            .listen(&uri)
            .unwrap_err()
            .to_string();
        assert!(listened.contains(told), "{listened}");
    }
}

#[test]
fn name_of_two_servers_leads_to_neither() {
    if !ethernet::enter() {
        return;
    }
    let name = name();
    let server = ethernet::at_servers(|| start(1, &[&named(&name, "")]));
    let taken = ethernet::at_servers(|| {
        Server::new()
            .security(stoop::Security::none())
            .export(WhichServer::new(Number(2)))
            .listen(&named(&name, ""))
            .unwrap_err()
            .to_string()
    });
    assert!(taken.contains(&format!("another endpoint has the name {name}")), "{taken}");
    // Another host of the same Ethernet.
    let made = ethernet::at_servers(|| {
        ethernet::run(&format!(
            "link add link {} name second0 address 02:00:00:00:00:0c type macvlan mode bridge",
            ethernet::INTERFACE
        ))?;
        ethernet::run("link set second0 up")
    });
    if let Err(why) = made {
        return println!("SKIPPED: no second host on the Ethernet: {why}");
    }
    let second = ethernet::at_servers(|| start(2, &[&format!("ether://second0/{name}")]));
    // A server that answers 20 ms after the other is not waited for, and a thread of this busy process may be so late.
    let why = ethernet::wait_for(|| match WhichClient::bind(&named(&name, "")) {
        Err(why) if why.to_string().contains("two servers") => Ok(why.to_string()),
        Err(why) => Err(why.to_string()),
        Ok(client) => Err(client.binding().describe()),
    });
    assert!(why.contains(ethernet::SERVER_MAC), "{why}");
    assert!(why.contains("02:00:00:00:00:0c:") && why.contains("bind to one of them by"), "{why}");
    drop(server);
    let client = WhichClient::bind(&named(&name, "")).unwrap();
    assert_eq!(client.number().unwrap(), 2, "the other one has the name alone");
    drop(second);
}

#[test]
fn binding_by_name_follows_the_name_to_another_server() {
    for parameters in ["", "?checksum=off"] {
        if !ethernet::enter() {
            return;
        }
        let uri = named(&name(), parameters);
        let first = ethernet::at_servers(|| start(1, &[&uri]));
        let options = BindOptions::new().timeout(Duration::from_secs(60));
        let client = WhichClient::bind_with(&uri, &options).unwrap();
        assert_eq!((client.number().unwrap(), client.begin().number().wait().unwrap()), (1, 1));
        drop(first);
        // It has another hardware address than the first.
        let second = ethernet::at_servers(|| {
            ethernet::ip("link set {} address 02:00:00:00:00:1b");
            start(2, &[&uri])
        });
        assert_eq!((client.number().unwrap(), client.begin().number().wait().unwrap()), (2, 2));
        drop(second);
        ethernet::at_servers(|| ethernet::ip(&format!("link set {{}} address {}", ethernet::SERVER_MAC)));
    }
}

#[test]
fn missing_privilege_is_named_with_the_way_to_grant_it() {
    if !ethernet::enter() {
        return;
    }
    // Of this thread alone.
    let mut have = rustix::thread::capabilities(None).unwrap();
    have.effective.remove(rustix::thread::CapabilitySet::NET_RAW);
    rustix::thread::set_capabilities(None, have).unwrap();
    let told = "lacks CAP_NET_RAW; grant only that by `setcap cap_net_raw+ep PROGRAM`";
    for uri in [named(&name(), ""), ethernet::address("")] {
        assert!(refused(&uri).contains(told), "{}", refused(&uri));
    }
    for uri in [named(&name(), ""), format!("ether://{}/:0", ethernet::INTERFACE)] {
        let listened = Server::new()
            .security(stoop::Security::none())
            .export(WhichServer::new(Number(1)))
            .listen(&uri)
            .unwrap_err()
            .to_string();
        assert!(listened.contains(told), "{listened}");
    }
}

#[test]
fn binding_to_the_callers_own_interface_is_made_by_shared_memory_if_the_server_listens_there() {
    if !ethernet::enter() {
        return;
    }
    let (name, shm) = (name(), format!("shm:{}", name()));
    let server = start(3, &[&format!("ether://{}/:0", ethernet::INTERFACE), &named(&name, ""), &shm]);
    for uri in [server.uris()[0].as_str(), &named(&name, "")] {
        let client = WhichClient::bind(uri).unwrap();
        assert_eq!(client.number().unwrap(), 3);
        assert_eq!(client.begin().number().wait().unwrap(), 3);
        let described = client.binding().describe();
        assert!(described.contains("shared memory with process"), "{described}");
        let because = format!("because the server at {uri} is at this machine's own interface");
        assert!(described.contains(&because), "{described}");
    }
}

#[test]
fn binding_to_the_callers_own_interface_fails_with_the_alternatives() {
    if !ethernet::enter() {
        return;
    }
    let name = name();
    let ether = format!("ether://{}/:0", ethernet::INTERFACE);
    let alone = start(4, &[&ether]);
    let why = refused(&alone.uris()[0]);
    assert!(why.contains("does not loop frames back") && why.contains("listen at shm:NAME, too"), "{why}");
    let _named = start(5, &[&named(&name, "")]);
    assert!(refused(&named(&name, "")).contains("does not loop frames back"));
    let server = start(6, &[&ether, "udp://127.0.0.1:0", "unix:@of-another-port"]);
    let why = refused(&server.uris()[0]);
    let alternatives =
        why.split("the server there also listens at").nth(1).unwrap_or_else(|| panic!("{why}"));
    assert!(server.uris()[1..].iter().all(|uri| alternatives.contains(uri.as_str())), "{why}");
    // The shared memory of another server is none of this one's.
    let other = start(7, &[&ether, &format!("shm:{}", self::name())]);
    assert_eq!(WhichClient::bind(&other.uris()[0]).unwrap().number().unwrap(), 7);
    assert!(!refused(&alone.uris()[0]).contains("shm:which"));
}
