//! Compiles the interface by protox, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tonic_prost_build::compile_fds(protox::compile(["../grpc/test.proto"], ["../grpc"])?)?;
    Ok(())
}
