//! A server tells its interfaces: what they are called, their procedures and types, their documentation and limits.
//!
//! `stoop describe` prints them, `stoop call` calls them, and programs [ask] for them. Every server exports
//! [`StoopReflection`] unless it is switched off:
//!
//! | [`Server::reflection`](crate::Server::reflection) | told |
//! |---|---|
//! | [`Reflection::Full`] | names and signatures to every caller; documentation to callers on the same machine (`shm:`, `unix:`, `local:`) and on sealed bindings |
//! | [`Reflection::WithoutDocs`] | names and signatures |
//! | [`Reflection::Off`] | nothing; also a caller whose interface does not fit learns neither the names nor the signatures that the server has |
//!
//! A server with [lists of callers](crate::Server::callers) tells a caller only of interfaces that it may call, and nothing to one whose
//! interface does not fit.

use crate::context::{Caller, Peer, served_call, serving_caller};
use crate::error::{BindError, CallError, RefusalCode};
use crate::forms::KnownForm;
use crate::interface::{Exported, Interface};
use crate::options::BindOptions;
use crate::serving::procedures::ProcedureOptions;
use crate::serving::restricted::Lists;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use stoop_exchange::{FORMS, FORMS_MAX};

/// How much a server tells of its interfaces.
///
/// ```
/// use stoop::reflection::Reflection;
///
/// // Callers with the trait call as before; nobody can ask which procedures there are.
/// let server = stoop::Server::new().reflection(Reflection::Off);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflection {
    /// Names and signatures; to callers on the same machine and on sealed bindings documentation, too.
    #[default]
    Full,
    /// Names and signatures.
    WithoutDocs,
    /// Nothing.
    Off,
}

/// The interface by which servers tell their interfaces.
#[stoop_macros::interface(revision = 1)]
pub trait StoopReflection {
    /// The names of the interfaces of the server's program, in the order in which it exports them.
    #[idempotent]
    fn interfaces(&self) -> Vec<String>;
    /// The interface of that name, with its procedures from number `first` on: as many as an answer holds.
    #[idempotent]
    fn describe(&self, interface: &str, first: u32) -> Option<Described>;
    /// All forms of the procedures of the interface of that name, from the one at place `first` on: as many as an answer holds.
    #[since(1)]
    #[idempotent]
    fn forms(&self, interface: &str, first: u32) -> Option<DescribedForms>;
}

/// The forms of an interface's procedures, or a part of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct DescribedForms {
    /// Number of all forms.
    pub total: u32,
    /// For each, the first and the last revision at which it holds, and its signature.
    pub forms: Vec<(u32, u32, String)>,
}

/// An interface, or a part of its procedures.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// let adder = stoop::reflection::ask(&uri, "Adder", &stoop::BindOptions::new())?;
/// assert_eq!(adder.total as usize, adder.procedures.len());
/// for procedure in &adder.procedures {
///     println!("{}{}", procedure.signature, if procedure.idempotent { " (idempotent)" } else { "" });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct Described {
    /// The first paragraph of its documentation; empty if that is not told.
    pub docs: String,
    /// Bytes of the longest arguments and of the longest result.
    pub max_message: u64,
    /// Number of all its procedures.
    pub total: u32,
    /// Its procedures.
    pub procedures: Vec<DescribedProcedure>,
    /// Documentation of the types of these: of types (`Point`), fields (`Point.x`), variants (`Shape::Circle`) and their fields
    /// (`Shape::Circle.radius`).
    pub types: Vec<(String, String)>,
}

/// A procedure.
#[derive(Clone, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
pub struct DescribedProcedure {
    /// Its signature: `get(name: String) -> Option<u32>`.
    pub signature: String,
    /// Whether it may run more than once for a call.
    pub idempotent: bool,
    /// Calls of it that run at once at each address, if that is limited.
    pub at_once: Option<u32>,
    /// The first paragraph of its documentation.
    pub docs: String,
}

/// Name of the interface; no other can be exported under it.
pub(crate) const NAME: &str = "StoopReflection";

/// Bytes of texts in an answer beyond which no other procedure is put into it.
const ANSWER_LEN: usize = 256 << 10;

/// Bytes of texts of an interface that [`ask`] takes.
const ASKED_LEN: usize = 4 << 20;

/// The interfaces that a server tells.
#[derive(Clone)]
pub(crate) struct Reflector(Arc<Told>);

struct Told {
    interfaces: Vec<ToldInterface>,
    max_message: usize,
    tells_docs: bool,
    lists: Lists,
}

struct ToldInterface {
    interface: &'static Interface,
    options: Vec<ProcedureOptions>,
    /// Made when it is asked for first.
    procedures: OnceLock<Vec<(DescribedProcedure, Documented)>>,
}

