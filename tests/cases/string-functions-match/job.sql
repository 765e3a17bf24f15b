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
  lk BOOLEAN, nlk BOOLEAN, esc BOOLEAN, sim BOOLEAN, rx BOOLEAN, starts BOOLEAN, ends BOOLEAN,
  rr STRING, re STRING, rc INT, ri INT, rs STRING, si STRING, ins INT, loc INT, el STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, s LIKE '%o%', s NOT LIKE '_', s LIKE '\%%' ESCAPE '\', s SIMILAR TO '%(World|words)%',
  REGEXP(s, '[A-Z]{2}'), STARTSWITH(s, 'a'), ENDSWITH(s, 'c'),
  REGEXP_REPLACE(s, '[aeiou]', '.'), REGEXP_EXTRACT(s, '([A-Za-z]+)[ X]([A-Za-z]+)', 2),
  REGEXP_COUNT(s, '[a-z]+'), REGEXP_INSTR(s, 'o'), REGEXP_SUBSTR(s, '[a-z]+'),
  SPLIT_INDEX(s, ',', 1), INSTR(s, 'X'), LOCATE('o', s, 6), ELT(2, 'a', s)
FROM t;
