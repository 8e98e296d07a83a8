//! Values of the emitted types go through their encoding, and calls through their trait.

use crate::borrowed::{
    Entry as Listed, Files1, Files1Call, Files1Results, Listing, Page, Path as BorrowedPath,
};
use crate::bytes::{Entry, Path};
use crate::everything::{
    Colour, EVERYPROG, Everyvers1, Everyvers1Call, Everyvers1Results, Everyvers2Call, Handle, Name, Nested,
    NestedExt, NestedExtContent, NestedLevel, NestedParts, Node, Point, ResultType, Shape,
};
use crate::keywords::{self, GenInterface, GenInterfaceClient, GenInterfaceServer};
use stoop_xdr::{Chain, DecodeOwned, Encode, EncodeError, Reader, Writer};

fn round_trip<T: Encode + DecodeOwned + PartialEq + std::fmt::Debug>(value: T) -> Vec<u8> {
    let bytes = stoop_xdr::to_vec(&value).expect("the value can be encoded");
    assert_eq!(stoop_xdr::from_slice::<T>(&bytes).as_ref(), Ok(&value));
    bytes
}

#[test]
fn values_come_out_as_they_went_in() {
    assert_eq!(round_trip(Shape::Red(Point { x: 1, y: -1 })), [0, 0, 0, 1, 0, 0, 0, 1, 255, 255, 255, 255]);
    assert_eq!(round_trip(ResultType::Case5("a".into())), [0, 0, 0, 5, 0, 0, 0, 1, b'a', 0, 0, 0]);
    round_trip(ResultType::Default(7, -1));
    round_trip(Nested {
        ext: NestedExt::Case1(NestedExtContent { deep: 3 }),
        level: NestedLevel::High,
        parts: vec![NestedParts { a: 1 }],
    });
    round_trip(Entry { name: vec![0xff, 0xfe], handle: [9; 16], group: 4, others: vec![5] });
    round_trip(Path(vec![0x80]));
}

#[test]
fn bounds_hold_in_both_directions() {
    let long = "x".repeat(256);
    let refused = stoop_xdr::to_vec(&Name(long.clone()));
    assert!(matches!(refused, Err(EncodeError::TooLong { len: 256, max: 255, .. })), "{refused:?}");
    let bytes = stoop_xdr::to_vec(&long).expect("without a bound it can be encoded");
    assert!(stoop_xdr::from_slice::<Name>(&bytes).is_err());
}

#[test]
fn a_default_arm_does_not_take_the_discriminant_of_another() {
    let refused = stoop_xdr::to_vec(&Shape::Default(Colour::Red));
    assert!(matches!(refused, Err(EncodeError::WrongArm { discriminant: 1, .. })), "{refused:?}");
}

#[test]
fn a_million_nodes_are_encoded_decoded_and_dropped() {
    let list: Chain<Node> = (0..1_000_000).map(|_| Node { label: "n".into() }).collect();
    assert_eq!(round_trip(list).len(), 12 * 1_000_000 + 4);
}

struct Adder;

impl Everyvers1 for Adder {
    fn every_null(&self) {}

    fn every_add(&self, left: i32, right: i32) -> i32 {
        left + right
    }

    fn every_name(&self, arg1: &str) -> String {
        arg1.to_uppercase()
    }

    fn every_lookup(&self, _: &Handle, name: &[Name]) -> Name {
        name[0].clone()
    }
}

/// A call as a server would run it: arguments in, results out.
fn serve(procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let call =
        Everyvers1Call::decode(procedure, &mut Reader::new(arguments)).expect("the arguments are whole");
    let results = call.expect("the procedure exists").run(&Adder);
    let mut bytes = vec![0; 1000];
    let mut writer = Writer::new(&mut bytes);
    results.encode(&mut writer);
    let length = writer.finish().expect("there is room");
    bytes.truncate(length);
    bytes
}

#[test]
fn a_call_runs_the_procedure_of_its_number() {
    let call = Everyvers1Call::EveryAdd(2, 3);
    assert_eq!((Everyvers1Call::PROGRAM, Everyvers1Call::VERSION, call.procedure()), (EVERYPROG, 1, 1));
    let results = serve(1, &[0, 0, 0, 2, 0, 0, 0, 3]);
    assert_eq!(results, [0, 0, 0, 5]);
    let decoded = Everyvers1Results::decode(1, &mut Reader::new(&results));
    assert_eq!(decoded, Ok(Some(Everyvers1Results::EveryAdd(5))));
    assert_eq!(serve(2, b"\0\0\0\x02hi\0\0"), b"\0\0\0\x02HI\0\0");
    assert_eq!(Everyvers1Call::decode(77, &mut Reader::new(&[])), Ok(None));
    // Another version can give the number, and the name, to something else.
    assert_eq!(Everyvers2Call::EveryAdd(Colour::Blue).procedure(), 9);
}

