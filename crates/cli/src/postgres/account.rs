//! Which user account runs the server: ours, or `postgres` when we are root.

use std::{os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, anyhow};

/// An account other than ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// `None`: the server runs as we do. `own` is a directory that we have made.
    pub(super) fn for_server(own: &Path) -> anyhow::Result<Option<Self>> {
        let uid = std::fs::metadata("/proc/self")
            .or_else(|_| std::fs::metadata(own))
            .with_context(|| format!("cannot look at {}", own.display()))?
            .uid();
        if uid != 0 {
            return Ok(None);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        find(&passwd, "postgres").map(Some).ok_or_else(|| {
            anyhow!(
                "Postgres does not run as root, and there is no user `postgres` to run it as: \
                 install the postgresql package, start millrace as another user, or name a server \
                 with --database-url"
            )
        })
    }

    /// Whether the account can get to `dir` through all directories above it.
    pub(super) fn can_reach(&self, dir: &Path) -> bool {
        dir.ancestors()
            .skip(1)
            .all(|above| match std::fs::metadata(above) {
                Ok(found) => {
                    let bit = if found.uid() == self.uid {
                        0o100
                    } else if found.gid() == self.gid {
                        0o010
                    } else {
                        0o001
                    };
                    found.mode() & bit != 0
                }
                Err(_) => false,
            })
    }
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account {
            name: name.to_owned(),
            uid,
            gid,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\npostgresx:x:1:1::/:/\nbroken\npostgres:x:104:112:PostgreSQL:/var/lib/postgresql:/bin/bash\n";
        let found = find(passwd, "postgres").unwrap();
        assert_eq!((found.uid, found.gid), (104, 112));
        assert_eq!(find(passwd, "nobody"), None);
    }
}
