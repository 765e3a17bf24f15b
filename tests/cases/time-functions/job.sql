CREATE TABLE t (
  id INT,
  ts TIMESTAMP(3),
  ts2 TIMESTAMP(3),
  d DATE,
  n INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  y BIGINT, q BIGINT, mo BIGINT, w BIGINT, doy BIGINT, dom BIGINT, dow BIGINT, h BIGINT, mi BIGINT, s BIGINT,
  ey BIGINT, ed BIGINT, es BIGINT, fmt STRING, fmt2 STRING, yd BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, YEAR(ts), QUARTER(ts), MONTH(ts), WEEK(ts), DAYOFYEAR(ts), DAYOFMONTH(ts), DAYOFWEEK(ts), HOUR(ts), MINUTE(ts), SECOND(ts),
  EXTRACT(YEAR FROM ts), EXTRACT(DAY FROM d), EXTRACT(SECOND FROM ts),
  DATE_FORMAT(ts, 'yyyy/MM/dd HH:mm'), DATE_FORMAT(ts, 'yyyyMMdd-HHmmss.SSS'), YEAR(d)
FROM t;
