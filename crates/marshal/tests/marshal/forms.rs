//! Types that have grown, and the same types as they were before: the bytes of older forms are those that older programs write.

use std::collections::{BTreeMap, LinkedList, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use crate::common::{decoded, decoded_at, encoded, encoded_at};
use stoop_marshal::{Data, Description, EncodeError, Form};

/// The types at their first revision.
mod before {
    use super::*;

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Small {
        pub a: u8,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Fixed {
        pub a: u8,
        pub b: u32,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Options {}

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Plain {
        One,
        Three,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Tagged {
        Text(String),
        Both { a: u8, b: u64 },
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Tree {
        pub value: Fixed,
        pub below: Vec<Tree>,
        #[stoop(shared)]
        pub shared: Vec<Arc<Fixed>>,
    }

    #[derive(stoop_macros::Data, Clone, Copy, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Colour {
        Red,
        Blue,
        Other,
    }

    #[derive(stoop_macros::Data, Clone, Copy, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Nothing {}

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Deep<T> {
        pub small: u8,
        pub colours: [Colour; 3],
        pub pair: (T, u16),
        pub nothing: [Nothing; 2],
        pub flag: bool,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Often {
        pub a: u8,
        pub b: u64,
    }
}

/// The same types at revision 2. Each has become larger or aligned otherwise, or is not fixed any more.
mod after {
    use super::*;

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Small {
        #[stoop(since = 2)]
        pub first: u128,
        pub a: u8,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Fixed {
        pub a: u8,
        #[stoop(since = 1, default = "none".into())]
        pub name: String,
        pub b: u32,
        #[stoop(since = 2, default = f64::NAN)]
        pub ratio: f64,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Options {
        #[stoop(since = 1)]
        pub fast: bool,
        #[stoop(since = 2, drop)]
        pub hint: u32,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Plain {
        One,
        #[stoop(since = 1)]
        Two(u32),
        #[stoop(otherwise)]
        Three,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Tagged {
        #[stoop(since = 2)]
        Nothing,
        Text(String),
        Both {
            a: u8,
            #[stoop(since = 1)]
            between: u16,
            b: u64,
        },
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Tree {
        pub value: Fixed,
        pub below: Vec<Tree>,
        #[stoop(shared)]
        pub shared: Vec<Arc<Fixed>>,
        #[stoop(since = 1, shared)]
        pub other: Option<Arc<Fixed>>,
    }

    #[derive(stoop_macros::Data, Clone, Copy, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) enum Colour {
        #[stoop(since = 1)]
        Black,
        Red,
        #[stoop(since = 3)]
        Green,
        Blue,
        #[stoop(otherwise)]
        Other,
        #[stoop(since = 2)]
        White,
    }

    #[derive(stoop_macros::Data, Clone, Copy, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Nothing {
        #[stoop(since = 1)]
        pub something: u32,
    }

    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Deep<T> {
        #[stoop(since = 5, default = 9)]
        pub large: u128,
        pub small: u8,
        pub colours: [Colour; 3],
        pub pair: (T, u16),
        #[stoop(since = 4, drop)]
        pub hint: u16,
        pub nothing: [Nothing; 2],
        pub flag: bool,
    }

    /// It has changed more often than there is code for.
    #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
    #[stoop(crate = crate::common::root)]
    pub(crate) struct Often {
        #[stoop(since = 1)]
        pub c: u128,
        pub a: u8,
        #[stoop(since = 2)]
        pub d: u8,
        #[stoop(since = 3)]
        pub e: u8,
        #[stoop(since = 4)]
        pub f: u8,
        #[stoop(since = 5)]
        pub g: u8,
        #[stoop(since = 6)]
        pub h: u8,
        pub b: u64,
        #[stoop(since = 7)]
        pub i: u8,
        #[stoop(since = 8)]
        pub j: u8,
        #[stoop(since = 9)]
        pub k: u8,
    }
}

const FIRST: Form = Form::of_arguments(0);

fn described<T: Data>(revision: u32) -> String {
    let mut description = Description::at(revision);
    T::describe(&mut description);
    description.finish()
}

/// The older type and the newer one have the same description, layout and bytes at the first revision.
fn same<O: Data + PartialEq + Debug, N: Data + PartialEq + Debug>(old: &O, new: &N) {
    assert_eq!(described::<N>(0), described::<O>(u32::MAX));
    assert_eq!(N::layout_at(FIRST), O::LAYOUT, "{}", described::<O>(0));
    for offset in 0..=16 {
        let bytes = encoded(old, offset, 1 << 20).unwrap();
        assert_eq!(encoded_at(new, offset, FIRST).as_ref(), Ok(&bytes), "{new:?} at offset {offset}");
        let debug = format!("{new:?}");
        assert_eq!(decoded_at::<N>(&bytes, offset, FIRST).map(|new| format!("{new:?}")), Ok(debug));
        assert_eq!(decoded::<O>(&bytes, offset).as_ref(), Ok(old));
        for len in offset..bytes.len() {
            assert!(decoded_at::<N>(&bytes[..len], offset, FIRST).is_err(), "{len} of {} bytes", bytes.len());
        }
    }
}

/// [`same`] of the values, and of collections and pointers of them.
fn all_same<O: Data + Clone + PartialEq + Debug, N: Data + Clone + PartialEq + Debug>(old: &O, new: &N) {
    same(old, new);
    same(&vec![old.clone(), old.clone()], &vec![new.clone(), new.clone()]);
    same(&vec![old.clone(); 2].into_boxed_slice(), &vec![new.clone(); 2].into_boxed_slice());
    same(&VecDeque::from(vec![old.clone(); 3]), &VecDeque::from(vec![new.clone(); 3]));
    same(&LinkedList::from([old.clone()]), &LinkedList::from([new.clone()]));
    same(&Vec::<O>::new(), &Vec::<N>::new());
    same(&Some(old.clone()), &Some(new.clone()));
    same(&Ok::<O, u8>(old.clone()), &Ok::<N, u8>(new.clone()));
    same(&Err::<u8, O>(old.clone()), &Err::<u8, N>(new.clone()));
    same(&Box::new(old.clone()), &Box::new(new.clone()));
    same(&[old.clone(), old.clone(), old.clone()], &[new.clone(), new.clone(), new.clone()]);
    same(&[(); 0].map(|()| old.clone()), &[(); 0].map(|()| new.clone()));
    same(&(1u8, old.clone(), 2u16), &(1u8, new.clone(), 2u16));
    same(
        &BTreeMap::from([(1u8, old.clone()), (2, old.clone())]),
        &BTreeMap::from([(1u8, new.clone()), (2, new.clone())]),
    );
}

fn new_fixed() -> after::Fixed {
    after::Fixed { a: 1, name: "none".into(), b: 2, ratio: f64::NAN }
}

#[test]
fn an_older_form_has_the_bytes_of_the_older_type() {
    let old_fixed = before::Fixed { a: 1, b: 2 };
    all_same(&before::Small { a: 9 }, &after::Small { first: 0, a: 9 });
    all_same(&old_fixed, &new_fixed());
    all_same(&before::Options {}, &after::Options { fast: false, hint: 0 });
    all_same(&before::Plain::One, &after::Plain::One);
    all_same(&before::Plain::Three, &after::Plain::Three);
    all_same(&before::Tagged::Text("text".into()), &after::Tagged::Text("text".into()));
    all_same(&before::Tagged::Both { a: 1, b: 2 }, &after::Tagged::Both { a: 1, between: 0, b: 2 });
    let (shared, new_shared) = (Arc::new(old_fixed.clone()), Arc::new(new_fixed()));
    let leaf = before::Tree { value: old_fixed.clone(), below: vec![], shared: vec![shared; 3] };
    let new_leaf =
        after::Tree { value: new_fixed(), below: vec![], shared: vec![new_shared; 3], other: None };
    let tree = before::Tree { value: old_fixed, below: vec![leaf.clone(), leaf], shared: vec![] };
    let new_tree = after::Tree {
        value: new_fixed(),
        below: vec![new_leaf.clone(), new_leaf],
        shared: vec![],
        other: None,
    };
    same(&tree, &new_tree);
}

fn new_deep(colours: [after::Colour; 3]) -> after::Deep<i64> {
    let nothing = [after::Nothing { something: 0 }; 2];
    after::Deep { large: 9, small: 1, colours, pair: (-2, 3), hint: 0, nothing, flag: true }
}

fn new_often() -> after::Often {
    after::Often { c: 0, a: 1, d: 0, e: 0, f: 0, g: 0, h: 0, b: 2, i: 0, j: 0, k: 0 }
}

#[test]
fn an_older_form_of_a_fixed_type_has_the_bytes_of_the_older_type() {
    use before::Colour::{Blue, Other, Red};
    all_same(&Red, &after::Colour::Red);
    all_same(&Blue, &after::Colour::Blue);
    all_same(&Other, &after::Colour::Other);
    all_same(&before::Nothing {}, &after::Nothing { something: 0 });
    let nothing = [before::Nothing {}; 2];
    let old = before::Deep { small: 1, colours: [Red, Blue, Other], pair: (-2i64, 3), nothing, flag: true };
    let new = new_deep([after::Colour::Red, after::Colour::Blue, after::Colour::Other]);
    all_same(&old, &new);
    all_same(&before::Often { a: 1, b: 2 }, &new_often());
}

#[test]
fn a_fixed_value_survives_the_forms_of_all_revisions_that_can_tell_it() {
    use after::Colour::{Black, Blue, Green, Other, Red, White};
    let [plain, black, white, green] =
        [[Red, Blue, Other], [Black, Blue, Other], [Red, White, Other], [Red, Green, White]].map(new_deep);
    let last = after::Deep { large: 10, ..plain.clone() };
    for (value, since) in [(plain, 0), (black, 1), (white, 2), (green, 3), (last, 5)] {
        for revision in 0..=6 {
            let form = Form::of_arguments(revision);
            for offset in [0, 1, 5] {
                let all = vec![value.clone(), value.clone()];
                match encoded_at(&all, offset, form) {
                    Ok(bytes) => {
                        assert!(revision >= since, "{value:?} at revision {revision}");
                        assert_eq!(decoded_at(&bytes, offset, form), Ok(all));
                    }
                    Err(error) => {
                        assert!(revision < since, "{value:?} at revision {revision}: {error:?}");
                        assert!(
                            matches!(error, EncodeError::Inexpressible { since: named, .. } if named == since)
                        );
                    }
                }
            }
        }
        assert_eq!(encoded_at(&value, 0, Form::of_arguments(5)), encoded(&value, 0, 1000));
    }
    for revision in 0..=10 {
        let (form, k) = (Form::of_arguments(revision), if revision >= 9 { 7 } else { 0 });
        let value = after::Often { k, ..new_often() };
        let bytes = encoded_at(&value, 1, form).unwrap();
        assert_eq!(decoded_at(&bytes, 1, form), Ok(value));
    }
}

#[test]
fn an_unknown_number_of_a_variant_is_refused_in_each_form() {
    for (revision, known) in [(0, 3), (1, 4), (2, 5), (3, 6)] {
        for number in 0..8u32 {
            let read = decoded_at::<after::Colour>(&number.to_le_bytes(), 0, Form::of_arguments(revision));
            assert_eq!(read.is_ok(), number < known, "{number} at revision {revision}");
        }
    }
}

/// The error of a value that has no older form.
fn inexpressible<T: Data>(value: &T, revision: u32) -> (&'static str, u32) {
    match encoded_at(value, 0, Form::of_arguments(revision)) {
        Err(EncodeError::Inexpressible { item, since }) => (item, since),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_that_a_server_cannot_know_are_an_error() {
    assert_eq!(inexpressible(&after::Small { first: 1, a: 9 }, 1), ("Small.first", 2));
    let named = after::Fixed { name: "x".into(), ..new_fixed() };
    assert_eq!(inexpressible(&named, 0), ("Fixed.name", 1));
    assert_eq!(inexpressible(&vec![after::Fixed { ratio: 1.0, ..named.clone() }], 1), ("Fixed.ratio", 2));
    assert!(encoded_at(&named, 0, Form::of_arguments(1)).is_ok());
    assert_eq!(inexpressible(&Some(after::Plain::Two(7)), 0), ("Plain::Two", 1));
    assert_eq!(inexpressible(&after::Tagged::Nothing, 1), ("Tagged::Nothing", 2));
    assert_eq!(
        inexpressible(&after::Tagged::Both { a: 1, between: 7, b: 2 }, 0),
        ("Tagged::Both.between", 1)
    );
    assert_eq!(inexpressible(&after::Options { fast: true, hint: 0 }, 0), ("Options.fast", 1));
    assert_eq!(inexpressible(&vec![after::Nothing { something: 1 }], 0), ("Nothing.something", 1));
    assert_eq!(inexpressible(&(1u8, after::Colour::Green), 2), ("Colour::Green", 3));
    assert_eq!(inexpressible(&[after::Often { k: 1, ..new_often() }], 8), ("Often.k", 9));
    // A hint is dropped.
    let hint = encoded_at(&after::Options { fast: false, hint: 7 }, 0, FIRST);
    assert_eq!(hint, encoded(&before::Options {}, 0, 10));
}

#[test]
fn results_are_told_without_what_the_caller_does_not_know() {
    let results = Form::of_results(0);
    let told = encoded_at(&after::Fixed { name: "x".into(), ratio: 1.0, ..new_fixed() }, 0, results);
    assert_eq!(told, encoded(&before::Fixed { a: 1, b: 2 }, 0, 100));
    let told = encoded_at(&vec![after::Plain::Two(7), after::Plain::One], 0, results);
    assert_eq!(told, encoded(&vec![before::Plain::Three, before::Plain::One], 0, 100));
    use after::Colour::{Black, Green, White};
    let told = encoded_at(&new_deep([Black, Green, White]), 0, results);
    let other = new_deep([after::Colour::Other; 3]);
    assert_eq!(told, encoded_at(&other, 0, FIRST));
    let error = encoded_at(&after::Tagged::Nothing, 0, Form::of_results(1)).unwrap_err();
    assert_eq!(error, EncodeError::Inexpressible { item: "Tagged::Nothing", since: 2 });
}

#[test]
fn a_key_that_has_grown_behind_a_pointer_is_found() {
    let has_grown_key = |describe: fn(&mut Description)| {
        let mut description = Description::new();
        describe(&mut description);
        description.has_grown_key()
    };
    #[derive(stoop_macros::Data, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[stoop(crate = crate::common::root)]
    struct Key {
        #[stoop(since = 1)]
        later: u8,
    }
    assert!(has_grown_key(<BTreeMap<Vec<Key>, u8> as Data>::describe));
    assert!(has_grown_key(<(Key, BTreeMap<Box<Key>, u8>) as Data>::describe), "its second time");
    assert!(!has_grown_key(<BTreeMap<u8, Key> as Data>::describe));
}
