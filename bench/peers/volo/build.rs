//! Compiles the interface.

fn main() {
    volo_build::Builder::thrift()
        .add_service("test.thrift")
        .write()
        .expect("volo-build compiles the interface");
}
