CREATE TABLE t (
  id INT,
  x DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json',
  'on-error' = 'skip'${throttle}
);

CREATE TABLE results (
  id INT,
  x DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results SELECT id, x FROM t;
