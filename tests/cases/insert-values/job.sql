CREATE TABLE sums (
  k STRING,
  n BIGINT,
  total DECIMAL(38, 2)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/sums',
  'format' = 'debezium-json'
);

CREATE TABLE literals (
  id INT,
  s STRING,
  d DOUBLE,
  t TIMESTAMP(3),
  b BOOLEAN
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/literals',
  'format' = 'json'
);

EXECUTE STATEMENT SET
BEGIN
INSERT INTO literals VALUES
  (1, 'it''s', 1.5, TIMESTAMP '2024-02-29 12:00:00.500', TRUE),
  (2, CAST(NULL AS STRING), -2.25E3, CAST(NULL AS TIMESTAMP(3)), FALSE),
  (3, '日本', 0.0, TIMESTAMP '1970-01-01 00:00:00', CAST(NULL AS BOOLEAN));
INSERT INTO sums
SELECT k, COUNT(*), SUM(x)
FROM (VALUES ('a', CAST(1.10 AS DECIMAL(8, 2))), ('b', CAST(2.20 AS DECIMAL(8, 2))), ('a', CAST(3.30 AS DECIMAL(8, 2)))) AS v (k, x)
GROUP BY k;
END;
