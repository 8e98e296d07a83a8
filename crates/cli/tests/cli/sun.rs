//! `stoop describe` and `stoop call` with servers of Sun RPC and their interface files.

use crate::call::{printed, stoop};
use crate::sandbox;
use stoop::{RunningServer, Server};

mod echo {
    stoop::x!("tests/cli/sun.x", strings = bytes);
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/sun.x");
const PORT_MAPPER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/pmap.x");

struct Echo;

impl echo::Echo2 for Echo {
    fn echo(&self, value: &echo::All) -> echo::All {
        value.clone()
    }
    fn add(&self, left: i32, right: i32) -> i32 {
        left.wrapping_add(right)
    }
    fn nothing(&self) {}
}

/// The server, and its address without program and version.
fn serve(scheme: &str) -> (RunningServer, String) {
    let server = Server::new().export(echo::Echo2Server::new(Echo));
    let server = server.listen(&format!("{scheme}://127.0.0.1")).unwrap().start().unwrap();
    let uri = server.uris()[0].to_string();
    let uri = uri.split_once("/5").map_or(uri.as_str(), |(place, _)| place).to_owned();
    (server, uri)
}

#[test]
fn a_server_is_described_by_its_interface_file_as_far_as_it_serves_it() {
    let (_server, uri) = serve("onc+tcp");
    let (status, out, err) = stoop(&["describe", &uri, "--x", FILE]);
    assert_eq!(status, Some(0), "{err}");
    assert!(
        out.starts_with("ECHO_2.ECHO(value: all) -> all\nECHO_2.ADD(left: int, right: int) -> int\n"),
        "{out}"
    );
    assert!(err.starts_with("ECHO_1 is not served: ") && err.lines().count() == 1, "{err}");
    let rust = printed(&["describe", &uri, "--x", FILE, "ECHO_2"]);
    assert!(rust.contains("pub trait Echo2 {") && rust.contains("#[stoop::interface("), "{rust}");
    let json = printed(&["describe", &uri, "--x", FILE, "ECHO_2", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["program"], &json["version"]), (&0x2000_0033.into(), &2.into()));
    assert_eq!(json["procedures"][1]["arguments"][0]["type"], "int");
    assert_eq!(json["procedures"][1]["docs"], "Adds two numbers.");
    let (status, _, err) = stoop(&["describe", &uri, "--x", FILE, "ECHO_1"]);
    assert!(status == Some(1) && err.starts_with("ECHO_1 is not served: "), "{err}");
    let (status, _, err) = stoop(&["describe", &uri]);
    assert!(status == Some(1) && err.contains("--x FILE.x"), "{err}");
}

#[test]
fn every_type_of_xdr_is_printed_as_it_is_accepted() {
    let value = r#"{"i": -2147483648, "ui": 4294967295, "h": -9223372036854775808, "uh": 18446744073709551615, "f": 0.1, "d": "-inf", "#.to_owned()
        + r#""q": "0x3fff0000000000000000000000000001", "b": true, "c": -1, "us": 65535, "hue": "BLUE", "whole": "abc", "#
        + r#""some": {"base64": "AP8="}, "label": "a\nb", "three": [1, 2, 3], "polygon": [{"x": 1, "y": 2}], "at": null, "#
        + r#""nested": [{"x": 3, "y": 4}], "list": [{"label": ""}, {"label": "z"}], "#
        + r#""root": {"left": null, "right": {"left": null, "right": null, "value": 2}, "value": 1}, "#
        + r#""shapes": [{"RED": {"x": 5, "y": 6}}, "BLUE"], "statuses": [{"0": 7}, "-3"]}"#;
    for scheme in ["onc+tcp", "onc+udp"] {
        let (_server, uri) = serve(scheme);
        let argument = format!("value:={value}");
        let echoed = printed(&["call", &uri, "--x", FILE, "ECHO_2.ECHO", &argument]);
        assert_eq!(echoed.trim_end(), value);
        let all = format!(r#"{{"value": {value}}}"#);
        assert_eq!(printed(&["call", &uri, "--x", FILE, "ECHO", &all]), echoed);
    }
}

#[test]
fn calls_have_the_exit_status_of_other_calls() {
    let (_server, uri) = serve("onc+udp");
    let call = |words: &[&str]| stoop(&[&["call", uri.as_str(), "--x", FILE], words].concat());
    assert_eq!(call(&["ADD", "1", "right=-3"]), (Some(0), "-2\n".into(), String::new()));
    assert_eq!(call(&["NOTHING", "--repeat", "2"]), (Some(0), "null\nnull\n".into(), String::new()));
    let (status, _, err) = call(&["ADD", "1", "x"]);
    assert_eq!(status, Some(2));
    assert_eq!(err, "right: expected a number of type int, from -2147483648 to 2147483647, not \"x\"\n");
    let (status, _, err) = call(&["ECHO_2.AD", "1", "2"]);
    assert_eq!((status, err.as_str()), (Some(2), "the file has no procedure ECHO_2.AD; it has ECHO_2.ADD\n"));
    assert_eq!(call(&["AD"]).2, "the file has no procedure AD; it has ADD\n");
    let (status, _, err) = call(&["ABSENT"]);
    assert!(status == Some(3) && err.contains("procedure"), "{err}");
    assert_eq!(call(&["OLD"]).0, Some(3));
    assert_eq!(stoop(&["call", &uri, "ADD"]).0, Some(2), "there is no interface file");
    let (status, out, _) = call(&["ADD", "1", "2", "--json"]);
    let envelope: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &envelope["ran"], &envelope["result"]), (Some(0), &"yes".into(), &3.into()));
    // The numbers of the program and its version may be in the address.
    assert_eq!(
        call(&["NOTHING"]).0,
        stoop(&["call", &format!("{uri}/536870963:2"), "--x", FILE, "NOTHING"]).0
    );
}

