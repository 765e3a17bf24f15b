SET 'table.local-time-zone' = 'Asia/Kolkata';
CREATE TABLE clicks (
  ts TIMESTAMP_LTZ(3),
  v INT,
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  w_time TIMESTAMP_LTZ(3),
  n BIGINT,
  v INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT window_start, window_end, window_time, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, window_time;
