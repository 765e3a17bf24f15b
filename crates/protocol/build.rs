//! Compiles the .proto files with protox, so that no system protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/millrace.proto");
    let descriptors = protox::compile(["proto/millrace.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".millrace.v1.Frame.batch")
        .compile_fds(descriptors)?;
    Ok(())
}
