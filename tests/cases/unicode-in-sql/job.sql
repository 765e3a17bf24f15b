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
  tag STRING,
  hit BOOLEAN,
  cut STRING,
  rep STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, '≈' || s || '😀', s LIKE '_本%', SUBSTRING(s FROM 2 FOR 1), REPLACE(s, '😀', ':)') FROM t WHERE s <> '👩‍👩‍👧';
