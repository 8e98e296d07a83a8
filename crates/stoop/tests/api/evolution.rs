//! Interfaces that have changed at one end: what may differ, and what may not.

use stoop::{BindError, Server};

mod before {
    #[stoop::interface]
    pub trait Ledger {
        fn enter(&self, amount: u32, note: &str) -> u32;
    }
}

mod renamed {
    #[stoop::interface]
    pub trait Ledger {
        fn enter(&self, pence: u32, why: &str) -> u32;
    }
}

mod retyped {
    #[stoop::interface]
    pub trait Ledger {
        fn enter(&self, pence: u64, why: &str) -> u32;
    }
}

struct Book;

impl before::Ledger for Book {
    fn enter(&self, amount: u32, note: &str) -> u32 {
        amount + note.len() as u32
    }
}

const ADDRESSES: [&str; 2] = ["udp://127.0.0.1:0", "tcp://127.0.0.1:0"];

#[test]
fn a_parameter_may_have_another_name_at_the_caller() {
    for address in ADDRESSES {
        let server = Server::new().export(before::LedgerServer::new(Book));
        let server = server.listen(address).unwrap().start().unwrap();
        let client = renamed::LedgerClient::bind(&server.uris()[0]).unwrap();
        assert_eq!(client.enter(40, "ab").unwrap(), 42);
    }
}

#[test]
fn a_parameter_of_another_type_is_shown_with_the_names_at_both_ends() {
    for address in ADDRESSES {
        let server = Server::new().export(before::LedgerServer::new(Book));
        let server = server.listen(address).unwrap().start().unwrap();
        let error = retyped::LedgerClient::bind(&server.uris()[0]).map(|_| ()).unwrap_err();
        let BindError::Mismatch { ours, theirs, .. } = error else { panic!("{error}") };
        assert_eq!(ours, "enter(pence: u64, why: String) -> u32");
        assert_eq!(theirs, "enter(amount: u32, note: String) -> u32");
    }
}
