//! A server process of a test's own: started by one of `scripts/`, killed, started again.

use std::{
    fs::{self, OpenOptions},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// The ports that [`free_ports`] gives out end below those that Linux takes for outgoing
/// connections: else, while a server is down, a client that tries to reach it could be given the
/// server's own port.
const PORTS: std::ops::Range<u16> = 15_000..32_000;
const BLOCK: u16 = 16;

/// `scripts/NAME.sh run DIR PORT`, which becomes the server, in a process group of its own.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    port: u16,
    directory: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// A server that does not run yet. It uses `ports` ports, keeps its data and its log below
    /// `root`, and is started by the script of its name.
    pub(crate) fn new(name: &'static str, root: &Path, ports: u16) -> Result<Self> {
        let directory = root.join(name);
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Server {
            name,
            port: free_ports(ports)?,
            directory,
            child: None,
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts the process and waits until its port takes connections and `ready` agrees.
    pub(crate) fn launch(&mut self, ready: impl Fn() -> Result<()>) -> Result<()> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts");
        let script = scripts.join(format!("{}.sh", self.name));
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let child = Command::new(&script)
            .arg("run")
            .arg(self.directory.join("data"))
            .arg(self.port.to_string())
            // Held open by the child in `self`: it ends when this process dies, however it does.
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", script.display()))?;
        self.child = Some(child);
        self.wait_until_ready(ready)
    }

    fn wait_until_ready(&mut self, ready: impl Fn() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + START;
        let mut last = None;
        loop {
            if !self.is_running()? {
                bail!("{} ended at once:\n{}", self.name, self.log());
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                match ready() {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                }
            }
            if Instant::now() > deadline {
                bail!(
                    "{} is not ready after {START:?} ({}):\n{}",
                    self.name,
                    last.map_or("no connection".to_owned(), |error| format!("{error:#}")),
                    self.log()
                );
            }
            thread::sleep(POLL);
        }
    }

    /// SIGKILL to everything in the server's process group.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        // Nobody has waited for the child, so the id is still that of its group.
        let sent = send("KILL", &format!("-{}", child.id()));
        if sent.is_err() {
            child.kill()?;
        }
        child.wait()?;
        sent
    }

    /// Asks the server to end and waits for it.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(child) = &self.child else {
            return Ok(());
        };
        send("TERM", &child.id().to_string())?;
        let deadline = Instant::now() + STOP;
        while self.is_running()? {
            if Instant::now() > deadline {
                bail!(
                    "{} does not stop within {STOP:?}:\n{}",
                    self.name,
                    self.log()
                );
            }
            thread::sleep(POLL);
        }
        self.kill()
    }

    /// Whether the process runs, without reaping it: its id stays that of its group.
    fn is_running(&self) -> Result<bool> {
        let Some(child) = &self.child else {
            return Ok(false);
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        Ok(!state.starts_with('Z'))
    }

    /// What the server has logged, over all its starts.
    pub(crate) fn log(&self) -> String {
        match fs::read(self.log_file()) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("no log: {error}"),
        }
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors at this point change nothing.
        let _ = self.kill();
    }
}

fn send(signal: &str, target: &str) -> Result<()> {
    let output = Command::new("kill")
        .args(["-s", signal, "--", target])
        .output()
        .context("cannot run kill")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("cannot send {signal} to {target}: {}", reason.trim());
    }
    Ok(())
}

/// The first of `count` neighbouring ports that are free, and that no other test of this process
/// has been given. Processes start looking at different places.
fn free_ports(count: u16) -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let blocks = (PORTS.end - PORTS.start) / BLOCK;
    let own = u16::try_from(std::process::id() % u32::from(blocks))?;
    for _ in 0..blocks {
        let block = (u32::from(own) * 7 + u32::from(NEXT.fetch_add(1, Ordering::Relaxed)))
            % u32::from(blocks);
        let first = PORTS.start + u16::try_from(block)? * BLOCK;
        let mut ports = first..first + count;
        if ports.all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return Ok(first);
        }
    }
    bail!("no {count} neighbouring ports are free in {PORTS:?}");
}
