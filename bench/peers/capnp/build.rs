//! Compiles the interface; Debian's package capnproto has the compiler.

fn main() {
    capnpc::CompilerCommand::new().file("test.capnp").run().expect("capnp compiles the interface");
}
