CREATE TABLE t (
  id INT,
  x DOUBLE,
  y DOUBLE,
  m DECIMAL(12, 4),
  i INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  abs_x DOUBLE, abs_m DECIMAL(12, 4), sgn DOUBLE, sgn_i INT, ceil_x DOUBLE, floor_x DOUBLE, ceil_m DECIMAL(12, 0), floor_m DECIMAL(12, 0),
  round0 DOUBLE, round2 DOUBLE, round_m DECIMAL(12, 2), round_neg INT, trunc_m DECIMAL(12, 1), trunc_x DOUBLE, md INT, neg INT, bin_i STRING, hex_i STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, ABS(x), ABS(m), SIGN(x), SIGN(i), CEIL(x), FLOOR(x), CEIL(m), FLOOR(m), ROUND(x), ROUND(x, 2), ROUND(m, 2), ROUND(i, -1),
  TRUNCATE(m, 1), TRUNCATE(x, 1), MOD(i, 7), -i, BIN(i), HEX(i)
FROM t;
