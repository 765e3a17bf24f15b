//! Workers as child processes on the control plane's own machine.
//!
//! Each worker is the leader of a process group of its own, so that neither Ctrl-C at the
//! terminal nor the end of the control plane ends it; its output goes to a file. After a restart
//! of the control plane workers are no longer children: they are found by their process id, and
//! known to be the same process by their id on its command line.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use millrace_types::{JobId, WorkerId};
use parking_lot::Mutex;
use tokio::{
    process::{Child, Command},
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

use super::{ExitSender, ProvisionError, Provisioner, StartWorker, WorkerExit, WorkerHandle};
use crate::config::ControlPlaneConfig;

/// How often to look for a process that is not a child.
const LOOK: Duration = Duration::from_millis(250);
/// What is read of a log to tell why a worker ended.
const LOG_TAIL: u64 = 8 << 10;
/// Logs kept per job.
const KEPT_LOGS: usize = 20;
/// Longest reason told.
const MAX_REASON: usize = 600;

/// See the module.
#[derive(Clone)]
pub(crate) struct ProcessProvisioner {
    shared: Arc<Shared>,
}

struct Shared {
    command: Vec<String>,
    data_dir: PathBuf,
    log_dir: PathBuf,
    control_plane: String,
    /// Children of this process, by which they are asked to end.
    children: Mutex<HashMap<WorkerId, mpsc::UnboundedSender<Stop>>>,
}

/// A request to end a child.
struct Stop {
    grace: Duration,
    done: oneshot::Sender<()>,
}

impl ProcessProvisioner {
    /// `grpc_address` is where workers register.
    pub(crate) fn new(config: &ControlPlaneConfig, grpc_address: SocketAddr) -> Self {
        ProcessProvisioner {
            shared: Arc::new(Shared {
                command: config.worker_command.clone(),
                data_dir: config.worker_data_dir.clone(),
                log_dir: config
                    .log_dir
                    .clone()
                    .unwrap_or_else(|| config.worker_data_dir.join("logs")),
                control_plane: reachable(grpc_address).to_string(),
                children: Mutex::default(),
            }),
        }
    }
}

/// An address that listens on every interface is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    match address {
        SocketAddr::V4(_) => ([127, 0, 0, 1], address.port()).into(),
        SocketAddr::V6(_) => ([0, 0, 0, 0, 0, 0, 0, 1], address.port()).into(),
    }
}

impl Shared {
    fn data_dir(&self, worker: WorkerHandle) -> PathBuf {
        self.data_dir
            .join(worker.job.to_string())
            .join(worker.worker.to_string())
    }

    fn log_file(&self, worker: WorkerHandle) -> PathBuf {
        self.log_dir
            .join(format!("worker-{}-{}.log", worker.job, worker.worker))
    }

    /// Logs of a job's workers, oldest first: worker ids are made in order of time.
    fn logs_of(&self, job: JobId) -> Vec<PathBuf> {
        let prefix = format!("worker-{job}-");
        let entries = fs::read_dir(&self.log_dir).into_iter().flatten().flatten();
        let mut logs: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .map(|entry| entry.path())
            .collect();
        logs.sort();
        logs
    }

    fn spawn(&self, worker: &StartWorker) -> Result<Child, ProvisionError> {
        let handle = WorkerHandle {
            job: worker.job,
            worker: worker.worker,
            pid: None,
        };
        let data_dir = self.data_dir(handle);
        let failed = |action: String| move |source| ProvisionError { action, source };
        for dir in [&data_dir, &self.log_dir] {
            fs::create_dir_all(dir).map_err(failed(format!("create {}", dir.display())))?;
        }
        let log_file = self.log_file(handle);
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let log = open(&log_file).map_err(failed(format!("open {}", log_file.display())))?;
        let log_too = log
            .try_clone()
            .map_err(failed(format!("open {}", log_file.display())))?;
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(failed("run the worker command, which is empty".into())(
                io::Error::from(io::ErrorKind::InvalidInput),
            ));
        };
        Command::new(program)
            .args(arguments)
            .args(["--control-plane", &self.control_plane])
            .args(["--job", &worker.job.to_string()])
            .args(["--worker-id", &worker.worker.to_string()])
            .args(["--slots", &worker.slots.to_string()])
            .args(["--memory-mib", &worker.memory_mib.to_string()])
            .arg("--data-dir")
            .arg(&data_dir)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
            .map_err(failed(format!("run {program}")))
    }
}

