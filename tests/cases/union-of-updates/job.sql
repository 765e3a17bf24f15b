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
  k STRING,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, COUNT(*) FROM orders GROUP BY customer
UNION ALL
SELECT region, COUNT(*) FROM orders GROUP BY region
UNION ALL
SELECT customer, CAST(id AS BIGINT) FROM orders WHERE price > 90;
