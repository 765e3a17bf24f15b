//! An S3-compatible server of the test's own that it can kill and start again.

use std::{fs, io::Write, path::Path, process::Stdio};

use anyhow::{Context, Result, bail};

use crate::server::Server;

/// Those of `scripts/servers/s3/identities.json`; every other pair is refused.
pub const ACCESS_KEY: &str = "millrace-tests";
pub const SECRET_KEY: &str = "millrace-tests-secret";
pub const REGION: &str = "us-east-1";

const PORTS: u16 = 10;
/// Holds the object that shows that the server can write.
const PROBE_BUCKET: &str = "readiness";

/// A real server that checks signatures, below a directory.
///
/// Needs `scripts/s3.sh install`. Dropping it kills it.
#[derive(Debug)]
pub struct S3(Server);

impl S3 {
    /// A server with its data below `root`, ready for clients.
    pub fn start(root: &Path) -> Result<Self> {
        let mut s3 = S3(Server::new("s3", root, PORTS)?);
        s3.launch()?;
        Ok(s3)
    }

    /// The address, with buckets in the path; stays the same over restarts.
    pub fn endpoint(&self) -> String {
        endpoint(self.0.port())
    }

    /// Makes a bucket; it may be there already.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        create_bucket(&self.endpoint(), name)
    }

    /// SIGKILL. What was acknowledged stays on disk.
    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()
    }

    /// An orderly end.
    pub fn stop(&mut self) -> Result<()> {
        self.0.stop()
    }

    /// The same server again, on the same port; killed before if it runs.
    pub fn restart(&mut self) -> Result<()> {
        self.0.kill()?;
        self.launch()
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        self.0.log()
    }

    fn launch(&mut self) -> Result<()> {
        let endpoint = endpoint(self.0.port());
        self.0.launch(|| {
            create_bucket(&endpoint, PROBE_BUCKET)?;
            let url = format!("{endpoint}/{PROBE_BUCKET}/probe");
            match put(&url, b"probe", &[])? {
                200 => Ok(()),
                status => bail!("PUT {url}: {status}"),
            }
        })
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // Sockets that the server makes there whatever its options are.
        for part in ["s3", "master", "volume", "filer", "admin"] {
            for port in self.0.port()..self.0.port() + PORTS {
                // Most of these names were never there.
                let _ = fs::remove_file(format!("/tmp/seaweedfs-{part}-grpc-{port}.sock"));
            }
        }
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn create_bucket(endpoint: &str, name: &str) -> Result<()> {
    let url = format!("{endpoint}/{name}");
    match put(&url, b"", &[])? {
        200 | 409 => Ok(()),
        status => bail!("PUT {url}: {status}"),
    }
}

/// A signed PUT with further headers, answered by a status. By curl, which can sign: with the
/// client under test, a fault of its could hide itself.
pub fn put(url: &str, body: &[u8], headers: &[&str]) -> Result<u16> {
    let mut command = std::process::Command::new("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(["--aws-sigv4", &format!("aws:amz:{REGION}:s3")])
        .args(["--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")])
        // Some versions of curl sign a body as if it were empty.
        .args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
        .args(["--request", "PUT", "--data-binary", "@-"])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"]);
    for header in headers {
        command.args(["--header", header]);
    }
    let mut child = command
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run curl")?;
    // Closed at the end of the statement, which ends curl's input.
    child
        .stdin
        .take()
        .context("curl has no input")?
        .write_all(body)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("PUT {url}: {}", reason.trim());
    }
    let status = String::from_utf8(output.stdout)?;
    status
        .trim()
        .parse()
        .with_context(|| format!("curl printed {status:?}"))
}
