CREATE TABLE numbers (
  id INT,
  b BIGINT,
  i INT,
  d DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  b_sum BIGINT,
  i_sum INT,
  d_sum DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

CREATE TABLE steps (
  id INT,
  b_next BIGINT,
  i_twice INT,
  d_twice DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/steps',
  'format' = 'json'
);

-- Integers wrap around, doubles become infinite.
EXECUTE STATEMENT SET BEGIN
INSERT INTO results SELECT SUM(b), SUM(i), SUM(d) FROM numbers;
INSERT INTO steps SELECT id, b + 1, i * 2, d * 2 FROM numbers;
END;
