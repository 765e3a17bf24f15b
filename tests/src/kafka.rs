//! A Kafka broker of the test's own that it can kill and start again.

use std::path::Path;

use anyhow::Result;

use crate::server::Server;

/// A real broker, single and without replicas, below a directory. Topics must be created.
///
/// Needs `scripts/kafka.sh install`. Dropping it kills it.
#[derive(Debug)]
pub struct Kafka(Server);

impl Kafka {
    /// An empty broker with its data below `root`, ready for clients.
    pub fn start(root: &Path) -> Result<Self> {
        // The second port is the controller's.
        let mut kafka = Kafka(Server::new("kafka", root, 2)?);
        kafka.launch()?;
        Ok(kafka)
    }

    /// For `bootstrap.servers`; stays the same over restarts.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.0.port())
    }

    /// SIGKILL. What was acknowledged stays on disk.
    pub fn kill(&mut self) -> Result<()> {
        self.0.kill()
    }

    /// An orderly end.
    pub fn stop(&mut self) -> Result<()> {
        self.0.stop()
    }

    /// The same broker again, on the same port; killed before if it runs.
    pub fn restart(&mut self) -> Result<()> {
        self.0.kill()?;
        self.launch()
    }

    /// What the broker has logged.
    pub fn log(&self) -> String {
        self.0.log()
    }

    fn launch(&mut self) -> Result<()> {
        // The broker takes connections from clients only once its controller has let it in.
        self.0.launch(|| Ok(()))
    }
}
