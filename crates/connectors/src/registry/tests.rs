//! Tables whose connector or options do not exist.

use arrow::datatypes::{DataType, Field, Schema};
use millrace_dataflow::{ChangelogMode, StateId};

use super::*;

fn options(pairs: &[(&str, &str)]) -> TableOptions {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]))
}

fn source_error(pairs: &[(&str, &str)]) -> String {
    let node = SourceNode {
        table: "t".into(),
        options: options(pairs),
        declared: schema(),
        physical: schema(),
        metadata: vec![],
        output: vec![],
        watermark: None,
        state_id: StateId("s".into()),
    };
    match source(&node) {
        Ok(_) => panic!("{pairs:?} was accepted"),
        Err(error) => error.0,
    }
}

fn sink_error(pairs: &[(&str, &str)]) -> Option<String> {
    let node = SinkNode {
        table: "t".into(),
        options: options(pairs),
        schema: schema(),
        primary_key: vec![],
        partition_by: vec![],
        input_mode: ChangelogMode::Append,
        state_id: StateId("s".into()),
    };
    sink(&node).err().map(|error| error.0)
}

/// Options, and what the error says.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn unknown_connectors_and_options() {
    let sources: &[Case<'_>] = &[
        (&[], &["table `t` has no 'connector' option"]),
        (
            &[("connector", "filesytem")],
            &[
                "did you mean 'filesystem'?",
                "datagen, filesystem, kafka, nexmark",
            ],
        ),
        (
            &[("connector", "kinesis")],
            &["connector 'kinesis' cannot be read; those that can are"],
        ),
        (&[("connector", "print")], &["'print' cannot be read"]),
        (
            &[("connector", "filesystem"), ("path", "/x")],
            &["'format' is missing"],
        ),
        (&[("connector", "filesystem")], &["'path' is missing"]),
        (
            &[
                ("connector", "filesystem"),
                ("format", "jsn"),
                ("path", "/x"),
            ],
            &["unknown format 'jsn'", "did you mean 'json'?"],
        ),
        (
            &[
                ("connector", "filesystem"),
                ("format", "debezium-json"),
                ("path", "/x"),
            ],
            &["can only be written"],
        ),
    ];
    for (pairs, parts) in sources {
        let error = source_error(pairs);
        for part in *parts {
            assert!(error.contains(part), "{pairs:?}: {error}");
        }
    }
    let sinks: &[(&[(&str, &str)], &str)] = &[
        (&[("connector", "nexmark")], "'nexmark' cannot be written"),
        (&[("connector", "blackhol")], "did you mean 'blackhole'?"),
        (
            &[("connector", "print"), ("fromat", "json")],
            "unknown option 'fromat'",
        ),
    ];
    for (pairs, part) in sinks {
        let error = sink_error(pairs).unwrap_or_default();
        assert!(error.contains(part), "{pairs:?}: {error}");
    }
    for connector in ["print", "blackhole", "collect"] {
        assert_eq!(sink_error(&[("connector", connector)]), None);
    }
}