#[async_trait]
impl Provisioner for ProcessProvisioner {
    async fn start(
        &self,
        worker: StartWorker,
        exits: ExitSender,
    ) -> Result<WorkerHandle, ProvisionError> {
        let child = self.shared.spawn(&worker)?;
        let handle = WorkerHandle {
            job: worker.job,
            worker: worker.worker,
            pid: child.id(),
        };
        let (stop, stops) = mpsc::unbounded_channel();
        self.shared.children.lock().insert(worker.worker, stop);
        tokio::spawn(attend(self.shared.clone(), handle, child, stops, exits));
        Ok(handle)
    }

    fn watch(&self, worker: WorkerHandle, exits: ExitSender) {
        if self.shared.children.lock().contains_key(&worker.worker) {
            return;
        }
        let shared = self.shared.clone();
        tokio::spawn(async move {
            while is_alive(worker) {
                if exits.is_closed() {
                    return;
                }
                sleep(LOOK).await;
            }
            let reason = describe("has ended", &shared.log_file(worker));
            let _ = exits.send(WorkerExit {
                worker: worker.worker,
                reason,
            });
        });
    }

    async fn stop(&self, worker: WorkerHandle, grace: Duration) {
        let child = self.shared.children.lock().get(&worker.worker).cloned();
        if let Some(child) = child {
            let (done, ended) = oneshot::channel();
            if child.send(Stop { grace, done }).is_ok() {
                // An error means that it has ended already.
                let _ = ended.await;
            }
            return;
        }
        let deadline = Instant::now() + grace;
        if is_alive(worker) && !grace.is_zero() {
            signal(worker, "TERM").await;
        }
        while is_alive(worker) {
            if Instant::now() >= deadline {
                signal(worker, "KILL").await;
            }
            sleep(LOOK / 5).await;
        }
    }

    async fn clean(&self, worker: WorkerHandle) {
        let shared = self.shared.clone();
        off_thread(move || {
            let dir = shared.data_dir(worker);
            remove(&dir);
            // The job's directory goes with its last worker's; otherwise it is not empty.
            if let Some(parent) = dir.parent() {
                let _ = fs::remove_dir(parent);
            }
            let logs = shared.logs_of(worker.job);
            let surplus = logs.len().saturating_sub(KEPT_LOGS);
            for log in &logs[..surplus] {
                let _ = fs::remove_file(log);
            }
        })
        .await;
    }

    async fn forget(&self, job: JobId) {
        let shared = self.shared.clone();
        off_thread(move || {
            remove(&shared.data_dir.join(job.to_string()));
            for log in shared.logs_of(job) {
                let _ = fs::remove_file(log);
            }
        })
        .await;
    }
}

async fn off_thread(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        tracing::warn!(%error, "a clean-up task broke");
    }
}

