//! The servers that tests of connectors and of remote checkpoints run against: they come back on
//! the same address with what they had, and end with the test.

#![allow(clippy::disallowed_methods)]

use std::net::TcpStream;

use anyhow::Result;
use millrace_tests::{kafka::Kafka, s3, s3::S3};
use tempfile::TempDir;

#[test]
#[ignore = "needs `scripts/kafka.sh install`"]
fn a_kafka_broker_comes_back_on_its_port_and_ends_with_its_owner() -> Result<()> {
    let root = TempDir::new()?;
    let mut kafka = Kafka::start(root.path())?;
    let address = kafka.bootstrap();
    assert!(TcpStream::connect(&address).is_ok());

    kafka.kill()?;
    assert!(TcpStream::connect(&address).is_err());
    kafka.restart()?;
    assert_eq!(kafka.bootstrap(), address);
    assert!(TcpStream::connect(&address).is_ok());

    kafka.stop()?;
    assert!(TcpStream::connect(&address).is_err());
    kafka.restart()?;
    assert!(TcpStream::connect(&address).is_ok());

    let panic = std::thread::spawn(move || {
        let _owned = kafka;
        panic!("as a test does whose assertion fails");
    })
    .join();
    assert!(panic.is_err());
    assert!(TcpStream::connect(&address).is_err());
    Ok(())
}

#[test]
#[ignore = "needs `scripts/s3.sh install`"]
fn an_s3_server_keeps_objects_and_ends_with_its_owner() -> Result<()> {
    let root = TempDir::new()?;
    let mut s3 = S3::start(root.path())?;
    let endpoint = s3.endpoint();
    s3.create_bucket("kept")?;
    let absent = ["If-None-Match: *"];
    let object = |name: &str| format!("{endpoint}/kept/{name}");
    assert_eq!(s3::put(&object("a"), b"1", &absent)?, 200);
    assert_eq!(s3::put(&object("a"), b"2", &absent)?, 412);
    assert_eq!(
        s3::put(&format!("{endpoint}/no-such-bucket/a"), b"1", &[])?,
        404
    );

    s3.kill()?;
    assert!(s3::put(&object("b"), b"1", &[]).is_err());
    s3.restart()?;
    assert_eq!(s3.endpoint(), endpoint);
    assert_eq!(s3::put(&object("a"), b"2", &absent)?, 412);
    assert_eq!(s3::put(&object("b"), b"1", &absent)?, 200);

    s3.stop()?;
    s3.restart()?;
    assert_eq!(s3::put(&object("b"), b"2", &absent)?, 412);

    drop(s3);
    assert!(s3::put(&object("b"), b"2", &[]).is_err());
    Ok(())
}

#[test]
#[ignore = "needs `scripts/s3.sh install`"]
fn servers_of_several_tests_do_not_meet() -> Result<()> {
    let root = TempDir::new()?;
    let other = TempDir::new()?;
    let first = S3::start(root.path())?;
    let second = S3::start(other.path())?;
    first.create_bucket("only-here")?;
    let url = |server: &S3| format!("{}/only-here/a", server.endpoint());
    assert_eq!(s3::put(&url(&first), b"1", &[])?, 200);
    assert_eq!(s3::put(&url(&second), b"1", &[])?, 404);
    Ok(())
}