#[test]
fn borrowed_data_is_not_copied() {
    let bytes = stoop_xdr::to_vec(&Page { offset: 1, content: b"abcd" }).expect("the value can be encoded");
    let page: Page<'_> = stoop_xdr::from_slice(&bytes).expect("it was encoded");
    assert_eq!(page, Page { offset: 1, content: b"abcd" });
    assert!(std::ptr::eq(page.content, &bytes[12..16]));
}

struct Files {
    content: Vec<u8>,
}

impl Files1 for Files {
    fn files_read(&self, _: &BorrowedPath<'_>, offset: i64) -> Page<'_> {
        Page { offset, content: &self.content }
    }

    fn files_list(&self, arg1: &str) -> Listing<'_> {
        assert_eq!(arg1, "/");
        Listing::Case0([Listed { name: BorrowedPath("a") }].into_iter().collect())
    }

    fn files_write(&self, page: &Page<'_>) {
        assert_eq!(page.content, self.content);
    }
}

#[test]
fn results_can_borrow_from_the_server() {
    let files = Files { content: b"abc".to_vec() };
    let call = Files1Call::FilesRead(BorrowedPath("a"), 7);
    assert_eq!(call.run(&files), Files1Results::FilesRead(Page { offset: 7, content: b"abc" }));
    Files1Call::FilesWrite(Page { offset: 0, content: b"abc" }).run(&files);
    let listed = Files1Call::decode(2, &mut Reader::new(b"\0\0\0\x01/\0\0\0"));
    let results = listed.expect("the argument is whole").expect("the procedure exists").run(&files);
    assert!(matches!(results, Files1Results::FilesList(Listing::Case0(entries)) if entries.len() == 1));
}

struct Words;

impl GenInterface for Words {
    fn r#gen(&self, writer: i32, reader: i32, server: i32, call: i32, results: i32, client: i32) -> i32 {
        [writer, reader, server, call, results, client].into_iter().fold(0, |sum, digit| 10 * sum + digit)
    }
}

#[test]
fn names_that_are_keywords_are_fields_procedures_and_arguments() {
    let server = stoop::Server::new().export(GenInterfaceServer::new(Words));
    let server = server.listen("onc+udp://127.0.0.1").unwrap().start().unwrap();
    let client = GenInterfaceClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(client.r#gen(1, 2, 3, 4, 5, 6).unwrap(), 123_456);
    assert_eq!(round_trip(keywords::Try { r#try: 7 }), [0, 0, 0, 7]);
    assert_eq!(round_trip(keywords::Arms::SelfValue(3)), [0, 0, 0, 9, 0, 0, 0, 3]);
}

#[test]
fn lists_of_the_rfcs_are_optional_data_or_arrays() {
    use crate::rfcs::{Filetype, Mapping, Pmaplist, Shortlist, ShortlistElement, StringlistElement};
    let (one, two) = (Mapping { prog: 1, port: 2 }, Mapping { prog: 3, port: 4 });
    let list: Pmaplist = [one, two].map(|map| crate::rfcs::PmaplistElement { map }).into_iter().collect();
    assert_eq!(words(&round_trip(list)), [1, 1, 2, 1, 3, 4, 0]);
    let list: Chain<StringlistElement> = Chain(vec![StringlistElement { item: "abcd".into() }]);
    assert_eq!(words(&round_trip(list)), [1, 4, 0x6162_6364, 0]);
    let last = ShortlistElement { item: String::new(), next: Shortlist(vec![]) };
    assert_eq!(words(&round_trip(Shortlist(vec![last.clone()]))), [1, 0, 0]);
    assert!(
        stoop_xdr::to_vec(&Shortlist(vec![last.clone(), last])).is_err(),
        "the array has one element at most"
    );
    // The worked example of RFC 4506 §7 has this union.
    assert_eq!(words(&round_trip(Filetype::Exec("lisp".into()))), [2, 4, 0x6c69_7370]);
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_be_bytes(word.try_into().expect("XDR has words"))).collect()
}
