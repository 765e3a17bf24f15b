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
  users BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results SELECT n, COUNT(*) FROM (SELECT u, COUNT(*) AS n FROM clicks GROUP BY u) AS c GROUP BY n;
