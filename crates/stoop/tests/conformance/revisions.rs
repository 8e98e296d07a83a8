//! Callers and servers of four revisions of one interface, each with each.

mod buffers;
mod terms;
mod versions;
mod watched;

use self::versions::{Full, Kind, Mood, all};
use crate::*;
use stoop::error::EncodeError;

claims! { all and lossy: [
    each_revision_of_an_interface_serves_callers_of_each
    pipes_and_callbacks_join_each_revision_with_each
] }

fn each_revision_of_an_interface_serves_callers_of_each(transport: &str) {
    for server in all() {
        let uri = address(transport);
        let running = (server.serve)(&uri);
        for client in all() {
            let store = (client.bind)(&running.uris()[0], &patient(transport));
            let common = client.revision.min(server.revision);
            let case = format!("caller of revision {}, server of {}", client.revision, server.revision);
            let known = |full: Full| full.at_revision(common);

            // What all know, told in every way.
            let plain = Full::new("plain");
            assert_eq!(store.put(&plain, false).unwrap(), 5, "{case}");
            assert_eq!(store.get("plain").unwrap(), Some(plain.clone()), "{case}");
            assert_eq!(store.begun_get("plain").unwrap(), Some(plain.clone()), "{case}");
            assert_eq!(store.async_get("plain").unwrap(), Some(plain.clone()), "{case}");
            assert_eq!(store.get("absent").unwrap(), None, "{case}");
            let noted = format!("noted by {}", client.revision);
            store.note(&Full::new(&noted)).unwrap();
            eventually(|| store.get(&noted).unwrap().is_some());

            // What the caller knows beyond that is told to servers that know it, and is an error for others.
            for (full, since) in [
                (Full { mode: 7, ..Full::new("mode") }, 1),
                (Full { kind: Kind::Link { to: "x".into() }, ..Full::new("link") }, 2),
                (Full { owner: Some("me".into()), ..Full::new("owner") }, 3),
            ] {
                if client.revision < since {
                    continue;
                }
                for told in [store.put(&full, false), store.begun_put(&full), store.note(&full).map(|()| 0)] {
                    match told {
                        Ok(_) => assert!(server.revision >= since, "{case}: {full:?}"),
                        Err(error) => {
                            assert!(server.revision < since, "{case}: {error}");
                            let CallError::NotSent(
                                SendError::Arguments(EncodeError::Inexpressible { since: named, .. }),
                                ..,
                            ) = &error
                            else {
                                panic!("{case}: {error}");
                            };
                            assert_eq!((*named, error.ran()), (since, Ran::No));
                        }
                    }
                }
                if server.revision >= since {
                    assert_eq!(store.get(&full.name).unwrap(), Some(full), "{case}");
                }
            }
            // A parameter that came with revision 2.
            if client.revision >= 2 {
                let put = store.put(&Full::new("over"), true);
                match server.revision >= 2 {
                    true => assert_eq!(put.unwrap(), 4 + 100, "{case}"),
                    false => assert_eq!(put.unwrap_err().ran(), Ran::No, "{case}"),
                }
            }

            // What the server knows beyond that is left out, or told otherwise.
            let preset = Full::preset(server.revision);
            assert_eq!(store.get("preset").unwrap(), Some(known(preset.clone())), "{case}");
            assert_eq!(store.begun_get("preset").unwrap(), Some(known(preset.clone())), "{case}");
            assert!(store.all().unwrap().contains(&known(preset)), "{case}");
            for mood in [store.mood(false), store.begun_mood(false), store.later_mood(false)] {
                assert_eq!(mood.unwrap(), Mood::Calm, "{case}");
            }
            for mood in [store.mood(true), store.begun_mood(true), store.later_mood(true)] {
                match mood {
                    Ok(mood) => {
                        let wild = if server.revision >= 3 { Mood::Wild } else { Mood::Calm };
                        assert_eq!(mood, wild, "{case}");
                    }
                    Err(error) => {
                        assert!(server.revision >= 3 && client.revision < 3, "{case}: {error}");
                        let CallError::Failed(failure, ..) = &error else { panic!("{case}: {error}") };
                        assert_eq!((failure.code, error.ran()), (FailureCode::Inexpressible, Ran::Yes));
                    }
                }
            }

            // A procedure that came with revision 1.
            if client.revision >= 1 {
                match store.remove("nothing") {
                    Ok(removed) => assert!(server.revision >= 1 && !removed, "{case}"),
                    Err(error) => {
                        let CallError::Refused(refusal, ..) = &error else { panic!("{case}: {error}") };
                        assert_eq!(refusal.code, RefusalCode::UnknownProcedure, "{case}");
                        assert!(server.revision < 1, "{case}");
                        assert!(error.to_string().contains("a later revision than the other end"), "{error}");
                    }
                }
            }
        }
        running.shut_down();
    }
}

fn pipes_and_callbacks_join_each_revision_with_each(transport: &str) {
    for server in watched::all() {
        let running = (server.serve)(&address(transport));
        for client in watched::all() {
            let watching = (client.bind)(&running.uris()[0], patient(transport));
            let common = client.revision.min(server.revision);
            let case = format!("client of revision {}, server of {}", client.revision, server.revision);

            // What the server sends beyond what the client knows is left out.
            let preset = |revision| Full::preset(revision).at_revision(common);
            assert_eq!(watching.list(), [Full::new("plain"), preset(server.revision)], "{case}");

            // What the client sends beyond what the server knows is an error of that item.
            let sent = [
                Full::new("plain"),
                Full { mode: 7, ..Full::new("mode") },
                Full { kind: Kind::Link { to: "x".into() }, ..Full::new("link") },
                Full { owner: Some("me".into()), ..Full::new("owner") },
            ];
            let known = sent.len().min(client.revision as usize + 1);
            let lacking: Vec<_> =
                (0..known as u32).map(|since| (since > server.revision).then_some(since)).collect();
            let taken = lacking.iter().filter(|lacking| lacking.is_none()).count() as u32;
            assert_eq!(watching.fill(&sent[..known]), (taken, lacking), "{case}");

            // A callback is a call the other way.
            let seen = Full { name: "plain".into(), ..preset(client.revision) };
            assert_eq!(watching.show("plain"), format!("{seen:?}"), "{case}");
            let shown = watching.show("preset");
            match client.revision < server.revision {
                true => assert!(shown.starts_with("came with "), "{case}: {shown}"),
                false => assert_eq!(shown, format!("{:?}", preset(client.revision)), "{case}"),
            }
            if server.revision >= 1 {
                let gone = if client.revision >= 1 { "4" } else { "unknown" };
                assert_eq!(watching.show("gone"), gone, "{case}");
            }
        }
        running.shut_down();
    }
}
