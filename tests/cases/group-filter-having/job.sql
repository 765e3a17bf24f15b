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
  dear BIGINT,
  cheap DOUBLE,
  nothing INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, COUNT(*), COUNT(*) FILTER (WHERE price > 50), SUM(price) FILTER (WHERE price <= 50), MAX(qty) FILTER (WHERE qty > 100)
FROM orders
GROUP BY customer
HAVING COUNT(*) > 12 AND SUM(price) < 1100;
