CREATE TABLE t (
  id INT,
  name STRING,
  x DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.csv',
  'format' = 'csv',
  'csv.header' = 'false',
  'csv.field-delimiter' = ';',
  'csv.null-literal' = 'NIL'${throttle}
);

CREATE TABLE results (
  id INT,
  name STRING,
  x DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results SELECT id, name, x FROM t;
