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
  rep STRING, rpt STRING, lp STRING, rp STRING, lft STRING, rgt STRING, ov STRING, cc STRING, ws STRING,
  tb STRING, tl STRING, tt STRING, tr STRING, asc_code INT, ch STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, REPLACE(s, 'o', '00'), REPEAT(s, 2), LPAD(s, 6, '*-'), RPAD(s, 6, '*-'), LEFT(s, 2), RIGHT(s, 2),
  OVERLAY(s PLACING '##' FROM 2 FOR 1), CONCAT(s, '-', s), CONCAT_WS('/', s, CAST(NULL AS STRING), 'end'),
  TRIM(BOTH 'a' FROM s), TRIM(LEADING 'a' FROM s), TRIM(TRAILING 'c' FROM s), TRANSLATE(s, 'aeo', '43'), ASCII(s), CHR(64 + id)
FROM t;
