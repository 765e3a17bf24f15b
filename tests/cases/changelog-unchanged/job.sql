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
  biggest INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

-- A row that changes nothing sends nothing.
INSERT INTO results SELECT u, MAX(v) FROM clicks GROUP BY u;
