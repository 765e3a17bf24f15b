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
  v INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results SELECT DISTINCT u, v FROM clicks;
