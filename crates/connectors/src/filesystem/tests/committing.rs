//! What readers of the directory see, and what an execution does with the files of others.

use std::fs;

use super::{columns, input::rows, output::*, table_options};
use crate::sink::{Sink, WriterContext};

fn one(id: i64) -> arrow::array::RecordBatch {
    rows(&[(Some(id), None, None)]).project(&[0]).unwrap()
}

#[test]
fn staged_files_are_never_visible() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(
        dir.path(),
        "json",
        &[("sink.rolling-policy.file-size", "1b")],
    );
    let sink = sink(&options, &columns(&["id"]), &[]);
    let mut writer = writer(&sink);
    let visible = || published(dir.path());
    writer.write(&one(1), None).unwrap();
    assert_eq!(visible(), [""; 0], "closed, but not committed");
    let first = writer.pre_commit().unwrap();
    writer.write(&one(2), None).unwrap();
    assert_eq!(visible(), [""; 0], "staged for a checkpoint");
    let second = writer.pre_commit().unwrap();
    writer.commit(&first).unwrap();
    assert_eq!(visible(), ["{\"id\":1}\n"]);
    // Again, as after a restore; and both at once.
    writer.commit(&first).unwrap();
    writer.commit(&[first, second].concat()).unwrap();
    assert_eq!(visible(), ["{\"id\":1}\n", "{\"id\":2}\n"]);
    assert_eq!(names(dir.path()).len(), 2);
}

#[test]
fn what_was_not_precommitted_goes_with_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(
        dir.path(),
        "json",
        &[("sink.rolling-policy.file-size", "10b")],
    );
    let sink = sink(&options, &columns(&["id"]), &[]);
    let mut writer = writer(&sink);
    writer.write(&one(1), None).unwrap();
    let staged = writer.pre_commit().unwrap();
    writer.write(&one(12), None).unwrap();
    writer.write(&one(3), None).unwrap();
    assert_eq!(names(dir.path()).len(), 3);
    drop(writer);
    let mut next = sink.open(&context("two", &Hand::default())).unwrap();
    assert_eq!(
        names(dir.path()).len(),
        1,
        "one closed, one open: both gone"
    );
    next.commit(&staged).unwrap();
    assert_eq!(published(dir.path()), ["{\"id\":1}\n"]);
}

#[test]
fn leftovers_of_dead_executions_are_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "json", &[]);
    let sink = sink(&options, &columns(&["id", "name"]), &[1]);
    let hand = Hand::default();
    let with = |change: &dyn Fn(&mut WriterContext)| {
        let mut context = context("old", &hand);
        change(&mut context);
        let mut writer = sink.open(&context).unwrap();
        let batch = rows(&[(Some(1), Some("p"), None)])
            .project(&[0, 1])
            .unwrap();
        writer.write(&batch, None).unwrap();
        // As if killed: nothing is dropped.
        let staged = writer.pre_commit().unwrap();
        std::mem::forget(writer);
        staged
    };
    let committed = with(&|_| ());
    with(&|context| context.subtask = 1);
    with(&|context| context.job = "other".into());
    with(&|context| context.writer = "sink-1-2".into());
    let own = with(&|context| context.execution = "new".into());
    fs::write(dir.path().join(".job.sink-1.notes"), "mine").unwrap();
    fs::write(dir.path().join("name=p/part-old-sink-1-0-9.json"), "{}\n").unwrap();

    let mut writer = sink.open(&context("new", &hand)).unwrap();
    writer.commit(&committed).unwrap();
    writer.abort_leftovers().unwrap();
    assert_eq!(
        names(dir.path()),
        [
            ".job.sink-1.notes",
            "name=p/.job.sink-1-2.part-old-sink-1-2-0-0.json.staged",
            "name=p/.job.sink-1.part-new-sink-1-0-0.json.staged",
            "name=p/.other.sink-1.part-old-sink-1-0-0.json.staged",
            "name=p/part-old-sink-1-0-0.json",
            "name=p/part-old-sink-1-0-9.json",
        ]
    );
    writer.commit(&own).unwrap();

    // The job is deleted: all that it has staged goes, whoever of it has.
    sink.discard_staged("job").unwrap();
    assert_eq!(
        names(dir.path()),
        [
            ".job.sink-1.notes",
            "name=p/.other.sink-1.part-old-sink-1-0-0.json.staged",
            "name=p/part-new-sink-1-0-0.json",
            "name=p/part-old-sink-1-0-0.json",
            "name=p/part-old-sink-1-0-9.json",
        ]
    );
}

#[test]
fn files_that_readers_took_away_do_not_stop_a_restore() {
    let dir = tempfile::tempdir().unwrap();
    let options = table_options(dir.path(), "json", &[]);
    let sink = sink(&options, &columns(&["id"]), &[]);
    let mut writer = writer(&sink);
    writer.write(&one(1), None).unwrap();
    let staged = checkpoint(writer.as_mut());
    for name in names(dir.path()) {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    // In the execution that staged it, it cannot have been published.
    let error = writer.commit(&staged).unwrap_err().0;
    assert!(
        error.contains("cannot publish") && error.contains("is gone"),
        "{error}"
    );
    let mut next = sink.open(&context("two", &Hand::default())).unwrap();
    next.commit(&staged).unwrap();
}

#[test]
fn a_record_that_cannot_be_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let sink = sink(
        &table_options(dir.path(), "json", &[]),
        &columns(&["id"]),
        &[],
    );
    let error = writer(&sink)
        .commit(&[crate::sink::Committable(serde_json::json!({"staged": 1}))])
        .unwrap_err()
        .0;
    assert!(error.contains("staged file's record"), "{error}");
}
