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

mod given {
    use stoop::{InPlace, Sender};

    #[derive(Clone, Debug, Default, PartialEq, stoop::Data)]
    pub(crate) struct Entry {
        pub name: String,
        #[stoop(since = 1)]
        pub size: u64,
    }

    /// Declares an interface of types that it is given.
    macro_rules! declared {
        ($number:ty, $text:ty, $entry:ty, $unsized:ty) => {
            #[stoop::interface(revision = 1)]
            pub(crate) trait Given {
                fn enter(
                    &self,
                    number: $number,
                    text: &$text,
                    entry: &mut $entry,
                    #[since(1)] more: $entry,
                ) -> $number;
                fn list(&self, first: $number, entries: Sender<$entry>) -> Option<$entry>;
                fn texts(&self, texts: Sender<$unsized>) -> Result<$entry, $entry>;
                fn fill(&self, #[out] numbers: &mut InPlace<$number>, by: &$entry) -> $entry;
            }
        };
    }
    declared! { u32, [String], Entry, str }
}

#[test]
fn types_of_an_interface_may_have_passed_through_other_macros() {
    use given::{Entry, Given, GivenClient, GivenServer};
    struct Echo;
    impl Given for Echo {
        fn enter(&self, number: u32, text: &[String], entry: &mut Entry, more: Entry) -> u32 {
            *entry = Entry { name: text.concat(), ..more };
            number
        }
        fn list(&self, first: u32, entries: stoop::Sender<Entry>) -> Option<Entry> {
            let entry = Entry { size: first.into(), ..Entry::default() };
            entries.send(&entry).unwrap();
            Some(entry)
        }
        fn texts(&self, texts: stoop::Sender<str>) -> Result<Entry, Entry> {
            texts.send("text").unwrap();
            Err(Entry::default())
        }
        fn fill(&self, numbers: &mut stoop::InPlace<u32>, by: &Entry) -> Entry {
            numbers.set(0, by.size as u32);
            by.clone()
        }
    }
    let server = Server::new().export(GivenServer::new(Echo)).listen(ADDRESSES[1]).unwrap().start().unwrap();
    let client = GivenClient::bind(&server.uris()[0]).unwrap();
    let (mut entry, more) = (Entry::default(), Entry { name: String::new(), size: 7 });
    assert_eq!(client.enter(4, &["a".into(), "b".into()], &mut entry, more.clone()).unwrap(), 4);
    assert_eq!(entry, Entry { name: "ab".into(), size: 7 });
    let (call, entries) = client.list(7);
    assert_eq!(entries.map(Result::unwrap).collect::<Vec<_>>(), std::slice::from_ref(&more));
    assert_eq!(call.wait().unwrap(), Some(more.clone()));
    let (call, texts) = client.texts();
    assert_eq!(texts.map(|text| text.unwrap()).collect::<Vec<String>>(), ["text"]);
    assert!(matches!(call.wait(), Err(stoop::Error::Application(_))));
    let mut numbers = client.in_place(3).unwrap();
    assert_eq!((client.fill(&mut numbers, &more).unwrap(), numbers.get(0)), (more, 7));
}
