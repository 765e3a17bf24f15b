//! Jobs that must give the same files however they are run.

use std::{fmt::Write, path::Path};

use crate::cluster::{End, Job, published};

/// 2,000 rows over 4 files, keys with skew, times out of order within 3 s.
fn write_input(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for file in 0..4 {
        let mut text = String::new();
        for i in 0..500_u64 {
            let mix = (i * 7_919 + file * 104_729) % 1_000;
            let ms = i * 100 + (mix * 3) % 3_000;
            let key = if mix < 300 {
                "hot".to_owned()
            } else {
                format!("k{}", mix % 17)
            };
            let (s, ms) = (ms / 1000, ms % 1000);
            let minute = s / 60;
            writeln!(
                text,
                r#"{{"k":"{key}","v":{},"ts":"2024-01-01 00:{minute:02}:{:02}.{ms:03}"}}"#,
                mix as i64 - 500,
                s % 60
            )
            .unwrap();
        }
        std::fs::write(dir.join(format!("part-{file}.json")), text).unwrap();
    }
}

fn script(dir: &Path, out: &str, query: &str, rate: Option<u32>) -> String {
    let throttle = rate.map_or(String::new(), |rate| {
        format!(", 'source.rows-per-second' = '{rate}'")
    });
    format!(
        "CREATE TABLE src (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
         WITH ('connector' = 'filesystem', 'path' = '{0}/in', 'format' = 'json'{throttle});
         CREATE TABLE snk {1} WITH ('connector' = 'filesystem', 'path' = '{0}/{out}', 'format' = 'json');
         INSERT INTO snk {query};",
        dir.display(),
        match out.split('-').next().unwrap() {
            "calc" => "(k STRING, v2 BIGINT)",
            _ => "(k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s BIGINT, mn BIGINT)",
        }
    )
}

fn windowed(window: &str) -> String {
    format!(
        "SELECT k, window_start, window_end, COUNT(*), SUM(v), MIN(v) FROM TABLE({window}) GROUP BY k, window_start, window_end"
    )
}

/// Clean runs at 1, 2 and 4, then killed after each of a few checkpoints and restored at another
/// parallelism.
fn same_however_it_runs(name: &str, query: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_input(&dir.path().join("in"));
    let clean = |parallelism: u32| {
        let out = format!("{name}-clean-{parallelism}");
        let mut job = Job::new(
            &dir.path().join(format!("job-{out}")),
            script(dir.path(), &out, query, None),
        );
        assert!(matches!(job.run(parallelism, None, None), End::Finished));
        published(&dir.path().join(&out))
    };
    let expected = clean(1);
    assert!(expected.len() > 10, "{expected:?}");
    for parallelism in [2, 4] {
        assert_eq!(clean(parallelism), expected, "clean at {parallelism}");
    }
    for (kill_after, first, second) in [(1, 2, 2), (3, 2, 3), (5, 3, 1), (8, 1, 4)] {
        let out = format!("{name}-killed-{kill_after}-{first}-{second}");
        let sql = script(dir.path(), &out, query, Some(1_000));
        let mut job = Job::new(&dir.path().join(format!("job-{out}")), sql);
        let mut end = job.run(first, None, Some(kill_after));
        let mut parallelism = second;
        let mut kills = 1;
        while let End::Killed(from) = end {
            let kill = (kills < 3).then_some(2);
            end = job.run(parallelism, from.as_ref(), kill);
            parallelism = first;
            kills += 1;
        }
        assert_eq!(published(&dir.path().join(&out)), expected, "killed: {out}");
    }
}

#[test]
fn calc_over_files() {
    same_however_it_runs("calc", "SELECT k, v * 2 FROM src WHERE v > 0");
}

#[test]
fn tumbling_windows() {
    same_however_it_runs(
        "tumble",
        &windowed("TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '5' SECOND)"),
    );
}

#[test]
fn hopping_windows() {
    same_however_it_runs(
        "hop",
        &windowed("HOP(TABLE src, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)"),
    );
}

#[test]
fn session_windows() {
    same_however_it_runs(
        "session",
        &windowed("SESSION(TABLE src PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)"),
    );
}
