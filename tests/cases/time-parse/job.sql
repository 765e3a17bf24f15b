CREATE TABLE t (
  id INT,
  s STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  d DATE, d2 DATE, t TIMESTAMP(3), t2 TIMESTAMP(3), lit TIMESTAMP(3), tm STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, TO_DATE(s), CASE WHEN id = 1 THEN TO_DATE(s, 'yyyyMMdd') END, TO_TIMESTAMP(s), CASE WHEN id = 4 THEN TO_TIMESTAMP(s, 'dd.MM.yyyy HH:mm') END, TIMESTAMP '2024-01-02 03:04:05.678',
 CAST(TIME '10:11:12' AS STRING) FROM t;
