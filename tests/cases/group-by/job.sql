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
  n_amount BIGINT,
  amount DECIMAL(38, 2),
  qty INT,
  avg_qty INT,
  avg_amount DECIMAL(38, 6),
  min_price DOUBLE,
  max_price DOUBLE,
  min_region STRING,
  latest TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, COUNT(*), COUNT(amount), SUM(amount), SUM(qty), AVG(qty), AVG(amount), MIN(price), MAX(price), MIN(region), MAX(ts)
FROM orders
GROUP BY customer;
