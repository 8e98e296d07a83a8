use crate::interface::{Interface, Procedure, Revisions, Signature};
use crate::{BindError, ListenError, Server, stub};
use std::collections::BTreeMap;
use stoop_exchange::{FORMS, FORMS_MAX};
use stoop_marshal::{Description, Form};

/// A procedure whose signature changed with each of so many revisions.
fn restless<const REVISIONS: u32>(description: &mut Description) {
    description.text("restless(");
    for since in 1..=REVISIONS {
        if description.has(since) {
            description.text("u8, ");
        }
    }
    description.text(")");
}

const fn procedure(describe: fn(&mut Description), since: u32) -> Procedure {
    let signature = Signature::Emitted(describe);
    Procedure {
        name: "restless",
        docs: "",
        signature,
        idempotent: false,
        one_way: false,
        in_place: None,
        buffers: false,
        since,
    }
}

fn interface(procedures: &'static [Procedure], newest: u32, oldest: u32) -> Interface {
    Interface { name: "I", docs: "", procedures, callback: None, revisions: Revisions::new(newest, oldest) }
}

/// Their older forms are as many as an interface may have, and one more for each.
const RESTLESS: &[Procedure] = &[const { procedure(restless::<64>, 0) }; FORMS_MAX / 64];
const TOO_RESTLESS: &[Procedure] = &[const { procedure(restless::<65>, 0) }; FORMS_MAX / 64];
const LATER: &[Procedure] = &[procedure(restless::<64>, 60)];

#[test]
fn an_interface_has_at_most_4096_older_forms() {
    let many = interface(TOO_RESTLESS, 65, 0);
    assert!(many.check_forms().unwrap_err().contains("4160 older forms"), "{:?}", many.check_forms());
    interface(TOO_RESTLESS, 65, 1).check_forms().unwrap();
    let most = interface(RESTLESS, 64, 0);
    most.check_forms().unwrap();
    assert_eq!(most.forms().compared.older.len(), FORMS_MAX);
    let last = FORMS + FORMS_MAX as u16 - 1;
    assert_eq!((most.base(last), most.base(last | 0x8000), most.base(0x8001)), (63, 63, 1));
    assert_eq!(most.form_of_call(last), Some((63, Form::of_results(0))));
    assert_eq!(most.form_of_call(last + 1), None);
    assert_eq!(most.form_of_call(0), None);
    assert_eq!(most.form_of_arguments(FORMS), Form::of_arguments(63));
}

#[test]
fn forms_begin_with_the_procedure_and_end_with_the_oldest_revision() {
    assert_eq!(interface(LATER, 64, 0).forms().compared.older.len(), 4);
    assert_eq!(interface(LATER, 64, 0).forms().compared.later, [0]);
    assert_eq!(interface(LATER, 64, 62).forms().compared.older.len(), 2);
    assert_eq!(interface(LATER, 64, 62).forms().compared.later, [] as [u16; 0]);
    let forms = interface(LATER, 64, 62).known_forms().1;
    let ranges: Vec<_> = forms.iter().map(|form| (form.first, form.last)).collect();
    assert_eq!(ranges, [(64, 64), (63, 63), (62, 62)]);
}

#[test]
fn what_an_older_server_lacks_is_said_in_words() {
    const TWO: &[Procedure] = &[const { procedure(restless::<3>, 0) }; 2];
    let interface = interface(TWO, 3, 0);
    assert_eq!(interface.describe_forms("server", Some), "");
    // The older forms of the first are those of revisions 2, 1 and 0.
    let form = |procedure| (procedure == 0).then_some(FORMS + 1);
    assert_eq!(
        interface.describe_forms("server", form),
        "; the server is older: it has `restless` as at revision 1, no `restless`"
    );
}

mod beyond {
    #[derive(Clone, Debug, PartialEq, stoop_macros::Data)]
    pub(crate) struct Grown {
        #[stoop(since = 2)]
        pub later: u8,
    }

    #[stoop_macros::interface(revision = 1)]
    pub trait Beyond {
        fn get(&self) -> Grown;
    }
}

struct Nothing;

impl beyond::Beyond for Nothing {
    fn get(&self) -> beyond::Grown {
        beyond::Grown { later: 1 }
    }
}

#[test]
fn a_type_beyond_the_revision_of_its_interface_is_an_error_of_start_and_bind() {
    let error = beyond::BeyondClient::bind("udp://127.0.0.1:9").unwrap_err();
    assert!(matches!(error, BindError::Revisions { .. }), "{error}");
    assert!(error.to_string().contains("#[stoop::interface(revision = 2)]"), "{error}");
    let server =
        Server::new().export(beyond::BeyondServer::new(Nothing)).listen("udp://127.0.0.1:0").unwrap();
    let error = server.start().unwrap_err();
    assert!(matches!(error, ListenError::Revisions { .. }), "{error}");
}

#[test]
fn a_grown_key_behind_a_sequence_is_an_error() {
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, stoop_macros::Data)]
    struct Key {
        #[stoop(since = 1)]
        later: u8,
    }
    const KEYED: &[Procedure] = &[procedure(<BTreeMap<Vec<Key>, u8> as stub::Data>::describe, 0)];
    let error = interface(KEYED, 1, 0).check_forms().unwrap_err();
    assert!(error.contains("two of them could become one"), "{error}");
}
