//! Names and shapes of types that stubs could stumble over.

use crate::mock;
use std::marker::PhantomData;

use stoop_macros::{Data, interface};

#[derive(Data, Clone, Debug, Default, PartialEq)]
#[stoop(crate = crate::mock)]
struct T {
    r#type: u8,
    value: u16,
    writer: u32,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::mock)]
struct Chain<V: Clone, const N: usize = 2>
where
    V: PartialEq,
{
    values: [V; N],
    next: Option<Box<Chain<V, N>>>,
    kind: PhantomData<V>,
}

#[derive(Data, Clone, Copy, Debug, PartialEq)]
#[stoop(crate = crate::mock)]
enum Numbered {
    Low = 10,
    High = 20,
}

#[derive(Data, Clone, Debug, PartialEq)]
#[stoop(crate = crate::mock)]
enum Held<V> {
    r#None,
    Some(V, ()),
    Struct { reader: V, description: Vec<V> },
}

/// Nothing of this is what the prelude means.
#[allow(dead_code, reason = "they are only in the way")]
mod in_the_way {
    pub(super) struct Result;
    pub(super) struct Option;
    pub(super) struct String;
    pub(super) trait Send {}
    pub(super) fn drop() {}
}

mod stubs {
    #[allow(unused_imports, reason = "they are only in the way")]
    use super::in_the_way::{Option, Result, Send, String, drop};
    use super::{Chain, Held, Numbered, T};

    #[super::interface(crate = crate::mock)]
    pub(super) trait Names {
        fn clone(&self, value: &T) -> T;
        fn new(&self, writer: T) -> T;
        fn fmt(&self, call: Numbered, #[out] result: &mut T) -> Numbered;
        fn dispatch(&self, payload: Chain<std::string::String>) -> Chain<std::string::String>;
        fn local(&self, views: Held<u64>) -> Held<u64>;
        fn type_id(&self, #[out] extent: &mut [u8; 2], #[out] route: &mut [u16]);
        #[deprecated = "as an example"]
        fn old(&self) -> u8;
    }
}

use stubs::{Names, NamesClient, NamesServer};

struct Server;

impl Names for Server {
    fn clone(&self, value: &T) -> T {
        Clone::clone(value)
    }
    fn new(&self, writer: T) -> T {
        writer
    }
    fn fmt(&self, call: Numbered, result: &mut T) -> Numbered {
        result.value = 3;
        call
    }
    fn dispatch(&self, payload: Chain<String>) -> Chain<String> {
        payload
    }
    fn local(&self, views: Held<u64>) -> Held<u64> {
        views
    }
    fn type_id(&self, extent: &mut [u8; 2], route: &mut [u16]) {
        extent.fill(1);
        route.fill(2);
    }
    fn old(&self) -> u8 {
        1
    }
}

#[test]
fn names_of_the_user_and_of_the_stubs_stay_apart() {
    for is_local in [false, true] {
        let options = mock::BindOptions { is_local, ..mock::to(NamesServer::new(Server)) };
        let client = NamesClient::bind_with("", &options).unwrap();
        let value = T { r#type: 1, value: 2, writer: 3 };
        assert_eq!(client.clone(&value).as_ref(), Ok(&value));
        assert_eq!(client.new(Clone::clone(&value)).as_ref(), Ok(&value));
        let mut out = T::default();
        assert_eq!(client.fmt(Numbered::High, &mut out), Ok(Numbered::High));
        assert_eq!(client.fmt(Numbered::Low, &mut out), Ok(Numbered::Low));
        assert_eq!(out.value, 3);
        let end = Chain { values: ["c".to_owned(), "d".to_owned()], next: None, kind: PhantomData };
        let chain =
            Chain { values: ["a".to_owned(), "b".to_owned()], next: Some(Box::new(end)), kind: PhantomData };
        assert_eq!(client.dispatch(Clone::clone(&chain)), Ok(chain));
        for held in [Held::None, Held::Some(1, ()), Held::Struct { reader: 2, description: vec![3] }] {
            assert_eq!(client.local(Clone::clone(&held)), Ok(held));
        }
        let (mut bytes, mut words) = ([0; 2], [0; 3]);
        client.type_id(&mut bytes, &mut words).unwrap();
        assert_eq!((bytes, words), ([1; 2], [2; 3]));
        #[allow(deprecated, reason = "carried over from the trait")]
        let old = client.old();
        assert_eq!(old, Ok(1));
    }
}

#[test]
fn signatures_use_the_names_as_they_are_meant() {
    let procedures = NamesClient::interface().procedures;
    let signatures: Vec<String> = procedures.iter().map(|procedure| procedure.signature()).collect();
    assert_eq!(signatures[0], "clone(value: T{type: u8, value: u16, writer: u32}) -> T");
    assert_eq!(
        signatures[2],
        "fmt(call: Numbered{Low | High}, result: out T{type: u8, value: u16, writer: u32}) -> Numbered"
    );
    assert_eq!(
        signatures[3],
        "dispatch(payload: Chain{values: [String; 2], next: Option<Box<Chain>>, kind: ()}) -> Chain"
    );
}

mod named_like_a_parameter {
    #[super::interface(crate = crate::mock)]
    pub(super) trait T {
        fn one(&self) -> u8;
    }
}

#[test]
fn an_interface_may_be_called_like_a_parameter() {
    struct One;
    impl named_like_a_parameter::T for One {
        fn one(&self) -> u8 {
            1
        }
    }
    let options = mock::to(named_like_a_parameter::TServer::new(One));
    let client = named_like_a_parameter::TClient::bind_with("", &options).unwrap();
    assert_eq!(client.one(), Ok(1));
}
