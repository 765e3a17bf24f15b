//! A service of the test's own: `millrace up` in a fresh data directory.

use std::{
    fs::{self, File, OpenOptions},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    client::Client,
    process::{self, Signal},
};

/// The first start makes a Postgres cluster.
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(60);

/// A running service; dropping it ends its processes.
#[derive(Debug)]
pub struct Service {
    child: Child,
    command: Vec<String>,
    log: PathBuf,
    data_dir: PathBuf,
    client: Client,
}

/// The program under test: `MILLRACE_BIN`, else the one that was built beside this test.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("MILLRACE_BIN") {
        return Ok(path.into());
    }
    // target/debug/deps/golden-… → target/debug/millrace
    let own = std::env::current_exe().context("cannot find the test's own file")?;
    let path = own
        .ancestors()
        .nth(2)
        .context("the test is in no target directory")?
        .join("millrace");
    if !path.is_file() {
        bail!(
            "{} is not there: `cargo build -p millrace` first, or set MILLRACE_BIN",
            path.display()
        );
    }
    Ok(path)
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Service {
    /// `millrace up` with everything below `root`.
    pub async fn up(root: &Path) -> Result<Self> {
        let data_dir = root.join("data");
        let port = free_port()?;
        let arguments = [
            "up".to_owned(),
            "--data-dir".to_owned(),
            data_dir.display().to_string(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
        ];
        Self::start(root, &data_dir, port, arguments.to_vec()).await
    }

    /// `millrace control-plane` over a database of somebody else's.
    pub async fn control_plane(root: &Path, database_url: &str) -> Result<Self> {
        let data_dir = root.join("data");
        let port = free_port()?;
        let grpc = free_port()?;
        let arguments = [
            "control-plane".to_owned(),
            "--database-url".to_owned(),
            database_url.to_owned(),
            "--data-dir".to_owned(),
            data_dir.display().to_string(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--grpc-listen".to_owned(),
            format!("127.0.0.1:{grpc}"),
        ];
        Self::start(root, &data_dir, port, arguments.to_vec()).await
    }

    async fn start(
        root: &Path,
        data_dir: &Path,
        port: u16,
        arguments: Vec<String>,
    ) -> Result<Self> {
        process::open_to_all(root)?;
        let mut command = vec![binary()?.display().to_string()];
        command.extend(arguments);
        let log = root.join("service.log");
        let child = spawn(&command, &log)?;
        let mut service = Service {
            child,
            command,
            log,
            data_dir: data_dir.to_path_buf(),
            client: Client::new(&format!("http://127.0.0.1:{port}"))?,
        };
        service.wait_until_ready().await?;
        Ok(service)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// What the service has logged.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Logs of the service and of its workers: no thread of theirs may have panicked.
    pub fn panics(&self) -> Vec<String> {
        let mut files = vec![self.log.clone()];
        if let Ok(entries) = fs::read_dir(self.data_dir.join("logs")) {
            files.extend(entries.flatten().map(|entry| entry.path()));
        }
        let mut found = Vec::new();
        for file in files {
            let Ok(bytes) = fs::read(&file) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                if line.contains("panicked at") {
                    let message = lines.get(at + 1).copied().unwrap_or_default();
                    found.push(format!("{}: {line} {message}", file.display()));
                }
            }
        }
        found
    }

    /// Waits for `/readyz`.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the service ended at once ({status}):\n{}", self.log());
            }
            if self.client.is_ready().await {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the service is not ready after {START:?}:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The private Postgres of `millrace up`: its main process and that one's children.
    pub fn postgres_processes(&self) -> Result<Vec<u32>> {
        let file = self.data_dir.join("postgres").join("postmaster.pid");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let first = text.lines().next().unwrap_or_default();
        let postmaster = first
            .trim()
            .parse()
            .with_context(|| format!("no process id: {first}"))?;
        let mut all = vec![postmaster];
        all.extend(process::children(postmaster));
        Ok(all)
    }

    /// SIGKILL to the service's own process: no farewell to workers or Postgres.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill the service")?;
        self.child.wait()?;
        Ok(())
    }

    /// The same command again, after [`kill`](Self::kill).
    pub async fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.command, &self.log)?;
        self.wait_until_ready().await
    }

    /// Asks the service to end, as Ctrl-C does, and waits for it.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let mark = self.data_dir.display().to_string();
        process::signal(self.child.id(), &mark, Signal::Terminate)?;
        let deadline = Instant::now() + STOP;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("the service does not stop within {STOP:?}:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn spawn(command: &[String], log: &Path) -> Result<Child> {
    let file: File = OpenOptions::new().create(true).append(true).open(log)?;
    let (program, arguments) = command.split_first().context("no command")?;
    Command::new(program)
        .args(arguments)
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot run {program}"))
}

impl Drop for Service {
    fn drop(&mut self) {
        // A service that ends properly takes its workers and Postgres with it. One that does not
        // is killed; what it leaves behind is found by the data directory on the command line.
        let mark = self.data_dir.display().to_string();
        let deadline = Instant::now() + Duration::from_secs(30);
        if matches!(self.child.try_wait(), Ok(None)) {
            let asked = process::signal(self.child.id(), &mark, Signal::Terminate).is_ok();
            while asked && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
            }
            // Errors at this point change nothing.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        for pid in process::all() {
            if process::command_line(pid).is_some_and(|line| line.contains(&mark)) {
                let _ = process::signal(pid, &mark, Signal::Kill);
            }
        }
    }
}
