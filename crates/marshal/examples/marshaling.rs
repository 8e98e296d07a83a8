//! How many instructions arguments add to `null()`, both sides together: run under callgrind by
//! `crates/marshal/count-instructions`.

#[path = "../../macros/tests/mock/mod.rs"]
mod mock;

use std::hint::black_box;

use stoop_macros::interface;

#[interface(crate = crate::mock)]
trait Test {
    fn null(&self);
    fn int1(&self, a: i32);
    fn int2(&self, a: i32, b: i32);
    fn int4(&self, a: i32, b: i32, c: i32, d: i32);
    fn out4(&self, #[out] buf: &mut [u8; 4]);
    fn out400(&self, #[out] buf: &mut [u8; 400]);
    fn out1440(&self, #[out] buf: &mut [u8; 1440]);
    fn in4(&self, buf: &[u8; 4]);
    fn in400(&self, buf: &[u8; 400]);
    fn in1440(&self, buf: &[u8; 1440]);
    fn open_in(&self, buf: &[u8]);
    fn open_out(&self, #[out] buf: &mut [u8]);
    fn text(&self, text: Option<&str>);
    fn returned(&self) -> u64;
}

struct Server;

impl Test for Server {
    fn null(&self) {}
    fn int1(&self, a: i32) {
        black_box(a);
    }
    fn int2(&self, a: i32, b: i32) {
        black_box((a, b));
    }
    fn int4(&self, a: i32, b: i32, c: i32, d: i32) {
        black_box((a, b, c, d));
    }
    fn out4(&self, buf: &mut [u8; 4]) {
        black_box(buf);
    }
    fn out400(&self, buf: &mut [u8; 400]) {
        black_box(buf);
    }
    fn out1440(&self, buf: &mut [u8; 1440]) {
        black_box(buf);
    }
    fn in4(&self, buf: &[u8; 4]) {
        black_box(buf);
    }
    fn in400(&self, buf: &[u8; 400]) {
        black_box(buf);
    }
    fn in1440(&self, buf: &[u8; 1440]) {
        black_box(buf);
    }
    fn open_in(&self, buf: &[u8]) {
        black_box(buf);
    }
    fn open_out(&self, buf: &mut [u8]) {
        black_box(buf);
    }
    fn text(&self, text: Option<&str>) {
        black_box(text);
    }
    fn returned(&self) -> u64 {
        black_box(1)
    }
}

/// The function that callgrind counts, with everything it calls.
#[inline(never)]
fn measured(call: impl FnOnce() -> Result<(), mock::CallError>) {
    call().expect("the mock server answers");
}

/// Called after each procedure, with its name: callgrind writes down what it has counted.
#[inline(never)]
fn counted(name: &str) {
    black_box(name);
}

fn main() {
    let client =
        TestClient::bind_with("", &mock::to(TestServer::new(Server))).expect("the mock server is there");
    let text = "x".repeat(128);
    let (mut buf, mut buf_400, mut buf_4) = ([0; 1440], [0; 400], [0; 4]);
    for name in std::env::args().skip(1) {
        for _ in 0..100 {
            let client = black_box(&client);
            match name.as_str() {
                "int1" => measured(|| client.int1(1)),
                "int2" => measured(|| client.int2(1, 2)),
                "int4" => measured(|| client.int4(1, 2, 3, 4)),
                "out4" => measured(|| client.out4(&mut buf_4)),
                "out400" => measured(|| client.out400(&mut buf_400)),
                "out1440" => measured(|| client.out1440(&mut buf)),
                "in4" => measured(|| client.in4(&buf_4)),
                "in400" => measured(|| client.in400(&buf_400)),
                "in1440" => measured(|| client.in1440(&buf)),
                "open_in400" => measured(|| client.open_in(&buf[..400])),
                "open_out400" => measured(|| client.open_out(&mut buf[..400])),
                "text128" => measured(|| client.text(Some(&text))),
                "text1" => measured(|| client.text(Some("x"))),
                "text_nil" => measured(|| client.text(None)),
                "returned" => measured(|| client.returned().map(|_| ())),
                "null" => measured(|| client.null()),
                _ => panic!("there is no {name}"),
            }
        }
        counted(&name);
    }
}
