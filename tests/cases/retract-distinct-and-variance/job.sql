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
  counts BIGINT,
  regions BIGINT,
  spread DOUBLE,
  sample DOUBLE
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT customer, COUNT(DISTINCT n), COUNT(*), VAR_POP(total), STDDEV_SAMP(total)
FROM (SELECT customer, region, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY customer, region) AS inner_counts
GROUP BY customer;
