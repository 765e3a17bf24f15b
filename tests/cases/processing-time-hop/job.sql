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

-- Which window a row meets depends on the clock, the sums over all windows do not.
INSERT INTO results
SELECT u, SUM(n), SUM(total) FROM (
  SELECT window_start, window_end, u, COUNT(*) AS n, SUM(v) AS total
  FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(pt), INTERVAL '1' SECOND, INTERVAL '3' SECOND))
  GROUP BY window_start, window_end, u
) AS windows
GROUP BY u;
