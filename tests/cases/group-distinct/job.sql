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
  region STRING,
  customers BIGINT,
  qtys BIGINT,
  qty_sum INT,
  dear_customers BIGINT,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT region, COUNT(DISTINCT customer), COUNT(DISTINCT qty), SUM(DISTINCT qty), COUNT(DISTINCT customer) FILTER (WHERE price > 80), COUNT(*)
FROM orders
GROUP BY region;
