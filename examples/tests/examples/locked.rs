//! The interfaces of the examples are as `interfaces.lock` has them. `STOOP_LOCK=update cargo test` writes it anew.

use crate::programs::example;
use stoop_examples::auction::AuctionClient;
use stoop_examples::files::FilesClient;
use stoop_examples::greeter::GreeterClient;
use stoop_examples::kv::StoreClient;
use stoop_examples::olympus::InterpreterClient;
use stoop_examples::weather::WeatherClient;

#[test]
fn the_interfaces_of_the_examples_are_as_locked() {
    let interfaces = [
        AuctionClient::interface(),
        FilesClient::interface(),
        GreeterClient::interface(),
        StoreClient::interface(),
        InterpreterClient::interface(),
        WeatherClient::interface(),
    ];
    stoop::compatibility::locked(concat!(env!("CARGO_MANIFEST_DIR"), "/interfaces.lock"), &interfaces);
}

#[test]
fn the_store_of_three_revisions_runs_as_its_document_says() {
    let output = example("store-revisions").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("`Entry.mode`, which came with revision 1, cannot be told"), "{said}");
}
