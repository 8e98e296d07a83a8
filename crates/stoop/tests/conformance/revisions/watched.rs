//! Pipes and callbacks of an interface at four revisions: its types are those of [`versions`](super::versions).

use super::versions::{Full, v0, v1, v2, v3};
use crate::harness::transports::ListenThere;
use stoop::error::{EncodeError, SendError};
use stoop::{BindOptions, CallError, PipeError, RefusalCode, RunningServer, Server};

/// A client of some revision.
pub(super) trait Watching {
    /// What the server's procedure sends.
    fn list(&self) -> Vec<Full>;
    /// Sends these to a procedure. How many it has taken; and for each that could not be told, with which revision it came.
    fn fill(&self, sent: &[Full]) -> (u32, Vec<Option<u32>>);
    /// Has the server show its caller's object something, and tell what came of it.
    fn show(&self, what: &str) -> String;
}

/// A revision of the interface.
pub(super) struct Version {
    pub(super) revision: u32,
    pub(super) serve: fn(&str) -> RunningServer,
    pub(super) bind: fn(&str, BindOptions) -> Box<dyn Watching>,
}

pub(super) fn all() -> [Version; 4] {
    [w0::VERSION, w1::VERSION, w2::VERSION, w3::VERSION]
}

/// What came of a callback.
pub(super) fn told<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(CallError::NotSent(SendError::Arguments(EncodeError::Inexpressible { since, .. }), ..)) => {
            format!("came with {since}")
        }
        Err(CallError::Refused(why, ..)) if why.code == RefusalCode::UnknownProcedure => "unknown".into(),
        Err(error) => error.to_string(),
    }
}

/// A program with the interface at a revision. In brackets its attribute, in braces the procedure that came with revision 1.
macro_rules! watched {
    ($module:ident $types:ident $revision:literal [$($attribute:tt)*] { $($gone:tt)* } { $($gone_served:tt)* } |$watcher:ident| ($call_gone:expr)) => {
        mod $module {
            use super::$types::{Entry, from_entry, to_entry};
            use super::*;
            use stoop::{Receiver, Sender};

            #[stoop::interface($($attribute)*)]
            pub(crate) trait Watcher {
                $($gone)*
                fn seen(&self, entry: &Entry) -> Entry;
            }

            #[stoop::interface($($attribute)* callback = Watcher)]
            pub(crate) trait Watched {
                fn list(&self, entries: Sender<Entry>);
                fn fill(&self, entries: Receiver<Entry>) -> u32;
                fn show(&self, what: &str, #[callback] watcher: WatcherClient) -> String;
            }

            struct Program;

            impl Watcher for Program {
                $($gone_served)*
                fn seen(&self, entry: &Entry) -> Entry {
                    to_entry(Full { name: entry.name.clone(), ..Full::preset($revision) })
                }
            }

            impl Watched for Program {
                fn list(&self, entries: Sender<Entry>) {
                    entries.send(&to_entry(Full::new("plain"))).unwrap();
                    entries.send(&to_entry(Full::preset($revision))).unwrap();
                }
                fn fill(&self, entries: Receiver<Entry>) -> u32 {
                    entries.map(Result::unwrap).count() as u32
                }
                fn show(&self, what: &str, $watcher: WatcherClient) -> String {
                    let entry = match what {
                        "gone" => return $call_gone,
                        "preset" => to_entry(Full::preset($revision)),
                        _ => to_entry(Full::new(what)),
                    };
                    let seen = told($watcher.seen(&entry).map(from_entry));
                    assert_eq!(told($watcher.begin().seen(&entry).wait().map(from_entry)), seen);
                    seen
                }
            }

            impl Watching for WatchedClient {
                fn list(&self) -> Vec<Full> {
                    let (call, entries) = WatchedClient::list(self);
                    let all = entries.map(|entry| from_entry(entry.unwrap())).collect();
                    call.wait().unwrap();
                    all
                }
                fn fill(&self, sent: &[Full]) -> (u32, Vec<Option<u32>>) {
                    let (call, entries) = WatchedClient::fill(self);
                    let lacking = sent.iter().map(|full| match entries.send(&to_entry(full.clone())) {
                        Ok(()) => None,
                        Err(PipeError::Encode(EncodeError::Inexpressible { since, .. })) => Some(since),
                        Err(why) => panic!("{why}"),
                    });
                    let lacking = lacking.collect();
                    entries.finish();
                    (call.wait().unwrap(), lacking)
                }
                fn show(&self, what: &str) -> String {
                    WatchedClient::show(self, what).unwrap()
                }
            }

            fn serve(uri: &str) -> RunningServer {
                let server = Server::new().export(WatchedServer::new(Program)).listen_there(uri).unwrap();
                server.start().unwrap()
            }

            fn bind(uri: &str, options: BindOptions) -> Box<dyn Watching> {
                let options = options.callback(WatcherServer::new(Program));
                Box::new(WatchedClient::bind_with(uri, &options).unwrap())
            }

            pub(crate) const VERSION: Version = Version { revision: $revision, serve, bind };
        }
    };
    ($module:ident $types:ident $revision:literal) => {
        watched! {
            $module $types $revision [revision = $revision,]
            { #[since(1)] fn gone(&self, name: &str) -> usize; }
            { fn gone(&self, name: &str) -> usize { name.len() } }
            |watcher| (told(watcher.gone("name")))
        }
    };
}

watched! { w0 v0 0 [] {} {} |watcher| ("it knows no such procedure".into()) }
watched! { w1 v1 1 }
watched! { w2 v2 2 }
watched! { w3 v3 3 }
