//! The interfaces of the examples are as `interfaces.lock` has them. `STOOP_LOCK=update cargo test` writes it anew.

#[allow(dead_code, unreachable_pub)]
mod grown;

use crate::programs::example;
use stoop::compatibility::Known;
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

/// What `stoop check` reads in a Rust file is what the compiler makes of it.
#[test]
fn forms_in_the_text_of_a_file_are_those_that_the_compiler_makes() {
    let of = |interface| Known::of(&[interface]).to_string();
    let in_file = |text| {
        let forms = stoop_stubgen::forms::of_text(text).unwrap().into_iter();
        Known::of_forms(
            forms.map(|form| (form.interface, form.revisions.0, form.revisions.1, form.signature)),
        )
        .to_string()
    };
    assert_eq!(in_file(include_str!("../../src/auction.rs")), of(AuctionClient::interface()));
    assert_eq!(in_file(include_str!("../../src/greeter.rs")), of(GreeterClient::interface()));
    assert_eq!(in_file(include_str!("../../src/kv.rs")), of(StoreClient::interface()));
    assert_eq!(in_file(include_str!("../../src/weather.rs")), of(WeatherClient::interface()));
    assert_eq!(in_file(include_str!("locked/grown.rs")), of(grown::GrownClient::interface()));
}

#[test]
fn the_store_of_three_revisions_runs_as_its_document_says() {
    let output = example("store-revisions").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("`Entry.mode`, which came with revision 1, cannot be told"), "{said}");
}
