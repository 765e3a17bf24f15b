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
  ts_plus TIMESTAMP(3), ts_minus TIMESTAMP(3), d_plus DATE, m_plus TIMESTAMP(3), add_h TIMESTAMP(3), add_mo TIMESTAMP(3), add_d DATE,
  diff_s INT, diff_d INT, diff_mo INT, f_hour TIMESTAMP(3), f_day TIMESTAMP(3), f_month TIMESTAMP(3), c_hour TIMESTAMP(3), f_year DATE, lt BOOLEAN, var TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, ts + INTERVAL '1' DAY, ts - INTERVAL '90' MINUTE, d + INTERVAL '1' DAY, ts + INTERVAL '1' MONTH,
  TIMESTAMPADD(HOUR, 5, ts), TIMESTAMPADD(MONTH, -1, ts), TIMESTAMPADD(DAY, n, d),
  TIMESTAMPDIFF(SECOND, ts, ts2), TIMESTAMPDIFF(DAY, ts, ts2), TIMESTAMPDIFF(MONTH, ts, ts2),
  FLOOR(ts TO HOUR), FLOOR(ts TO DAY), FLOOR(ts TO MONTH), CEIL(ts TO HOUR), FLOOR(d TO YEAR),
  ts < ts2, ts + INTERVAL '1 02:03:04.005' DAY TO SECOND(3)
FROM t;
