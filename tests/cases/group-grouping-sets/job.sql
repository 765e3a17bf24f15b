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
  customer STRING,
  g_region BIGINT,
  g_customer BIGINT,
  which BIGINT,
  n BIGINT
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT region, customer, GROUPING(region), GROUPING(customer), GROUPING_ID(region, customer), COUNT(*)
FROM orders
GROUP BY GROUPING SETS ((region, customer), (customer), ());
