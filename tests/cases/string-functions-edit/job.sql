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
SELECT id, REPLACE(s, 'o', '00'), REPEAT(s, 2), CASE WHEN id <> 5 THEN LPAD(s, 6, '*-') END, CASE WHEN id <> 5 THEN RPAD(s, 6, '*-') END, LEFT(s, 2), RIGHT(s, 2),
  CASE WHEN id <> 5 THEN OVERLAY(s PLACING '##' FROM 2 FOR 1) END, CONCAT(s, '-', s), CONCAT_WS('/', s, CAST(NULL AS STRING), 'end'),
  TRIM(BOTH 'a' FROM s), TRIM(LEADING 'a' FROM s), TRIM(TRAILING 'c' FROM s), TRANSLATE(s, 'aeo', '43'), CASE WHEN id NOT IN (3, 4, 5, 14) THEN ASCII(s) END, CHR(64 + id)
FROM t;
