CREATE TABLE t (
  id INT,
  m MAP<STRING, INT>,
  r ROW<name STRING, pos ROW<x INT, y INT>>,
  a ARRAY<ROW<k STRING, v INT>>
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  v INT, card INT, ks ARRAY<STRING>, nm STRING, x INT, whole ROW<name STRING, pos ROW<x INT, y INT>>, k2 STRING, made MAP<STRING, INT>, made_row ROW<a INT, b STRING>, missing INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, m['a'], CARDINALITY(m), ARRAY_SORT(MAP_KEYS(m)), r.name, r.pos.x, r, a[2].k, MAP['id', id, 'twice', id * 2], ROW(id, r.name), m['none']
FROM t;
