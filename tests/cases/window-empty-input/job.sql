CREATE TABLE clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

CREATE TABLE per_user (
  u STRING,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/per_user',
  'format' = 'debezium-json'
);

CREATE TABLE overall (
  n BIGINT,
  total INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/overall',
  'format' = 'debezium-json'
);

CREATE TABLE plain (
  u STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/plain',
  'format' = 'json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO results SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO per_user SELECT u, COUNT(*) FROM clicks GROUP BY u;
INSERT INTO overall SELECT COUNT(*), SUM(v) FROM clicks;
INSERT INTO plain SELECT u FROM clicks;
END;
