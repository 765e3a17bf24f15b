//! The queries, with Flink's figures from a 2-core machine of the same kind.

/// One query.
#[derive(Debug)]
pub(crate) struct Query {
    /// File name without extension.
    pub(crate) name: &'static str,
    /// Flink 2.3.0, CPU-seconds of the TaskManager per million events, heap state (the better of
    /// mini-batch on and off).
    pub(crate) flink_heap: f64,
    /// The same with RocksDB state; queries without state have none.
    pub(crate) flink_rocksdb: Option<f64>,
}

const fn query(name: &'static str, flink_heap: f64, flink_rocksdb: Option<f64>) -> Query {
    Query {
        name,
        flink_heap,
        flink_rocksdb,
    }
}

/// Flink's figure for `q5` is for the whole query, of which `q5hop` is the first half.
pub(crate) const QUERIES: [Query; 12] = [
    query("q0", 0.78, None),
    query("q1", 0.81, None),
    query("q2", 0.74, None),
    query("q5hop", 2.28, Some(7.96)),
    query("q11", 2.80, Some(13.53)),
    query("q12", 1.68, Some(2.54)),
    query("q14", 0.84, None),
    query("q15", 2.22, Some(4.10)),
    query("q16", 9.61, Some(21.20)),
    query("q17", 2.09, Some(2.42)),
    query("q21", 2.80, None),
    query("q22", 1.32, None),
];
