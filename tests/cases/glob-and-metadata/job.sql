CREATE TABLE t (
  id INT,
  source_name STRING METADATA FROM 'file.name' VIRTUAL,
  doubled AS id * 2
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/part-*.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  source_name STRING,
  n BIGINT,
  doubled INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results SELECT source_name, COUNT(*), SUM(doubled) FROM t GROUP BY source_name;
