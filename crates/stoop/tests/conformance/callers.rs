//! Callers as procedures see them.

use super::*;

claims! { memory: [
    a_caller_of_a_network_without_ip_addresses_is_a_station
] }

fn a_caller_of_a_network_without_ip_addresses_is_a_station(transport: &str) {
    let (_server, _, client) = lab(transport);
    let caller = client.caller().unwrap();
    assert!(caller.starts_with("Station"), "{caller}");
}
