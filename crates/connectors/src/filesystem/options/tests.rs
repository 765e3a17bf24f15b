//! Options: what is read from them, and what is said of those that are wrong.

use super::*;

fn options(pairs: &[(&str, &str)]) -> TableOptions {
    let mut options = TableOptions::from([
        ("connector".to_owned(), "filesystem".to_owned()),
        ("format".to_owned(), "json".to_owned()),
        ("path".to_owned(), "/data".to_owned()),
    ]);
    options.extend(
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    options
}

#[test]
fn values_are_read_with_their_units() {
    let read = SourceOptions::new(
        "t",
        &options(&[
            ("source.monitor-interval", "1500 ms"),
            ("source.rows-per-second", " 250 "),
            ("source.max-files", "7"),
            ("on-error", "dead-letter"),
            ("dead-letter.path", "/bad"),
            ("scan.watermark.idle-timeout", "5 s"),
            // The same table, where it is written.
            ("sink.rolling-policy.file-size", "1MB"),
        ]),
    )
    .unwrap();
    assert_eq!(read.monitor_interval_ms, Some(1500));
    assert_eq!(read.rows_per_second, 250);
    assert_eq!(read.max_files, 7);
    assert_eq!(read.dead_letter_path.as_deref(), Some("/bad"));
    for (text, bytes) in [
        ("1", 1),
        ("10b", 10),
        ("2 kb", 2048),
        ("128MB", 134_217_728),
        ("1g", 1 << 30),
    ] {
        let options = options(&[("sink.rolling-policy.file-size", text)]);
        assert_eq!(SinkOptions::new("t", &options).unwrap().file_bytes, bytes);
    }
    let plain = SinkOptions::new("t", &options(&[])).unwrap();
    assert_eq!(
        (plain.file_bytes, plain.rollover_ms),
        (128 << 20, 1_800_000)
    );
    for (path, local) in [
        ("file:///a b", "/a b"),
        ("file:/a", "/a"),
        ("file://localhost/a", "/a"),
        ("rel/a", "rel/a"),
        (" /a ", "/a"),
    ] {
        let read = SourceOptions::new("t", &options(&[("path", path)])).unwrap();
        assert_eq!(read.path, local, "{path}");
    }
}

/// Options, and what the error says.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn what_is_wrong_is_told() {
    let cases: &[Case<'_>] = &[
        (
            &[("source.monitor-intervall", "1 s")],
            &[
                "table `t`",
                "unknown option 'source.monitor-intervall'",
                "did you mean 'source.monitor-interval'?",
                "'source.max-files'",
            ],
        ),
        (&[("on-eror", "skip")], &["did you mean 'on-error'?"]),
        (&[("formt", "json")], &["did you mean 'format'?"]),
        (&[("something.else", "x")], &["It has 'path'"]),
        (&[("scan.watermark.idle-timout", "1 s")], &["idle-timeout"]),
        (&[("sink.parallelism", "2")], &["the job's parallelism"]),
        (&[("source.monitor-interval", "0 s")], &["a duration"]),
        (
            &[("source.monitor-interval", "5")],
            &["'5'", "with its unit"],
        ),
        (&[("source.monitor-interval", "soon")], &["'soon'", "10 s"]),
        (
            &[("source.rows-per-second", "-1")],
            &["whole number from 0"],
        ),
        (&[("source.max-files", "0")], &["whole number from 1"]),
        (&[("path", "")], &["'path' is missing"]),
        (&[("path", "s3://b/x")], &["'s3' are not supported yet"]),
        (&[("path", "file://host")], &["file:///data/in"]),
        (&[("on-error", "dead-letter")], &["'dead-letter.path'"]),
        (&[("dead-letter.path", "/x")], &["'on-error'"]),
    ];
    for (pairs, parts) in cases {
        let error = SourceOptions::new("t", &options(pairs)).unwrap_err().0;
        for part in *parts {
            assert!(error.contains(part), "{pairs:?}: {error}");
        }
    }
    for size in [
        "",
        "0",
        "-1",
        "1 parsec",
        "99999999999999999999",
        "99999999999 gb",
    ] {
        let options = options(&[("sink.rolling-policy.file-size", size)]);
        let error = SinkOptions::new("t", &options).unwrap_err().0;
        assert!(error.contains("a size such as '128MB'"), "{size}: {error}");
    }
}
