CREATE TABLE t (
  id INT,
  x DOUBLE,
  y DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  pw DOUBLE, sq DOUBLE, lnx DOUBLE, l10 DOUBLE, l2 DOUBLE, lxy DOUBLE, ex DOUBLE,
  sn DOUBLE, cs DOUBLE, tn DOUBLE, asn DOUBLE, acs DOUBLE, atn DOUBLE, at2 DOUBLE, ct DOUBLE, sh DOUBLE, ch DOUBLE, th DOUBLE,
  dg DOUBLE, rd DOUBLE, pi_value DOUBLE, e_value DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, POWER(x, y), SQRT(x), LN(x), LOG10(x), LOG2(x), LOG(y, x), EXP(y), SIN(x), COS(x), TAN(x),
  ASIN(x / 100), ACOS(x / 100), ATAN(x), ATAN2(x, y), COT(x), SINH(y), COSH(y), TANH(y), DEGREES(x), RADIANS(x), PI(), E()
FROM t;
