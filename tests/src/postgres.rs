//! A Postgres of the test's own that it can stop and start again.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::process::{is_root, open_to_all};

/// A cluster in a directory, reached through a Unix socket beside it.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    cluster: PathBuf,
    sockets: PathBuf,
    /// User and group when we are root, as whom Postgres refuses to run.
    account: Option<(u32, u32)>,
}

impl Postgres {
    /// Makes a cluster below `root` and starts it.
    pub fn start(root: &Path) -> Result<Self> {
        let home = root.join("pg");
        let postgres = Postgres {
            binaries: binaries()?,
            cluster: home.join("cluster"),
            sockets: home.clone(),
            account: if is_root() { Some(account()?) } else { None },
        };
        fs::create_dir_all(&home)?;
        if let Some((user, group)) = postgres.account {
            chown(&home, Some(user), Some(group))?;
            open_to_all(root)?;
        }
        postgres.run(
            "initdb",
            &[
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "--username=millrace",
            ],
        )?;
        postgres.launch()?;
        Ok(postgres)
    }

    /// Starts the server and waits until it answers.
    pub fn launch(&self) -> Result<()> {
        let options = format!(
            "-c listen_addresses= -c fsync=off -k {}",
            self.sockets.display()
        );
        let log = self.sockets.join("log").display().to_string();
        self.run("pg_ctl", &["start", "-w", "-s", "-l", &log, "-o", &options])
    }

    /// Ends the server as if the machine had lost power.
    pub fn crash(&self) -> Result<()> {
        self.run("pg_ctl", &["stop", "-m", "immediate", "-s"])
    }

    pub fn url(&self) -> String {
        format!(
            "postgres:///postgres?host={}&user=millrace",
            self.sockets.display()
        )
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.binaries.join(program));
        command
            .arg("-D")
            .arg(&self.cluster)
            .args(arguments)
            .current_dir("/");
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        // The server inherits what it is given: files, so that nobody waits for a pipe of its.
        let output_file = tempfile::NamedTempFile::new()?;
        command
            .stdout(output_file.reopen()?)
            .stderr(output_file.reopen()?);
        let status = command
            .status()
            .with_context(|| format!("cannot run {program}"))?;
        if !status.success() {
            bail!(
                "{program} failed: {}",
                fs::read_to_string(output_file.path())?
            );
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may be stopped already.
        let _ = self.crash();
    }
}

/// Where the newest server binaries are.
fn binaries() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("MILLRACE_POSTGRES_BIN") {
        return Ok(directory.into());
    }
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
    {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(version) = version {
            found.push((version, entry.path().join("bin")));
        }
    }
    found.sort();
    if let Some((_, directory)) = found.pop() {
        return Ok(directory);
    }
    let output = Command::new("pg_config").arg("--bindir").output();
    let output = output.context("no Postgres server binaries: set MILLRACE_POSTGRES_BIN")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// User and group of `postgres`.
fn account() -> Result<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd")?;
    let line = passwd
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .context("root runs the tests and there is no user postgres")?;
    let fields: Vec<&str> = line.split(':').collect();
    Ok((fields[2].parse()?, fields[3].parse()?))
}
