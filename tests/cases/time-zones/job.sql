SET 'table.local-time-zone' = 'Europe/Berlin';
CREATE TABLE t (
  id INT,
  ms BIGINT,
  wall STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  ltz TIMESTAMP_LTZ(3), local_text STRING, local_ts TIMESTAMP(3), back TIMESTAMP_LTZ(3), h BIGINT, day_text STRING, unix_text STRING, conv STRING, floor_day TIMESTAMP_LTZ(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, TO_TIMESTAMP_LTZ(ms, 3), CAST(TO_TIMESTAMP_LTZ(ms, 3) AS STRING), CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP(3)),
  CAST(TO_TIMESTAMP(wall) AS TIMESTAMP_LTZ(3)), HOUR(TO_TIMESTAMP_LTZ(ms, 3)),
  DATE_FORMAT(TO_TIMESTAMP_LTZ(ms, 3), 'yyyy-MM-dd HH'), FROM_UNIXTIME(ms / 1000),
  CONVERT_TZ(wall, 'UTC', 'America/New_York'), CASE WHEN id IN (3, 7, 8, 9) THEN FLOOR(TO_TIMESTAMP_LTZ(ms, 3) TO DAY) END
FROM t;
