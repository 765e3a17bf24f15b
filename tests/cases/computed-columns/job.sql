CREATE TABLE readings (
  raw_time STRING,
  celsius DOUBLE,
  station STRING,
  fahrenheit AS celsius * 1.8 + 32,
  seen AS TO_TIMESTAMP(raw_time, 'dd.MM.yyyy HH:mm:ss'),
  WATERMARK FOR seen AS seen - INTERVAL '10' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/readings.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  station STRING,
  hottest DOUBLE,
  readings BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT window_start, window_end, station, MAX(fahrenheit), COUNT(*)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(seen), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, station;
