CREATE TABLE t (
  id INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' DAY
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  y BIGINT, mo BIGINT, w BIGINT, doy BIGINT, dom BIGINT, dow BIGINT, h BIGINT, mi BIGINT, s BIGINT, f_hour TIMESTAMP(3), f_day TIMESTAMP(3), c_hour TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

CREATE TABLE windows (
  w_start TIMESTAMP(3),
  w_end TIMESTAMP(3),
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/windows',
  'format' = 'json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO results
SELECT id, YEAR(ts), MONTH(ts), WEEK(ts), DAYOFYEAR(ts), DAYOFMONTH(ts), DAYOFWEEK(ts), HOUR(ts), MINUTE(ts), SECOND(ts), FLOOR(ts TO HOUR), FLOOR(ts TO DAY), CEIL(ts TO HOUR)
FROM t;
INSERT INTO windows
SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
END;
