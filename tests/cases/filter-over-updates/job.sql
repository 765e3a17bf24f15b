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
  customer STRING,
  n BIGINT,
  label STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, n, CASE WHEN total > 900 THEN 'big' ELSE 'small' END
FROM (SELECT customer, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY customer) AS t
WHERE MOD(n, 2) = 0;
