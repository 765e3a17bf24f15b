//! Opens object storage by URL.

use std::{fs, path::Path as FilePath, sync::Arc};

use object_store::{
    ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
};

use crate::error::{Result, StateError};

/// Opens the store that a URL names and the prefix in it.
///
/// - `file:///an/absolute/directory`: made if it does not exist; writes are atomic. The text
///   after `file://` is the path as it is, without percent-encoding.
/// - `s3://bucket/prefix`: credentials and region from the usual `AWS_…` variables;
///   `AWS_ENDPOINT_URL` names another S3-compatible server, with plain HTTP if it says so.
pub fn open(url: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
    let unusable = |reason: String| StateError::Url {
        url: url.to_owned(),
        reason,
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(unusable(
            "expected file:///directory or s3://bucket/prefix".into(),
        ));
    };
    match scheme {
        "file" => {
            let dir = FilePath::new(rest);
            if !dir.is_absolute() {
                return Err(unusable(format!(
                    "`{rest}` is not an absolute path, write file:///directory"
                )));
            }
            fs::create_dir_all(dir)
                .map_err(|error| unusable(format!("`{rest}` cannot be created: {error}")))?;
            let store = LocalFileSystem::new_with_prefix(dir)
                .map_err(|error| unusable(error.to_string()))?
                .with_automatic_cleanup(true);
            Ok((Arc::new(store), Path::default()))
        }
        "s3" => {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(unusable(
                    "it names no bucket, write s3://bucket/prefix".into(),
                ));
            }
            let prefix = Path::parse(prefix.trim_end_matches('/'))
                .map_err(|error| unusable(format!("its prefix is not valid: {error}")))?;
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
            let plain_http = builder
                .get_config_value(&AmazonS3ConfigKey::Endpoint)
                .is_some_and(|endpoint| endpoint.starts_with("http://"));
            if plain_http {
                builder = builder.with_allow_http(true);
            }
            let store = builder
                .build()
                .map_err(|error| unusable(error.to_string()))?;
            Ok((Arc::new(store), prefix))
        }
        other => Err(unusable(format!(
            "`{other}` is not supported, use file:// or s3://"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_urls_say_why() {
        for (url, reason) in [
            ("/tmp/x", "expected file:///directory"),
            ("file://relative", "absolute"),
            ("s3://", "no bucket"),
            ("s3://b/a//b", "prefix"),
            ("gs://b", "`gs` is not supported"),
            ("file:///proc/nowhere/x", "cannot be created"),
        ] {
            let error = open(url).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn a_directory_is_made() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a b/c");
        let (_, root) = open(&format!("file://{}", dir.display())).unwrap();
        assert!(dir.is_dir());
        assert_eq!(root, Path::default());
    }
}
