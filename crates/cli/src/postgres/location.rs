//! Where the cluster of a data directory lies.
//!
//! Usually in it. When root runs the server as another account, and that account cannot get to
//! the data directory (it lies below `/root`, say), the cluster lies below `/var/lib/millrace`
//! and a file in the data directory says where.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use uuid::Uuid;

use super::account::Account;

const ELSEWHERE: &str = "/var/lib/millrace/clusters";
const POINTER: &str = "postgres.location";

/// The directory of the cluster; it need not exist yet.
pub(super) fn cluster_dir(data_dir: &Path, account: Option<&Account>) -> anyhow::Result<PathBuf> {
    let pointer = data_dir.join(POINTER);
    if let Ok(text) = fs::read_to_string(&pointer) {
        return Ok(PathBuf::from(text.trim()));
    }
    let inside = data_dir.join("postgres");
    let Some(account) = account else {
        return Ok(inside);
    };
    // The account only has to pass through.
    fs::set_permissions(data_dir, fs::Permissions::from_mode(0o711))
        .with_context(|| format!("cannot open {} to {}", data_dir.display(), account.name))?;
    if account.can_reach(&inside) {
        return Ok(inside);
    }
    fs::create_dir_all(ELSEWHERE).with_context(|| format!("cannot create {ELSEWHERE}"))?;
    let outside = Path::new(ELSEWHERE).join(Uuid::now_v7().to_string());
    fs::write(&pointer, format!("{}\n", outside.display()))
        .with_context(|| format!("cannot write {}", pointer.display()))?;
    tracing::info!(
        cluster = %outside.display(),
        "user {} cannot reach {}, so the private Postgres keeps its files elsewhere",
        account.name,
        data_dir.display()
    );
    Ok(outside)
}

/// Forgets a cluster that lies elsewhere; called before its data directory is removed.
pub(crate) fn remove_outside(data_dir: &Path) {
    if let Ok(text) = fs::read_to_string(data_dir.join(POINTER)) {
        let outside = PathBuf::from(text.trim());
        // Only what this module has put there.
        if outside.parent() == Some(Path::new(ELSEWHERE))
            && let Err(error) = fs::remove_dir_all(&outside)
        {
            tracing::warn!(%error, "cannot remove {}", outside.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_cluster_lies_in_the_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            cluster_dir(dir.path(), None).unwrap(),
            dir.path().join("postgres")
        );
    }

    #[test]
    fn an_account_that_cannot_get_in_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        // The directory above is ours alone as well: open it for passing through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let stranger = Account {
            name: "stranger".to_owned(),
            uid: 4_000_000,
            gid: 4_000_000,
        };
        assert!(stranger.can_reach(&closed));
        assert!(!stranger.can_reach(&closed.join("postgres")));
    }
}
