CREATE TABLE t (
  id INT,
  s STRING,
  d DOUBLE,
  m DECIMAL(12, 4),
  b BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  d_int INT,
  d_big BIGINT,
  d_dec DECIMAL(8, 2),
  m_int INT,
  m_double DOUBLE,
  m_dec DECIMAL(6, 1),
  b_tiny TINYINT,
  b_small SMALLINT,
  b_int INT,
  b_double DOUBLE,
  b_bool BOOLEAN,
  t_int INT,
  t_double DOUBLE,
  t_dec DECIMAL(8, 3),
  t_bool BOOLEAN,
  t_date DATE,
  t_ts TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id,
  CAST(d AS INT), CAST(d AS BIGINT), CAST(d AS DECIMAL(8, 2)),
  CAST(m AS INT), CAST(m AS DOUBLE), CAST(m AS DECIMAL(6, 1)),
  CAST(b AS TINYINT), CAST(b AS SMALLINT), CAST(b AS INT), CAST(b AS DOUBLE), CAST(b AS BOOLEAN),
  TRY_CAST(s AS INT), TRY_CAST(s AS DOUBLE), TRY_CAST(s AS DECIMAL(8, 3)), TRY_CAST(s AS BOOLEAN),
  CASE WHEN CHAR_LENGTH(s) > 5 THEN TRY_CAST(s AS DATE) END, TRY_CAST(s AS TIMESTAMP(3))
FROM t;
