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
  region STRING,
  n BIGINT,
  amount DECIMAL(38, 2),
  total DOUBLE,
  dear BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, region, COUNT(*), SUM(amount), SUM(price), COUNT(*) FILTER (WHERE price >= 50)
FROM orders
GROUP BY customer, region;
