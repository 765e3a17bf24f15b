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
  v STRING, vi INT, vd STRING, ve STRING, deep STRING, q STRING, qw STRING, ex BOOLEAN, isj BOOLEAN, isobj BOOLEAN, isarr BOOLEAN, isval BOOLEAN
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, JSON_VALUE(s, '$.a'), JSON_VALUE(s, '$.i' RETURNING INTEGER NULL ON EMPTY NULL ON ERROR), CASE WHEN s IS JSON THEN JSON_VALUE(s, 'lax $.zz' DEFAULT 'none' ON EMPTY) END,
  JSON_VALUE(s, '$.f'), JSON_VALUE(s, '$.b.d[2].e'), JSON_QUERY(s, '$.b'), JSON_QUERY(s, '$.a' WITH WRAPPER),
  JSON_EXISTS(s, '$.b.c'), s IS JSON, s IS JSON OBJECT, s IS JSON ARRAY, s IS JSON SCALAR
FROM t;
