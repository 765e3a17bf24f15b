CREATE TABLE clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' HOUR
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE tumbled (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/tumbled',
  'format' = 'json'
);

CREATE TABLE hopped (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/hopped',
  'format' = 'json'
);

CREATE TABLE cumulated (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/cumulated',
  'format' = 'json'
);

CREATE TABLE sessions (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  u STRING,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/sessions',
  'format' = 'json'
);

CREATE TABLE overall (
  n BIGINT,
  total INT,
  sd DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/overall',
  'format' = 'debezium-json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO tumbled SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO hopped SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO cumulated SELECT window_start, window_end, COUNT(*) FROM TABLE(CUMULATE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO sessions SELECT window_start, window_end, u, COUNT(*) FROM TABLE(SESSION(TABLE clicks PARTITION BY u, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, u;
INSERT INTO overall SELECT COUNT(*), SUM(v), STDDEV_SAMP(v) FROM clicks;
END;