/// Types that a signature names, with their documentation.
type Documented = Vec<(&'static str, &'static str)>;

// A panic leaves nothing half done: what is told is made once, as a whole.
impl UnwindSafe for Reflector {}
impl RefUnwindSafe for Reflector {}

impl Reflector {
    /// Of a server that exports these, with these options of their procedures.
    pub(crate) fn new(
        exports: &[Arc<dyn Exported>],
        options: &[Vec<ProcedureOptions>],
        max_message: usize,
        (reflection, lists): (Reflection, Lists),
    ) -> Self {
        let interfaces = exports.iter().zip(options).map(|(export, options)| ToldInterface {
            interface: export.interface(),
            options: options.clone(),
            procedures: OnceLock::new(),
        });
        // Its own interfaces every server has, and every program has them in this crate.
        let own = [crate::health::NAME, crate::account::tell::NAME];
        let interfaces = interfaces.filter(|told| !own.contains(&told.interface.name)).collect();
        Self(Arc::new(Told { interfaces, max_message, tells_docs: reflection == Reflection::Full, lists }))
    }

    /// The interfaces of which the caller that this thread serves may call a procedure.
    fn told(&self) -> impl Iterator<Item = &ToldInterface> {
        self.0.interfaces.iter().filter(|told| self.0.lists.tell(told.interface))
    }

    /// Whether the caller that this thread serves learns documentation: not on an unsealed network, where anybody may listen.
    fn tells_docs(&self) -> bool {
        let is_apart = |caller: &Caller| match caller {
            Caller::Local | Caller::Process(_) => true,
            Caller::Network(_) | Caller::Station(_) => Peer::of(caller, served_call().id()).is_some(),
        };
        self.0.tells_docs && is_apart(&serving_caller())
    }
}

impl ToldInterface {
    fn procedures(&self) -> &[(DescribedProcedure, Vec<(&'static str, &'static str)>)] {
        self.procedures.get_or_init(|| {
            let procedures = self.interface.procedures.iter().zip(&self.options);
            let told = procedures.map(|(procedure, options)| {
                let (signature, types) = procedure.documented();
                let (idempotent, at_once) = (procedure.idempotent, options.limit());
                (DescribedProcedure { signature, idempotent, at_once, docs: procedure.docs.into() }, types)
            });
            told.collect()
        })
    }
}

impl StoopReflection for Reflector {
    fn interfaces(&self) -> Vec<String> {
        self.told().map(|told| told.interface.name.to_owned()).collect()
    }

    fn forms(&self, interface: &str, first: u32) -> Option<DescribedForms> {
        let told = self.told().find(|told| told.interface.name == interface)?;
        let (_, all) = told.interface.known_forms();
        let (total, mut len) = (all.len() as u32, 0);
        let forms = all.into_iter().skip(first as usize).take_while(|form| {
            let has_room = len <= ANSWER_LEN;
            len += form.signature.len();
            has_room
        });
        let forms = forms.map(|form| (form.first, form.last, form.signature)).collect();
        Some(DescribedForms { total, forms })
    }

    fn describe(&self, interface: &str, first: u32) -> Option<Described> {
        let told = self.told().find(|told| told.interface.name == interface)?;
        let (all, tells_docs) = (told.procedures(), self.tells_docs());
        let mut described = Described {
            docs: if tells_docs { told.interface.docs.into() } else { String::new() },
            max_message: self.0.max_message as u64,
            total: all.len() as u32,
            ..Described::default()
        };
        let (mut len, mut types) = (0, BTreeMap::new());
        for (procedure, docs_of_types) in all.iter().skip(first as usize) {
            if len > ANSWER_LEN {
                break;
            }
            len += procedure.signature.len() + procedure.docs.len();
            let mut procedure = procedure.clone();
            if tells_docs {
                for (item, docs) in docs_of_types {
                    if types.insert(*item, *docs).is_none() {
                        len += item.len() + docs.len();
                    }
                }
            } else {
                procedure.docs.clear();
            }
            described.procedures.push(procedure);
        }
        described.types = types.into_iter().map(|(item, docs)| (item.to_owned(), docs.to_owned())).collect();
        Some(described)
    }
}

