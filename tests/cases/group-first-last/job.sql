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
  first_id INT,
  last_id INT,
  first_customer STRING,
  last_qty INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

-- Nulls are passed over.
INSERT INTO results
SELECT region, FIRST_VALUE(id), LAST_VALUE(id), FIRST_VALUE(customer), LAST_VALUE(qty)
FROM orders GROUP BY region;
