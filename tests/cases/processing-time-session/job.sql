CREATE TABLE clicks (
  u STRING,
  v INT,
  pt AS PROCTIME()
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  u STRING,
  n BIGINT,
  total INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT u, SUM(n), SUM(total) FROM (
  SELECT window_start, window_end, u, COUNT(*) AS n, SUM(v) AS total
  FROM TABLE(SESSION(TABLE clicks PARTITION BY u, DESCRIPTOR(pt), INTERVAL '1' SECOND))
  GROUP BY window_start, window_end, u
) AS windows
GROUP BY u;
