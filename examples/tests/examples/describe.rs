//! The interface of every example, as `stoop describe` prints it: it compiles and binds.
//!
//! The printed texts are in `tests/described`. With `STOOP_DESCRIBED=update` in the environment they are written anew.

use std::any::Any;
use std::path::Path;
use stoop::stub::{Exported, Interface, Reader, Unserved, Writer};
use stoop::{BindError, BindOptions, Server, reflection};
use stoop_schema::Signature;
use stoop_schema::rust::{self, Procedure};

/// Exports an interface whose procedures are not called.
struct Only(&'static Interface);

impl Exported for Only {
    fn interface(&self) -> &'static Interface {
        self.0
    }

    fn dispatch(&self, _: u16, _: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Unserved> {
        Err(Unserved::UnknownProcedure)
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}

fn check(interface: &'static Interface, file: &str, printed: &str, bind: fn(&str) -> Result<(), BindError>) {
    let uri = format!("unix:@stoop-described-{}-{}", interface.name, std::process::id());
    let _server = Server::new().export(Only(interface)).listen(&uri).unwrap().start().unwrap();
    let told = reflection::ask(&uri, interface.name, &BindOptions::new()).unwrap();
    let procedures = told.procedures.into_iter().map(|told| {
        let signature = Signature::parse(&told.signature).unwrap();
        assert_eq!(signature.to_string(), told.signature);
        Procedure { signature, idempotent: told.idempotent, docs: told.docs }
    });
    let (name, docs) = (interface.name.to_owned(), told.docs);
    let text = rust::Interface { name, docs, procedures: procedures.collect(), types: told.types }.rust();
    if std::env::var("STOOP_DESCRIBED").is_ok_and(|value| value == "update") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/described").join(file);
        return std::fs::write(path, text).unwrap();
    }
    assert_eq!(text, printed, "STOOP_DESCRIBED=update writes {file} anew");
    bind(&uri).unwrap();
}

macro_rules! described {
    ($($test:ident: $module:ident $client:ident;)*) => {$(
        #[allow(missing_docs, dead_code, unreachable_pub, reason = "printed from what a server told")]
        mod $module {
            include!(concat!("../described/", stringify!($module), ".rs"));
        }

        #[test]
        fn $test() {
            let file = concat!(stringify!($module), ".rs");
            let printed = include_str!(concat!("../described/", stringify!($module), ".rs"));
            check(stoop_examples::$module::$client::interface(), file, printed, |uri| $module::$client::bind(uri).map(drop));
        }
    )*};
}

described! {
    the_auction_is_described_as_rust_that_binds: auction AuctionClient;
    the_file_service_is_described_as_rust_that_binds: files FilesClient;
    the_greeter_is_described_as_rust_that_binds: greeter GreeterClient;
    the_key_value_store_is_described_as_rust_that_binds: kv StoreClient;
    olympus_is_described_as_rust_that_binds: olympus InterpreterClient;
    the_weather_station_is_described_as_rust_that_binds: weather WeatherClient;
}
