CREATE TABLE t (
  id INT,
  d DOUBLE,
  m DECIMAL(12, 4),
  b BOOLEAN,
  ts TIMESTAMP(3),
  dt DATE,
  s STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  d STRING,
  m STRING,
  b STRING,
  ts STRING,
  dt STRING,
  padded STRING,
  cut STRING,
  ts_date DATE,
  dt_ts TIMESTAMP(3),
  s_ts TIMESTAMP(3),
  i STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, CAST(d AS STRING), CAST(m AS STRING), CAST(b AS STRING), CAST(ts AS STRING), CAST(dt AS STRING),
  CAST(s AS CHAR(6)), CAST(s AS VARCHAR(3)), CAST(ts AS DATE), CAST(dt AS TIMESTAMP(3)),
  TRY_CAST(s AS TIMESTAMP(3)), CAST(id AS STRING)
FROM t;
