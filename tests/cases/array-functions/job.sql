CREATE TABLE t (
  id INT,
  a ARRAY<INT>,
  b ARRAY<INT>,
  s ARRAY<STRING>
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  card INT, first_item INT, lit ARRAY<INT>, has BOOLEAN, dist ARRAY<INT>, app ARRAY<INT>, pre ARRAY<INT>, cat ARRAY<INT>, uni ARRAY<INT>, inter ARRAY<INT>, exc ARRAY<INT>,
  joined STRING, mx INT, mn INT, pos INT, rem ARRAY<INT>, rev ARRAY<INT>, sl ARRAY<INT>, srt ARRAY<INT>
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, CARDINALITY(a), a[1], ARRAY[id, 2, 3], ARRAY_CONTAINS(a, 2), ARRAY_DISTINCT(a), ARRAY_APPEND(a, 9), ARRAY_PREPEND(a, 9), ARRAY_CONCAT(a, b),
  ARRAY_UNION(a, b), ARRAY_INTERSECT(a, b), ARRAY_EXCEPT(a, b), ARRAY_JOIN(s, '-', 'nil'), ARRAY_MAX(a), ARRAY_MIN(a), ARRAY_POSITION(a, 2), ARRAY_REMOVE(a, 2),
  ARRAY_REVERSE(a), ARRAY_SLICE(a, 2, 3), ARRAY_SORT(a)
FROM t;
