CREATE TABLE t (
  id INT,
  name STRING,
  x DOUBLE,
  ok BOOLEAN,
  tags ARRAY<STRING>
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  o STRING,
  o2 STRING,
  a STRING,
  a2 STRING,
  s STRING,
  sa STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, JSON_OBJECT('id' VALUE id, 'name' VALUE name, 'ok' VALUE ok),
  JSON_OBJECT(KEY 'n' VALUE name, KEY 'x' VALUE x ABSENT ON NULL),
  JSON_ARRAY(id, name, ok), JSON_ARRAY(id, name NULL ON NULL), JSON_STRING(name), JSON_STRING(tags)
FROM t;