/// Why a server has not told an interface.
///
/// ```
/// use stoop::reflection::{self, AskError};
///
/// /// Whether a server has an interface; an error if that cannot be known.
/// fn has(uri: &str, interface: &str) -> Result<bool, AskError> {
///     match reflection::ask(uri, interface, &stoop::BindOptions::new()) {
///         Ok(_) => Ok(true),
///         Err(AskError::NoSuchInterface(_)) => Ok(false),
///         Err(why) => Err(why),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AskError {
    /// It cannot be asked: it cannot be reached, or does not tell its interfaces.
    Bind(BindError),
    /// There was no answer.
    Call(CallError),
    /// It has no such interface, but these.
    NoSuchInterface(Vec<String>),
    /// It tells more than fits into the memory that an answer may take.
    TooLong,
    /// It tells what is no interface, for this reason.
    NoInterface(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(BindError::NoSuchInterface { server, .. }) => write!(
                f,
                "the server at {server} does not tell its interfaces: it is older than this, or was told not to (Server::reflection)"
            ),
            Self::Bind(why) => write!(f, "{why}"),
            Self::Call(why) => write!(f, "{why}"),
            Self::NoSuchInterface(all) => {
                // From a peer, and shown to a person.
                let all: Vec<_> = all.iter().map(|name| name.escape_debug().to_string()).collect();
                write!(f, "the server has no such interface; it has {}", all.join(", "))
            }
            Self::TooLong => write!(f, "the server tells more than {} MiB of an interface", ASKED_LEN >> 20),
            Self::NoInterface(why) => write!(f, "the server tells what is no interface: {why}"),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks the server at `uri` for the names of the interfaces of its program.
///
/// # Errors
/// It does not tell them.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// let names = stoop::reflection::interfaces(&uri, &stoop::BindOptions::new())?;
/// assert_eq!(names, ["Adder"]);
/// # Ok(())
/// # }
/// ```
pub fn interfaces(uri: &str, options: &BindOptions) -> Result<Vec<String>, AskError> {
    bind(uri, options)?.interfaces().map_err(AskError::Call)
}

/// Asks the server at `uri` for all forms of the interface of that name. One that was built before it could tell them has the newest only.
pub(crate) fn ask_forms(
    uri: &str,
    interface: &str,
    options: &BindOptions,
) -> Result<Vec<KnownForm>, AskError> {
    let client = bind(uri, options)?;
    let mut all = Vec::new();
    let mut len = 0;
    loop {
        let told = match client.forms(interface, all.len() as u32) {
            Ok(Some(told)) => told,
            Ok(None) => return Err(AskError::NoSuchInterface(client.interfaces().unwrap_or_default())),
            Err(CallError::Refused(refusal, ..)) if refusal.code == RefusalCode::UnknownProcedure => {
                let newest = ask(uri, interface, options)?.procedures.into_iter();
                let form =
                    |told: DescribedProcedure| KnownForm { first: 0, last: 0, signature: told.signature };
                return Ok(newest.map(form).collect());
            }
            Err(why) => return Err(AskError::Call(why)),
        };
        len += told.forms.iter().map(|(_, _, signature)| signature.len()).sum::<usize>();
        if len > ASKED_LEN || all.len() > usize::from(FORMS) + FORMS_MAX {
            return Err(AskError::TooLong);
        }
        let is_last = told.forms.is_empty();
        all.extend(told.forms.into_iter().map(|(first, last, signature)| KnownForm {
            first,
            last,
            signature,
        }));
        if is_last || all.len() >= told.total as usize {
            return Ok(all);
        }
    }
}

/// Asks the server at `uri` for the whole interface of that name.
///
/// # Errors
/// It does not tell it.
///
/// ```
/// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
/// # let uri = server.uris()[0].clone();
///
/// let adder = stoop::reflection::ask(&uri, "Adder", &stoop::BindOptions::new())?;
/// assert_eq!(adder.procedures[0].signature, "add(a: u32, b: u32) -> u32");
/// assert!(adder.procedures[0].idempotent);
/// # Ok(())
/// # }
/// ```
pub fn ask(uri: &str, interface: &str, options: &BindOptions) -> Result<Described, AskError> {
    let client = bind(uri, options)?;
    let page = |first| client.describe(interface, first).map_err(AskError::Call);
    let Some(mut described) = page(0)? else {
        return Err(AskError::NoSuchInterface(client.interfaces().map_err(AskError::Call)?));
    };
    let mut len = 0;
    let mut from = 0;
    loop {
        let told = &described.procedures[from..];
        len += told.iter().map(|each| 64 + each.signature.len() + each.docs.len()).sum::<usize>();
        if len > ASKED_LEN || described.procedures.len() > usize::from(FORMS) {
            return Err(AskError::TooLong);
        }
        from = described.procedures.len();
        if from >= described.total as usize {
            break;
        }
        // A server that tells none would be asked for ever.
        let Some(next) = page(from as u32)?.filter(|next| !next.procedures.is_empty()) else { break };
        described.procedures.extend(next.procedures);
        len += next.types.iter().map(|(item, docs)| item.len() + docs.len()).sum::<usize>();
        described.types.extend(next.types);
    }
    Ok(described)
}

fn bind(uri: &str, options: &BindOptions) -> Result<StoopReflectionClient, AskError> {
    let options = options.clone().max_message(ASKED_LEN);
    StoopReflectionClient::bind_with(uri, &options).map_err(AskError::Bind)
}
