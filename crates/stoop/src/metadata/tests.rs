use crate::metadata::served::{CallMetadata, serving, serving_nested};
use crate::metadata::*;

fn refused(metadata: &Metadata) -> MetadataError {
    metadata.to_send().unwrap_err()
}

#[test]
fn the_last_value_of_a_name_counts() {
    let metadata = Metadata::new().set("a", b"1").set("b", b"2").set("a", b"3");
    assert_eq!(metadata.iter().collect::<Vec<_>>(), [("b", &b"2"[..]), ("a", &b"3"[..])]);
    assert_eq!((metadata.get("a"), metadata.get("c")), (Some(&b"3"[..]), None));
}

#[test]
fn only_the_pair_that_was_set_last_is_propagated() {
    let metadata = Metadata::new().set("a", b"1").set("b", b"2").propagate().set("c", b"3");
    let goes_on: Vec<_> = metadata.pairs().map(|pair| pair.goes_on).collect();
    assert_eq!(goes_on, [false, true, false]);
    assert!(Metadata::new().propagate().is_empty());
}

#[test]
fn a_pair_that_cannot_travel_says_why_and_leaves_the_others() {
    let metadata = Metadata::new().set("a", b"1");
    assert_eq!(refused(&metadata.clone().set("Name", b"")), MetadataError::Name);
    assert_eq!(refused(&metadata.clone().set("traceparent", b"00-0")), MetadataError::TraceContext);
    assert_eq!(refused(&metadata.clone().set("tracestate", b"\0")), MetadataError::TraceContext);
    let long = metadata.clone().set("b", vec![0; 5000]);
    assert_eq!(refused(&long), MetadataError::TooLong { most: 4096 });
    assert_eq!(long.get("a"), Some(&b"1"[..]));
    assert!(refused(&long).to_string().contains("4096 bytes"));
    let many = (0..65).fold(Metadata::new(), |many, n| many.set(&format!("n{n}"), b""));
    assert_eq!(refused(&many), MetadataError::TooManyPairs);
}

#[test]
fn values_are_not_shown() {
    let shown = format!("{:?}", Metadata::new().set("token", b"secret"));
    assert!(shown.contains("token") && !shown.contains("secret"), "{shown}");
}

#[test]
fn a_trace_parent_is_read_as_w3c_writes_it() {
    let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let metadata = Metadata::new().set("traceparent", text);
    assert_eq!(metadata.traced().unwrap().to_string(), text);
    assert!(metadata.pairs().all(|pair| pair.goes_on));
    assert!(text.replace("00-4", "cc-4").parse::<TraceParent>().is_ok(), "a later version");
    for bad in [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\u{e9}",
    ] {
        assert!(bad.parse::<TraceParent>().is_err(), "{bad}");
    }
}

#[test]
fn metadata_is_that_of_the_innermost_call_and_comes_back_after_it() {
    let serve = |metadata: &Metadata, inner: &dyn Fn()| {
        serving(Some(CallMetadata::new(metadata.block())), inner);
    };
    let seen = || served::current().get("a").map(<[u8]>::to_vec);
    serve(&Metadata::new().set("a", b"outer").set("b", b"goes on").propagate(), &|| {
        serving(None, || {
            assert_eq!(seen(), None);
            serve(&Metadata::new().set("a", b"inner"), &|| assert_eq!(seen().unwrap(), b"inner"));
            assert_eq!(seen(), None);
        });
        serving_nested(|| {
            assert_eq!((seen(), served::current().get("b")), (None, Some(&b"goes on"[..])));
            assert!(served::goes_on());
        });
        assert_eq!(seen().unwrap(), b"outer");
    });
    assert_eq!((seen(), served::goes_on()), (None, false));
}
