CREATE TABLE orders (
  id INT,
  customer STRING,
  region STRING,
  amount DECIMAL(10, 2),
  qty INT,
  price DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/orders.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  n BIGINT,
  customers BIGINT,
  biggest DOUBLE,
  smallest DOUBLE,
  total DOUBLE,
  mean DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

-- The inner aggregate takes its rows back, so the outer one must retract.
INSERT INTO results
SELECT n, COUNT(*), MAX(total), MIN(total), SUM(total), AVG(total)
FROM (SELECT customer, region, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY customer, region) AS inner_counts
GROUP BY n;
