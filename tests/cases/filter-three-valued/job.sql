CREATE TABLE t (
  id INT,
  a BOOLEAN,
  b BOOLEAN,
  x INT,
  y INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  both_true BOOLEAN,
  any_true BOOLEAN,
  not_a BOOLEAN,
  a_true BOOLEAN,
  a_not_true BOOLEAN,
  a_false BOOLEAN,
  a_unknown BOOLEAN,
  eq BOOLEAN,
  distinct_from BOOLEAN,
  not_distinct BOOLEAN,
  in_list BOOLEAN,
  not_in_list BOOLEAN,
  not_between BOOLEAN
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

CREATE TABLE kept (
  id INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/kept',
  'format' = 'json'
);

EXECUTE STATEMENT SET BEGIN
INSERT INTO results
SELECT id, a AND b, a OR b, NOT a, a IS TRUE, a IS NOT TRUE, a IS FALSE, a IS UNKNOWN,
  x = y, x IS DISTINCT FROM y, x IS NOT DISTINCT FROM y,
  x IN (1, 3), x NOT IN (1, 3), x NOT BETWEEN y AND 3
FROM t;
-- A condition that is null keeps no row.
INSERT INTO kept SELECT id FROM t WHERE a AND x <> y OR b;
END;
