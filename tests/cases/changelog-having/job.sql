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
  u STRING,
  total INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results SELECT u, SUM(v) FROM clicks GROUP BY u HAVING SUM(v) > 2;