#[test]
fn a_shell_completes_from_the_interface_file() {
    let completed = |words: &[&str]| printed(&[&["complete", "--"], words].concat());
    assert_eq!(
        completed(&["call", "onc+udp://host", "--x", FILE, "ECHO_2.A"]),
        "ECHO_2.ADD\nECHO_2.ABSENT\n"
    );
    assert_eq!(completed(&["call", "--x", FILE, "onc+udp://host", "ECHO_2.ADD", ""]), "left=\nright=\n");
    assert_eq!(completed(&["describe", "onc+udp://host", "--x", FILE, "ECHO_1"]), "ECHO_1\n");
}

#[test]
fn rpcbind_is_described_and_called() {
    sandbox::run("sun::rpcbind_is_described_and_called", || {
        let registered = printed(&["describe", "onc+tcp://127.0.0.1"]);
        assert!(registered.contains("program 100000:2 over udp at 0.0.0.0.0.111\n"), "{registered}");
        for scheme in ["onc+tcp", "onc+udp"] {
            let uri = format!("{scheme}://127.0.0.1");
            let overview = printed(&["describe", &uri, "--x", PORT_MAPPER]);
            assert!(
                overview.contains("PMAP_VERS.PMAPPROC_GETPORT(arg1: mapping) -> unsigned int\n"),
                "{overview}"
            );
            let dump = printed(&["call", &uri, "--x", PORT_MAPPER, "PMAPPROC_DUMP"]);
            assert!(
                dump.contains(r#"{"map": {"prog": 100000, "vers": 2, "prot": 17, "port": 111}}"#),
                "{dump}"
            );
            let question = r#"arg1:={"prog": 100000, "vers": 2, "prot": 6, "port": 0}"#;
            assert_eq!(printed(&["call", &uri, "--x", PORT_MAPPER, "PMAPPROC_GETPORT", question]), "111\n");
        }
        let server = Server::new().export(echo::Echo2Server::new(Echo));
        let _server = server.listen("onc+udp://127.0.0.1").unwrap().register().start().unwrap();
        assert_eq!(printed(&["call", "onc+udp://127.0.0.1", "--x", FILE, "ADD", "1", "2"]), "3\n");
    });
}

#[cfg(feature = "seal")]
#[test]
fn a_server_under_tls_is_called_by_the_key_in_its_address() {
    use stoop::Security;

    let folder = std::env::temp_dir().join(format!("stoop-cli-sun-{}", std::process::id()));
    let (own, other) = (folder.join("server"), folder.join("other"));
    let other = [Security::generate_key(&own), Security::generate_key(&other)].map(Result::unwrap)[1];
    let server = Server::new().security(Security::key_file(&own).unwrap().anonymous());
    let server = server.export(echo::Echo2Server::new(Echo)).listen("onc+tcp://127.0.0.1").unwrap();
    let server = server.start().unwrap();
    let uri = &server.uris()[0];
    assert_eq!(printed(&["call", uri, "--x", FILE, "ADD", "1", "2"]), "3\n");
    assert!(printed(&["call", uri, "--x", FILE, "ADD", "1", "2", "--json"]).contains("sealed by TLS"));
    let at = uri.split_once('@').unwrap().1;
    let (status, _, err) = stoop(&["call", &format!("onc+tcp://{at}"), "--x", FILE, "ADD", "1", "2"]);
    assert!(status == Some(3) && err.contains("or under TLS"), "{err}");
    let (status, _, err) = stoop(&["call", &format!("onc+tcp://{other}@{at}"), "--x", FILE, "ADD", "1", "2"]);
    assert!(status == Some(3) && err.contains("is not the server that this client takes"), "{err}");
    let (status, _, err) = stoop(&[
        "call",
        &format!("onc+tcp://{at}"),
        "--x",
        FILE,
        "--roots",
        "/not-there.pem",
        "ADD",
        "1",
        "2",
    ]);
    assert!(status == Some(2) && err.contains("/not-there.pem"), "{err}");
    std::fs::remove_dir_all(folder).unwrap();
}
