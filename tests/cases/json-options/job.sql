CREATE TABLE t (
  id INT,
  ts TIMESTAMP(3),
  s STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'${throttle}
);

CREATE TABLE results (
  id INT,
  ts TIMESTAMP(3),
  s STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601',
  'json.encode.ignore-null-fields' = 'true'
);

INSERT INTO results SELECT id, ts + INTERVAL '1' SECOND, s FROM t;