fn remove(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), %error, "local state of a worker could not be removed");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Waits for a child's end, and ends it on request.
async fn attend(
    shared: Arc<Shared>,
    worker: WorkerHandle,
    mut child: Child,
    mut stops: mpsc::UnboundedReceiver<Stop>,
    exits: ExitSender,
) {
    let mut waiting = Vec::new();
    let mut kill_at: Option<Instant> = None;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            Some(Stop { grace, done }) = stops.recv() => {
                waiting.push(done);
                let at = Instant::now() + grace;
                if kill_at.is_none() && !grace.is_zero() {
                    signal(worker, "TERM").await;
                }
                kill_at = Some(kill_at.map_or(at, |former| former.min(at)));
            }
            () = async {
                match kill_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            } => {
                if let Err(error) = child.start_kill() {
                    tracing::warn!(worker = %worker.worker, %error, "a worker could not be killed");
                }
                kill_at = Some(Instant::now() + Duration::from_secs(1));
            }
        }
    };
    shared.children.lock().remove(&worker.worker);
    let end = match status {
        Ok(status) => end_of(status),
        Err(error) => format!("has ended, how is not known ({error})"),
    };
    let reason = describe(&end, &shared.log_file(worker));
    drop(waiting);
    // The driver may be gone.
    let _ = exits.send(WorkerExit {
        worker: worker.worker,
        reason,
    });
}

fn end_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(9)) => {
            "was killed by signal 9 (by hand, or by the system for want of memory)".to_owned()
        }
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "has ended".to_owned(),
    }
}

/// The reason of an end: what is known, and the last words of the log.
fn describe(end: &str, log_file: &Path) -> String {
    let words = match last_words(log_file) {
        Ok(Some(words)) => format!("; its last words: {words}"),
        Ok(None) | Err(_) => String::new(),
    };
    let reason = format!("a worker {end}{words}");
    reason.chars().take(MAX_REASON).collect()
}

