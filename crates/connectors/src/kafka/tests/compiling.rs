//! What a script with Kafka tables compiles to, and what is said of one that does not.

use millrace_dataflow::NodeKind;
use millrace_sql::{CompileOptions, compile, explain};

use crate::catalog::Connectors;

const SOURCE: &str = "CREATE TABLE s (id BIGINT, name STRING, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', \
    part INT METADATA FROM 'partition' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 'a', 'format' = 'json', \
    'properties.bootstrap.servers' = 'x:1', 'properties.sasl.password' = 'hunter2', \
    'scan.startup.mode' = 'earliest-offset');\n";

fn target(columns: &str, connector: &str, more: &str) -> String {
    format!(
        "CREATE TABLE t ({columns}) WITH ('connector' = '{connector}', 'topic' = 'b', \
         'properties.bootstrap.servers' = 'x:1', 'properties.sasl.password' = 'hunter2'{more});\n"
    )
}

fn options() -> CompileOptions {
    CompileOptions::new(Connectors::shared())
}

fn refused(script: &str) -> String {
    let diagnostics = match compile(script, &options()) {
        Ok(_) => panic!("compiles: {script}"),
        Err(diagnostics) => diagnostics,
    };
    let texts: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let text = texts.join("\n");
    assert!(!text.contains("hunter2"), "{text}");
    text
}

#[test]
fn metadata_that_can_be_written_are_columns_of_the_sink() {
    let columns = "id BIGINT, written TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', \
        tags MAP<STRING, BYTES> METADATA FROM 'headers', off BIGINT METADATA FROM 'offset' VIRTUAL";
    let table = target(columns, "kafka", ", 'format' = 'json'");
    let script = format!("{SOURCE}{table}INSERT INTO t (id, written) SELECT id, at FROM s;");
    let plan = explain(&script, &options())
        .map_err(|error| format!("{error:?}"))
        .unwrap();
    assert!(!plan.text.contains("hunter2"), "{}", plan.text);
    let compiled = compile(&script, &options())
        .map_err(|error| format!("{error:?}"))
        .unwrap();
    let sink = compiled
        .dataflow
        .nodes
        .iter()
        .find_map(|node| match &node.kind {
            NodeKind::Sink(sink) => Some(sink.clone()),
            _ => None,
        });
    let sink = sink.unwrap();
    let names: Vec<_> = sink
        .schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["id", "written", "tags"]);
    assert_eq!(
        sink.schema.field(1).metadata()["millrace.metadata"],
        "timestamp"
    );
    crate::kafka::KafkaSink::new(&sink).unwrap();
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let json = ", 'format' = 'json'";
    let keyed = ", 'key.format' = 'json', 'value.format' = 'json'";
    let counted = "INSERT INTO t SELECT name, COUNT(*) FROM s GROUP BY name;";
    for (table, query, part) in [
        (
            target(
                "id BIGINT, part INT METADATA FROM 'partition'",
                "kafka",
                json,
            ),
            "INSERT INTO t SELECT id, part FROM s;",
            "mark the column VIRTUAL",
        ),
        (
            target("name STRING, n BIGINT", "kafka", json),
            counted,
            "'upsert-kafka'",
        ),
        (
            target("name STRING, n BIGINT", "upsert-kafka", keyed),
            counted,
            "needs a primary key",
        ),
        (
            target(
                "name STRING, PRIMARY KEY (name) NOT ENFORCED",
                "upsert-kafka",
                keyed,
            ),
            "SELECT * FROM t;",
            "can only be written so far",
        ),
        (
            target(
                "name STRING, n BIGINT",
                "kafka",
                ", 'format' = 'json', 'properties.securty.protocol' = 'x'",
            ),
            "INSERT INTO t SELECT name, id FROM s;",
            "properties.securty.protocol",
        ),
        (
            target(
                "name STRING, n INT METADATA FROM 'leader-epoch' VIRTUAL",
                "kafka",
                ", 'format' = 'json', 'scan.startup.mode' = 'latest-offset'",
            ),
            "SELECT n FROM t;",
            "no metadata 'leader-epoch'; it has 'topic'",
        ),
    ] {
        let error = refused(&format!("{SOURCE}{table}{query}"));
        assert!(error.contains(part), "{error}");
    }
    let anywhere = format!("{keyed}, 'sink.partitioner' = 'round-robin'");
    let columns = "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED";
    let table = target(columns, "upsert-kafka", &anywhere);
    let error = refused(&format!("{SOURCE}{table}{counted}"));
    assert!(error.contains("all records of a key"), "{error}");
    let upsert = target(
        "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED",
        "upsert-kafka",
        keyed,
    );
    compile(&format!("{SOURCE}{upsert}{counted}"), &options())
        .map_err(|error| format!("{error:?}"))
        .unwrap();
}
