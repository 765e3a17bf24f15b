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
  up STRING, low STRING, init STRING, len INT, trimmed STRING, l STRING, r STRING,
  sub1 STRING, sub2 STRING, sub3 STRING, pos INT, cat STRING, rev STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, UPPER(s), LOWER(s), CASE WHEN id IN (1, 2, 8, 9, 12) THEN INITCAP(s) END, CHAR_LENGTH(s), TRIM(s), LTRIM(s), RTRIM(s),
  SUBSTRING(s, 2, 3), SUBSTR(s, -3), SUBSTRING(s FROM 3), POSITION('o' IN s), s || '|' || s, REVERSE(s)
FROM t;