/// The last line of the log that tells of a panic or was logged as an error.
fn last_words(log_file: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(log_file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let telling = |line: &&str| {
        line.contains("panicked at")
            || line.contains(" ERROR ")
            || line.to_ascii_lowercase().starts_with("error")
    };
    Ok(text
        .lines()
        .rev()
        .find(telling)
        .map(|line| line.trim().to_owned()))
}

/// Whether the process is there, is the worker's and is no zombie.
fn is_alive(worker: WorkerHandle) -> bool {
    let Some(pid) = worker.pid else {
        return false;
    };
    let Ok(command_line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    // A zombie's command line is empty.
    let id = worker.worker.to_string();
    command_line
        .split(|byte| *byte == 0)
        .any(|argument| argument == id.as_bytes())
}

/// Sends a signal by the system's own command: calling the kernel directly would take unsafe
/// code for a rare case.
async fn signal(worker: WorkerHandle, name: &str) {
    let Some(pid) = worker.pid.filter(|_| is_alive(worker)) else {
        return;
    };
    let sent = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    if let Err(error) = sent {
        tracing::warn!(worker = %worker.worker, pid, %error, "the `kill` command cannot be run");
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A provisioner whose workers are a shell script, given their options as `$@`.
    fn provisioner(dir: &Path, script: &str) -> ProcessProvisioner {
        let mut config = ControlPlaneConfig::new("postgres://x");
        config.worker_command = ["sh", "-c", script, "worker"].map(str::to_owned).to_vec();
        config.worker_data_dir = dir.join("workers");
        config.log_dir = Some(dir.join("logs"));
        ProcessProvisioner::new(&config, ([127, 0, 0, 1], 4711).into())
    }

    /// Kills a worker at the end of its test, however that ends.
    struct Reaped(WorkerHandle);

    impl Drop for Reaped {
        fn drop(&mut self) {
            if let Some(pid) = self.0.pid.filter(|_| is_alive(self.0)) {
                let _ = std::process::Command::new("kill")
                    .args(["-KILL", &pid.to_string()])
                    .status();
            }
        }
    }

    /// Before that it may not yet be the program it is to become.
    async fn until_alive(worker: WorkerHandle) {
        for _ in 0..200 {
            if is_alive(worker) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the worker's process does not appear");
    }

    fn worker() -> StartWorker {
        StartWorker {
            job: JobId(Uuid::from_u128(1)),
            worker: WorkerId(Uuid::now_v7()),
            slots: 2,
            memory_mib: 256,
        }
    }

    async fn exit(exits: &mut mpsc::UnboundedReceiver<WorkerExit>) -> WorkerExit {
        tokio::time::timeout(Duration::from_secs(10), exits.recv())
            .await
            .expect("an exit in time")
            .expect("an exit")
    }

    #[tokio::test]
    async fn a_worker_gets_its_options_and_its_end_is_told_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let script = r#"echo "$@"; echo "Error: no space"; echo "WARN an error"; exit 3"#;
        let provisioner = provisioner(dir.path(), script);
        let (sender, mut exits) = mpsc::unbounded_channel();
        let start = worker();
        let handle = provisioner.start(start, sender).await.unwrap();
        let _reaped = Reaped(handle);
        let exit = exit(&mut exits).await;
        assert_eq!(exit.worker, start.worker);
        assert_eq!(
            exit.reason,
            "a worker ended with exit code 3; its last words: Error: no space"
        );
        let log = fs::read_to_string(provisioner.shared.log_file(handle)).unwrap();
        let first = log.lines().next().unwrap();
        let data_dir = provisioner.shared.data_dir(handle);
        assert_eq!(
            first,
            format!(
                "--control-plane 127.0.0.1:4711 --job {} --worker-id {} --slots 2 --memory-mib 256 --data-dir {}",
                start.job,
                start.worker,
                data_dir.display()
            )
        );
        assert!(data_dir.is_dir());
        provisioner.clean(handle).await;
        assert!(!data_dir.exists());
        assert_eq!(provisioner.shared.logs_of(start.job).len(), 1);
        provisioner.forget(start.job).await;
        assert!(provisioner.shared.logs_of(start.job).is_empty());
    }

    #[tokio::test]
    async fn a_worker_that_does_not_listen_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let script = format!(
            "trap '' TERM; : > '{}'; while :; do sleep 0.1; done",
            ready.display()
        );
        let provisioner = provisioner(dir.path(), &script);
        let (sender, mut exits) = mpsc::unbounded_channel();
        let handle = provisioner.start(worker(), sender).await.unwrap();
        let _reaped = Reaped(handle);
        // Before that it is not deaf yet, or not even the program it is to become.
        for _ in 0..100 {
            if ready.exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(is_alive(handle));
        provisioner.stop(handle, Duration::from_millis(200)).await;
        assert!(!is_alive(handle));
        assert!(exit(&mut exits).await.reason.contains("signal 9"));
        // Once more is fine.
        provisioner.stop(handle, Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_worker_of_an_earlier_control_plane_is_watched_and_ended_by_its_process_id() {
        let dir = tempfile::tempdir().unwrap();
        let script = "while :; do sleep 0.1; done";
        let first = provisioner(dir.path(), script);
        let handle = first
            .start(worker(), mpsc::unbounded_channel().0)
            .await
            .unwrap();
        let _reaped = Reaped(handle);
        until_alive(handle).await;
        let second = provisioner(dir.path(), script);
        let (sender, mut exits) = mpsc::unbounded_channel();
        second.watch(handle, sender);
        assert!(exits.try_recv().is_err());
        second.stop(handle, Duration::from_secs(5)).await;
        assert_eq!(exit(&mut exits).await.worker, handle.worker);
        // A stranger who got the same process id is left alone.
        let stranger = WorkerHandle {
            worker: WorkerId(Uuid::from_u128(9)),
            pid: Some(std::process::id()),
            ..handle
        };
        assert!(!is_alive(stranger));
        second.stop(stranger, Duration::ZERO).await;
    }

    #[tokio::test]
    async fn a_worker_command_that_does_not_exist_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = ControlPlaneConfig::new("postgres://x");
        config.worker_command = vec!["/no/such/program".into()];
        config.worker_data_dir = dir.path().to_path_buf();
        let provisioner = ProcessProvisioner::new(&config, ([0, 0, 0, 0], 1).into());
        let error = provisioner
            .start(worker(), mpsc::unbounded_channel().0)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("run /no/such/program"),
            "{error}"
        );
        assert_eq!(provisioner.shared.control_plane, "127.0.0.1:1");
    }
}
