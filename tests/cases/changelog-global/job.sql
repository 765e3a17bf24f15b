SET 'table.exec.mini-batch.enabled' = 'false';
CREATE TABLE clicks (
  u STRING,
  v INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  n BIGINT,
  users BIGINT,
  mean INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results SELECT COUNT(*), COUNT(DISTINCT u), AVG(v) FROM clicks;
