SET 'table.local-time-zone' = 'Europe/Berlin';
CREATE TABLE clicks (
  u STRING,
  ms BIGINT,
  ts AS TO_TIMESTAMP_LTZ(ms, 3),
  WATERMARK FOR ts AS ts - INTERVAL '1' HOUR
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT,
  earliest TIMESTAMP_LTZ(3),
  latest STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

-- Days of Berlin: those on which clocks change have 23 and 25 hours.
INSERT INTO results
SELECT window_start, window_end, COUNT(*), MIN(ts), CAST(MAX(ts) AS STRING)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end;
